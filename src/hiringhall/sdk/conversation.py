"""The client's side of the native protocol, without I/O: bytes in, events out.

Invariant: a request is in `pending` from the moment it is made until it is answered, refused or given up. When
a connection is lost, requests that mean the same on the next one stay and are sent again; those that belong to
the connection, such as a worker's reports, fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.msgpack import Decoder

from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.sdk.errors import HallError

# Kinds that are not in `wire` belong to the frames below.
LOG: Final = "log"
SUBSCRIBE: Final = "subscribe"
SUMMARY: Final = "summary"
CLOSING: Final = "closing"
"""The code of an error: the hall is closing, and another try may meet the next one."""

BOUND: Final = frozenset(
    {
        wire.WORK,
        wire.SLOTS,
        wire.BEAT,
        wire.PROGRESS,
        wire.CHUNK,
        wire.FINISH,
        wire.FAIL,
        wire.RELEASE,
        wire.RENEW,
        wire.LOSE,
        wire.DRAIN,
        wire.UNDRAIN,
        wire.RUN_SCHEDULE,
        LOG,
        SUBSCRIBE,
    }
)
"""Kinds of requests that mean nothing on another connection."""
FATAL: Final = frozenset({wire.BAD_FRAME, wire.NO_HELLO, wire.UNAUTHORIZED})
"""Errors after which the hall closes the connection: sending the same again would not help."""

JobSpec: TypeAlias = tuple[bytes, bytes, msgspec.Raw, bytes, int, list[int]]
"""A job as it is submitted: queue, payload, terms, key, delay_us, parents."""


class Welcome(msgspec.Struct, frozen=True):
    """The answer to hello."""

    version: int
    hall: str
    features: list[str]
    frame_bytes_max: int = wire.FRAME_BYTES_MAX
    payload_bytes_max: int = 1 << 62
    actor: str = "local"
    """Who the hall takes this program for: the name of its token."""
    role: str = "admin"
    """What it may do: viewer, operator or admin."""


class Ended(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A watched job has ended: `state` is "done", "failed" or "cancelled"."""

    job_id: int
    state: str
    code: int
    result: bytes
    truncated: bool = False
    """The hall no longer has the whole result."""


class Progressed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A watched job reports progress."""

    job_id: int
    numerator: int
    denominator: int


class Chunked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A watched job sends a piece of data, or a warning."""

    job_id: int
    data: bytes
    warning: bool


class Logged(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A watched job writes a log line."""

    job_id: int
    data: bytes


class Assigned(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The worker gets a job. `run_us` 0: no time limit. `resources`: what it may use, if it needs some."""

    lease: int
    job_id: int
    queue: bytes
    payload: bytes
    key: bytes
    attempt: int
    run_us: int
    resources: bytes = b""


class Revoked(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Stop: the job of this lease was cancelled, took too long or went to another worker."""

    lease: int


class Lost(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The hall has not heard from this worker for too long. It must send `work` again."""


class QueueCounts(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Jobs of a queue by state; the totals are of all jobs that have ended."""

    ready: int
    running: int
    waiting: int
    failed: int
    paused: bool
    done_total: int
    failed_total: int


class Summary(msgspec.Struct, frozen=True):
    """Counts of the hall: see `subscribe` on the page of the protocol."""

    queues: dict[bytes, QueueCounts]
    workers: int
    busy: int


Notice: TypeAlias = Ended | Progressed | Chunked | Logged | Assigned | Revoked | Lost | Summary


class Request:
    """Something that the hall was asked for. A subclass says what becomes of the answer."""

    __slots__ = ("again", "body", "kind", "number", "sent", "trouble_s")

    def __init__(self, kind: str, body: Any) -> None:
        self.kind = kind
        self.body = body
        self.number = 0
        """Given by the conversation."""
        self.sent = False
        """It was written on the present connection."""
        self.again = False
        """It may have reached the hall over a connection that was lost."""
        self.trouble_s = -1.0
        """Since when it waits for a connection; below 0: it does not."""

    def encode(self) -> bytes:
        """Its frame."""
        return wire.encode(self.kind, self.number, self.body)

    def answered(self, body: Any) -> None:
        """The hall did what was asked."""

    def failed(self, error: HallError) -> None:
        """The hall refused, or no hall answers."""


class Welcomed(msgspec.Struct, frozen=True):
    """The hall has answered hello: what is `unsent` may go out."""

    welcome: Welcome


class Answered(msgspec.Struct, frozen=True, gc=False):
    """The hall did what was asked."""

    request: Request
    body: Any


class Refused(msgspec.Struct, frozen=True):
    """The hall refused. `request` is None for a frame that wanted no answer."""

    request: Request | None
    code: str
    text: str


class Broken(msgspec.Struct, frozen=True):
    """Nothing more can be read: the connection must be closed. `fatal`: the next one would end alike."""

    reason: str
    fatal: bool
    code: str = ""
    """That of the hall's error; empty: there was none."""


Event: TypeAlias = Notice | Welcomed | Answered | Refused | Broken


def _decoder(kind: Any) -> Callable[[msgspec.Raw], Any]:
    return Decoder(kind).decode


_NOTICES: Final[dict[str, Callable[[msgspec.Raw], Notice]]] = {
    wire.ENDED: _decoder(Ended),
    wire.PROGRESS: _decoder(Progressed),
    wire.CHUNK: _decoder(Chunked),
    LOG: _decoder(Logged),
    wire.ASSIGN: _decoder(Assigned),
    wire.REVOKE: _decoder(Revoked),
    SUMMARY: _decoder(Summary),
}
_LOST: Final = Lost()
_ANSWER: Final = _decoder(Any)
_ERROR: Final = _decoder(tuple[str, str])
_WELCOME: Final = _decoder(Welcome)
_HELLO_NUMBER: Final = 1


def hello_body(name: str, token: str) -> dict[str, Any]:
    """What a program says first."""
    body: dict[str, Any] = {"version": wire.VERSION, "name": name}
    if token:
        body["token"] = token
    return body


class Conversation:
    """What was asked and not answered, over all connections to the hall."""

    __slots__ = ("_address", "_name", "_next_number", "_person", "_reader", "_token", "greeted", "pending")

    def __init__(self, name: str = "", token: str = "", person: str = "", address: str = "") -> None:
        self._name = name
        self._token = token
        self._person = person
        self._address = address
        self._next_number = _HELLO_NUMBER
        self._reader = wire.Reader()
        self.greeted = False
        """The hall has answered hello on the present connection."""
        self.pending: dict[int, Request] = {}
        """In the order in which they were made."""

    # --- what goes out

    def hello(self) -> bytes:
        """Begin a new connection: its first frame."""
        self._reader = wire.Reader()
        self.greeted = False
        body = hello_body(self._name, self._token)
        if self._person:
            body["person"] = self._person
        if self._address:
            body["address"] = self._address
        return wire.encode(wire.HELLO, _HELLO_NUMBER, body)

    def add(self, request: Request) -> None:
        """Make a request. It goes out with `frame`, when there is a connection."""
        self._next_number += 1
        request.number = self._next_number
        self.pending[request.number] = request

    def unsent(self) -> list[Request]:
        """Requests that the present connection has not seen."""
        return [request for request in self.pending.values() if not request.sent]

    def frame(self, request: Request) -> bytes:
        """The frame of a request, to be written now."""
        request.sent = True
        request.trouble_s = -1.0
        return request.encode()

    def forget(self, request: Request) -> None:
        """Nobody waits for the answer any longer."""
        self.pending.pop(request.number, None)

    def lose(self) -> list[Request]:
        """The connection has ended. The requests that fail with it; the others are to be sent again."""
        self.greeted = False
        failed = []
        for request in list(self.pending.values()):
            if request.sent and request.kind in BOUND:
                failed.append(self.pending.pop(request.number))
            elif request.sent:
                request.sent = False
                request.again = True
        return failed

    # --- what comes in

    def receive(self, data: bytes) -> list[Event]:
        """The events in these bytes, in order."""
        events: list[Event] = []
        try:
            for frame in self._reader.feed(data):
                kind, number, body = wire.decode_frame(frame)
                if kind == wire.OK:
                    self._ok(number, body, events)
                elif (decode := _NOTICES.get(kind)) is not None:
                    events.append(decode(body))
                elif kind == wire.ERROR:
                    self._error(number, body, events)
                elif kind == wire.LOST:
                    events.append(_LOST)
                # A hall of a later version may say more than this client understands.
        except (wire.BadFrame, msgspec.MsgspecError, ValueError, RecursionError) as error:
            events.append(Broken(f"it does not speak the native protocol: {error}", fatal=True))
        else:
            if self._reader.error:
                events.append(
                    Broken(f"it does not speak the native protocol: {self._reader.error}", fatal=True)
                )
        return events

    def _ok(self, number: int, body: msgspec.Raw, events: list[Event]) -> None:
        if not self.greeted and number == _HELLO_NUMBER:
            self.greeted = True
            events.append(Welcomed(_WELCOME(body)))
            return
        request = self.pending.pop(number, None)
        if request is not None:
            events.append(Answered(request, _ANSWER(body)))

    def _error(self, number: int, body: msgspec.Raw, events: list[Event]) -> None:
        code, text = _ERROR(body)
        if code in FATAL or not self.greeted:
            events.append(Broken(text, code != CLOSING, code))
            return
        request = self.pending.get(number)
        if request is not None and code == CLOSING and request.kind not in BOUND:
            # It stays in `pending`: the next connection may be to a hall that takes it.
            events.append(Broken(text, fatal=False))
            return
        self.pending.pop(number, None)
        events.append(Refused(request, code, text))
