"""The contract between a dialect, the engine and a transport: one `Session` for each connection.

A transport passes bytes to it, the core calls its notices, and its answers to both are collected in `out`. The
engine sends `out` at the end of the turn: at once, or, if it holds a `pledge`, after the commit that makes the
pledge true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.observer import Observer
from hiringhall.core.peer import Peer

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow, HistoryPage, OutputPage
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job, ParentRef


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """The transport's side of one connection, as the engine uses it."""

    def write(self, messages: list[bytes]) -> None:  # noqa: ARG002
        """Send the messages in order. The caller keeps the list. A stream transport sends them as one stream.
        The transport closes a peer that has more unsent bytes than its limit.
        """
        raise BrokenLaw("a link must override write")

    def close(self) -> None:
        """Send what was written, then close."""
        raise BrokenLaw("a link must override close")

    @property
    def has_unsent(self) -> bool:
        """The peer has not read all that was written, as far as is known."""
        return False

    def pause(self) -> None:
        """Stop reading from this peer: too many of its answers wait for the store."""

    def resume(self) -> None:
        """Start reading again."""


OUT_BYTES_MAX: Final = 256 << 20

REFUSED_SUBMIT: Final = "refused_submit"
"""A submit was refused."""
BAD_INPUT: Final = "bad_input"
"""A peer broke its protocol."""
TLS_FAILURE: Final = "tls_failure"
"""The TLS handshake of a connection failed."""
DOOR_FULL: Final = "door_full"
"""A peer was refused because the door has its maximum of peers."""
SLOW_PEER: Final = "slow_peer"
"""A peer was dropped because it does not read what it is sent."""
OVER_BUDGET: Final = "over_budget"
"""A peer was dropped because the buffers of all peers were too large, and its own was the largest."""


UNAUTHORIZED: Final = "unauthorized"
"""A peer showed no token where one is needed, or a wrong one; or its token has ended."""
FORBIDDEN: Final = "forbidden"
"""A peer asked for something that its role does not allow."""


UNIX: Final = "unix"
"""The address of a peer that has connected to a Unix socket."""


class Caller:
    """What the transport knows of the peer."""

    __slots__ = ("address", "descriptor", "door", "port", "route")

    def __init__(
        self, address: str, descriptor: int, route: tuple[bytes, ...] = (), port: int = 0, door: str = ""
    ) -> None:
        self.address = address
        """Without the port: "127.0.0.1"; UNIX for a Unix socket; "" if there is none."""
        self.descriptor = descriptor
        """The file descriptor, for lists that people read; -1 if there is none."""
        self.route = route
        """ZeroMQ only: the frames before each of its messages. The first is its identity."""
        self.port = port
        """Its own port; 0 if the transport does not know it."""
        self.door = door
        """The name of the door that it connected to, for the log."""

    @property
    def is_loopback(self) -> bool:
        """Whether its address is on this machine."""
        address = self.address.removeprefix("::ffff:")
        return address == "::1" or address.startswith("127.") or address == UNIX

    @property
    def name(self) -> str:
        """Address and port: "127.0.0.1:40312" or "[::1]:40312"."""
        if not self.port:
            return self.address
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Reporter(Observer):
    """An observer that also receives what sessions and transports report. This one ignores everything."""

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        """Write a line to the log. `kind` is one of the words above, `text` is for people. `queue` and
        `key` are those of the job concerned; empty: it concerns no job.
        """

    def slow_commit(self, took_us: int, changes: int) -> None:
        """A commit took longer than it should."""

    def unknown_commit(self, changes: int) -> None:
        """Nobody knows whether a commit has succeeded. The store finds out."""

    def settled_commit(self, changes: int, *, kept: bool) -> None:
        """It is known again."""

    def unsettled_commit(self, job_ids: list[int]) -> None:
        """The hall closes, and does not know whether the last changes of these jobs are on disk."""

    def paused(self, paused_us: int) -> None:
        """A pause of the hall has just ended."""


_SILENT: Final = Reporter()


class Pledge:
    """A message that is true only after a commit."""

    __slots__ = ("ending", "job", "place", "reported", "watched", "watching")

    def __init__(
        self,
        place: int,
        job: Job | None,
        watching: bool,
        ending: bool,
        reported: bool = False,
        watched: Job | None = None,
    ) -> None:
        self.place = place
        """Its index in the session's output."""
        self.job = job
        """The durable job whose submit or end it tells; None: it tells neither."""
        self.watching = watching
        """The acknowledged submit also made the session a watcher."""
        self.ending = ending
        """It tells the job's end."""
        self.reported = reported
        """It answers the worker that reported what became of the job."""
        self.watched = watched
        """The job that the session is told it watches, if it answers such a request. The session may watch it
        by a submit that is refused later."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Session(Peer):
    """One peer's side of a dialect. Subclasses define `receive`, `withdrawn` and the notices."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self.caller = caller
        self.link: Link | None = None
        """Set by the transport; None once the connection is closed."""
        self.input_bytes = 0
        """Bytes of input that are kept because the rest of the packet has not arrived, or because they cannot
        be answered yet. Dialects with long packets keep this up to date."""
        self.reporter = _SILENT
        """Set by the engine."""
        self.outbox: list[Session] = []
        """The engine's list of sessions with output; shared by all of them."""
        self.out: list[bytes] = []
        """What to send, in order. The session is in `outbox` exactly while this is not empty."""
        self.out_bytes = 0
        """The bytes in `out`."""
        self.out_bytes_max = OUT_BYTES_MAX
        """A session with more output than this closes; set by the transport."""
        self.pledges: list[Pledge] | None = None
        """The messages in `out` that are true only after a commit."""
        self.waits_if_idle = False
        """`out` waits for a commit if the hall is idle; see `send_after_commit_if_idle`."""
        self.sealed: list[bytes] | None = None
        """For the engine only: output that is sent before `out`, once the commit under way returns."""
        self.sealed_pledges: list[Pledge] | None = None
        self.answered_by = 0
        """For the engine only: the number of the latest commit that this session waited for."""
        self.prompt = False
        """Its output is never coalesced: set by a transport that sends message by message and gains nothing by
        waiting for more."""
        self.delivered = 0
        """Messages passed on to the network: counted by a transport that sends message by message."""
        self.closing = False
        """The connection is closed once `out` is sent; further input is ignored."""

    def receive(self, data: bytes) -> None:  # noqa: ARG002
        """Process what arrived, however it was cut up. Never raises because of a peer's input."""
        raise BrokenLaw("a session must override receive")

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002
        """The commit of `job` failed: what to send instead of `said`, its unsent acknowledgement."""
        raise BrokenLaw("a session that acknowledges jobs must override withdrawn")

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:  # noqa: ARG002
        """The answer to a look-up: the line of the history, or None if it has none. `trouble` says why the
        history could not be read; empty: it was.
        """
        raise BrokenLaw("a session that looks jobs up must override looked_up")

    def keys_looked_up(
        self,
        ticket: int,  # noqa: ARG002
        found: dict[ParentRef, EndRow],  # noqa: ARG002
        trouble: str,  # noqa: ARG002
    ) -> None:
        """The answer to a look-up of keys: the latest line of each queue and key that the history has, without
        its result. `trouble` says why the history could not be read; empty: it was.
        """
        raise BrokenLaw("a session that looks keys up must override keys_looked_up")

    def searched(self, number: int, page: HistoryPage | None, trouble: str) -> None:  # noqa: ARG002
        """The answer to a search: a page of the history. `trouble` says why it could not be read; empty: it
        was.
        """
        raise BrokenLaw("a session that searches the history must override searched")

    def output_looked_up(self, job_id: int, page: OutputPage, trouble: str) -> None:  # noqa: ARG002
        """The answer to the oldest question for output: what the workers of a job said. `trouble` says why it
        could not be read; empty: it was.
        """
        raise BrokenLaw("a session that asks for output must override output_looked_up")

    def job_handle(self, job: Job) -> bytes:
        """The name of a job in this dialect, for the log."""
        return b"%d" % job.id

    def report(self, kind: str, text: str, queue: bytes = b"", key: bytes = b"") -> None:
        """Log a mistake of this peer: REFUSED_SUBMIT or BAD_INPUT. The text may quote what the peer sent: the
        log escapes and shortens it.
        """
        self.reporter.report(kind, text, self.caller, queue, key)

    def listeners_changed(self, listeners: int) -> None:
        """On a bus: the number of listeners has changed."""

    @property
    def idle(self) -> bool:
        """It is not a worker, watches no job and has no output: it can be forgotten."""
        return self.worker is None and not self.watching and not self.out and self.sealed is None

    def undelivered(self) -> None:
        """A transport that sends message by message has lost the peer, and is about to disconnect it. The peer
        has not received the messages that are not counted in `delivered`.
        """

    def disconnected(self) -> None:
        """The connection is closed; the core has been told."""

    def send(self, data: bytes) -> bool:
        """Send a message that is true already. False: the session is closing, and the message is dropped."""
        if self.closing:
            return False
        out = self.out
        if not out:
            self.outbox.append(self)
        out.append(data)
        self.out_bytes += len(data)
        if self.out_bytes > self.out_bytes_max:
            self.closing = True
        return True

    def pledge(self, data: bytes) -> None:
        """Send a message once this turn's changes are on disk."""
        if self.send(data):
            self._pledge(None, watching=False, ending=False)

    def send_after_commit_if_idle(self, data: bytes) -> None:
        """Send a message whose facts should be on disk, but need not be: it waits for a commit only if the hall
        is idle.
        """
        if self.send(data):
            self.waits_if_idle = True

    def acknowledge(self, job: Job, data: bytes, *, watching: bool = False) -> None:
        """Tell a submitter that its job was accepted: a pledge if the job is durable and not yet on disk."""
        if self.send(data) and job.terms.durable and not job.stored:
            self._pledge(job, watching=watching, ending=False)

    def acknowledge_watch(self, job: Job, data: bytes, *, watching: bool) -> None:
        """Tell a watcher that it will hear how `job` goes. `watching`: it has not watched the job before; if it
        has, then perhaps by a submit that waits for the store, and is refused together with it.
        """
        if self.send(data):
            if job.terms.durable and not job.stored:
                self._pledge(job, watching=watching, ending=False, watched=job)
            elif self.pledges is not None or self.sealed_pledges is not None:
                self._pledge(None, watching=False, ending=False, watched=job)

    def acknowledge_all(self, jobs: list[Job], data: bytes, *, watching: bool = False) -> None:
        """Acknowledge several durable jobs with one message: a pledge until all of them are on disk."""
        if self.send(data):
            for job in jobs:
                self._pledge(job, watching=watching, ending=False)

    def confirm_report(self, job: Job, data: bytes) -> None:
        """Tell a worker that what it reported about a durable job is on disk: a pledge. If the job itself did
        not get there, the worker is refused like the submitter.
        """
        if self.send(data):
            self._pledge(None if job.stored else job, watching=False, ending=False, reported=True)

    def conclude(self, job: Job, data: bytes) -> None:
        """Tell a watcher how `job` ended: a pledge if the job is durable. If its acknowledgement is withdrawn,
        this message is dropped too.
        """
        if self.send(data) and job.terms.durable:
            self._pledge(job, watching=False, ending=True)

    def finish(self) -> None:
        """Close the connection once all output so far is sent."""
        if not self.closing:
            self.closing = True
            if not self.out:
                self.outbox.append(self)
                self.out.append(b"")

    def _pledge(
        self,
        job: Job | None,
        *,
        watching: bool,
        ending: bool,
        reported: bool = False,
        watched: Job | None = None,
    ) -> None:
        if self.pledges is None:
            self.pledges = []
        self.pledges.append(Pledge(len(self.out) - 1, job, watching, ending, reported, watched))
