"""The contract between a dialect, the engine and a transport: one `Session` for each connection.

A transport feeds it bytes, the core calls its notices, and both leave what there is to say in `out`. The
engine takes `out` at the end of the turn: at once, or, when a `pledge` is in it, after the commit that
makes it true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.observer import Observer
from hiringhall.core.peer import Peer

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """The transport's side of one connection, as the engine uses it."""

    def write(self, messages: list[bytes]) -> None:  # noqa: ARG002
        """Send in order; the list stays the caller's. Where there are no messages they are one stream.
        The transport closes a peer that lets more pile up than its limit.
        """
        raise BrokenLaw("a transport's link says how it writes")

    def close(self) -> None:
        """Send what was written, then close."""
        raise BrokenLaw("a transport's link says how it closes")

    def pause(self) -> None:
        """Read no more from this peer: too much of what it asked for waits for the store."""

    def resume(self) -> None:
        """Read again."""


OUT_BYTES_MAX: Final = 256 << 20

REFUSED_SUBMIT: Final = "refused_submit"
"""What a peer submitted was not taken in."""
BAD_INPUT: Final = "bad_input"
"""What a peer sent cannot be read in its protocol."""
TLS_FAILURE: Final = "tls_failure"
"""A connection did not get through its TLS handshake."""
DOOR_FULL: Final = "door_full"
"""A peer was turned away because the door has as many as it may."""
SLOW_PEER: Final = "slow_peer"
"""A peer was dropped because it does not take what it is sent."""
OVER_BUDGET: Final = "over_budget"
"""A peer was dropped because all of them together kept too much memory, and it the most."""


class Caller:
    """Who is at the other end, as far as the transport knows."""

    __slots__ = ("address", "descriptor", "door", "port", "route")

    def __init__(
        self, address: str, descriptor: int, route: tuple[bytes, ...] = (), port: int = 0, door: str = ""
    ) -> None:
        self.address = address
        """Without the port: "127.0.0.1", or "" where there is none."""
        self.descriptor = descriptor
        """The file descriptor, for lists that people read; -1 where there is none."""
        self.route = route
        """The frames before its messages, where there are frames: the first is its ZeroMQ identity."""
        self.port = port
        """Its own port, where the transport knows it; 0 otherwise."""
        self.door = door
        """The name of the door that it came in by, for the log."""

    @property
    def is_loopback(self) -> bool:
        """It is on this machine, as its address tells."""
        address = self.address.removeprefix("::ffff:")
        return address == "::1" or address.startswith("127.")

    @property
    def name(self) -> str:
        """Address and port: "127.0.0.1:40312" or "[::1]:40312"."""
        if not self.port:
            return self.address
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@mypyc_attr(allow_interpreted_subclasses=True)
class Reporter(Observer):
    """Receives also what sessions and transports report. This one ignores all of it."""

    def report(self, kind: str, text: str, caller: Caller, queue: bytes = b"", key: bytes = b"") -> None:
        """Something is worth a line in the log. `kind` is a word such as those above, `text` is for people.
        `queue` and `key` are those of the job that it is about; empty: it is about none.
        """

    def slow_commit(self, took_us: int, changes: int) -> None:
        """The store took longer for a commit than it should."""

    def paused(self, paused_us: int) -> None:
        """The hall was paused for so long, until now."""


_SILENT: Final = Reporter()


class Pledge:
    """Something said that a commit must make true."""

    __slots__ = ("ending", "job", "place", "watching")

    def __init__(self, place: int, job: Job | None, watching: bool, ending: bool) -> None:
        self.place = place
        """Where in the session's output."""
        self.job = job
        """The durable job that it acknowledges, or tells the end of, if it does either."""
        self.watching = watching
        """The submit that it acknowledges also made the session a watcher."""
        self.ending = ending
        """It tells the end of the job."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Session(Peer):
    """One peer's conversation. Subclasses give `receive`, `recalled` and the notices."""

    def __init__(self, caller: Caller) -> None:
        super().__init__()
        self.caller = caller
        self.link: Link | None = None
        """Set by the transport; None once the connection is gone."""
        self.input_bytes = 0
        """Input that is kept because the rest of its packet has not come, or because it cannot be answered yet.
        Dialects whose packets may be long keep this up to date."""
        self.reporter = _SILENT
        """Set by the engine."""
        self.outbox: list[Session] = []
        """The engine's list of sessions with something in `out`; shared by all of them."""
        self.out: list[bytes] = []
        """What to send, in order. The session is in `outbox` exactly while this is not empty."""
        self.out_bytes = 0
        """The length of `out`."""
        self.out_bytes_max = OUT_BYTES_MAX
        """With more than this to say at once the session closes; set by the transport."""
        self.pledges: list[Pledge] | None = None
        """What in `out` is true only after a commit."""
        self.waits_if_idle = False
        """Something in `out` is better on disk first, if that takes no long wait."""
        self.sealed: list[bytes] | None = None
        """For the engine only: what goes out before `out`, once the commit under way returns."""
        self.sealed_pledges: list[Pledge] | None = None
        self.answered_by = 0
        """For the engine only: the number of the latest commit that it waited for."""
        self.prompt = False
        """It is sent its part at once, however busy the hall is: set by a transport that sends message by
        message and gains nothing by waiting for more."""
        self.delivered = 0
        """Messages that were passed on to the network: counted by a transport that sends message by message."""
        self.closing = False
        """Close the connection once `out` is sent, and take nothing more from it."""

    def receive(self, data: bytes) -> None:  # noqa: ARG002
        """Take in what arrived, however it was cut up. Never raises on a peer's input."""
        raise BrokenLaw("a dialect's session says what it receives")

    def recalled(self, job: Job, refusal: Refusal) -> bytes:  # noqa: ARG002
        """What to send in place of the acknowledgement of `job`, because the store failed."""
        raise BrokenLaw("a dialect's session says how it takes back an acknowledgement")

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:  # noqa: ARG002
        """What the history knows of a job that the session asked for; None: nothing. `trouble` says why it
        could not be asked.
        """
        raise BrokenLaw("a dialect's session that looks things up says what it does with them")

    def job_handle(self, job: Job) -> bytes:
        """What this dialect calls a job, for the log."""
        return b"%d" % job.id

    def report(self, kind: str, text: str, queue: bytes = b"", key: bytes = b"") -> None:
        """Say in the log that something went wrong with this peer: REFUSED_SUBMIT or BAD_INPUT. The text may
        quote what the peer sent: the log escapes and shortens it.
        """
        self.reporter.report(kind, text, self.caller, queue, key)

    def attended(self, listeners: int) -> None:
        """On a bus: so many listen to what is said; 0: nobody does."""

    @property
    def idle(self) -> bool:
        """It does no work, waits for nothing and has nothing to be told: nobody misses it."""
        return self.worker is None and not self.watching and not self.out and self.sealed is None

    def unreached(self) -> None:
        """The peer is about to be parted, because a message to it cannot be delivered: what it was given by a
        message that is not among those `delivered`, it has never seen.
        """

    def parted(self) -> None:
        """The connection is gone; the core has been told."""

    def send(self, data: bytes) -> bool:
        """Say something that is true already. After `finish` nothing more is said: then it is False."""
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
        """Say something that is true only once this turn's changes are on disk."""
        if self.send(data):
            self._pledge(None, watching=False, ending=False)

    def send_after_commit_if_idle(self, data: bytes) -> None:
        """Say something that should be on disk, and is no promise: it waits for a commit only while the hall
        is at leisure.
        """
        if self.send(data):
            self.waits_if_idle = True

    def acknowledge(self, job: Job, data: bytes, *, watching: bool = False) -> None:
        """Tell somebody who asked for a durable job that it is taken in: a pledge until it is on disk."""
        if self.send(data) and job.terms.durable and not job.stored:
            self._pledge(job, watching=watching, ending=False)

    def conclude(self, job: Job, data: bytes) -> None:
        """Tell a watcher how `job` ended: a pledge when it is durable. It goes with an acknowledgement that is
        recalled.
        """
        if self.send(data) and job.terms.durable:
            self._pledge(job, watching=False, ending=True)

    def finish(self) -> None:
        """Close once everything said so far is sent."""
        if not self.closing:
            self.closing = True
            if not self.out:
                self.outbox.append(self)
                self.out.append(b"")

    def _pledge(self, job: Job | None, *, watching: bool, ending: bool) -> None:
        if self.pledges is None:
            self.pledges = []
        self.pledges.append(Pledge(len(self.out) - 1, job, watching, ending))
