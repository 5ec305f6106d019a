"""Frames of the native protocol: a length, then one MessagePack array of kind, number and body.

    00 00 00 0d                    length of what follows: 4 bytes, big-endian
    93                             an array of three:
       a6 63 61 6e 63 65 6c        kind: "cancel"
       07                          number: the answer has the same; 0: only an error is answered
       92 05 c4 00                 body: what the kind requires, here [5, ""]

Invariant: the length of a frame is checked before memory is taken for it, and nothing that a peer sends is
decoded without a type.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import Meta, MsgspecError, Raw
from msgspec.msgpack import Decoder, Encoder

VERSION: Final = 1
HEADER_BYTES: Final = 4
FRAME_BYTES_MAX: Final = (64 << 20) + (1 << 20)
"""The longest payload, and room for the rest of its frame."""
JOBS_MAX: Final = 10_000
"""Jobs of one submit."""
LIST_MAX: Final = 1000
"""Entries of one page of a listing."""

# What a peer says.
HELLO: Final = "hello"
SUBMIT: Final = "submit"
WATCH: Final = "watch"
UNWATCH: Final = "unwatch"
JOB: Final = "job"
CANCEL: Final = "cancel"
RETRY: Final = "retry"
OUTPUT: Final = "output"
QUEUES: Final = "queues"
QUEUE: Final = "queue"
JOBS: Final = "jobs"
COUNT: Final = "count"
HISTORY: Final = "history"
DOORS: Final = "doors"
AUCTIONS: Final = "auctions"
SETTINGS: Final = "settings"
METRICS: Final = "metrics"
SUBSCRIBE: Final = "subscribe"
SCHEDULES: Final = "schedules"
SCHEDULE: Final = "schedule"
UNSCHEDULE: Final = "unschedule"
PAUSE_SCHEDULE: Final = "pause_schedule"
RESUME_SCHEDULE: Final = "resume_schedule"
RUN_SCHEDULE: Final = "run_schedule"
WORKERS: Final = "workers"
WORKER: Final = "worker"
UNDRAIN: Final = "undrain"
WORK: Final = "work"
SLOTS: Final = "slots"
BEAT: Final = "beat"
PROGRESS: Final = "progress"
CHUNK: Final = "chunk"
LOG: Final = "log"
FINISH: Final = "finish"
FAIL: Final = "fail"
RELEASE: Final = "release"
RENEW: Final = "renew"
LOSE: Final = "lose"
AUDIT: Final = "audit"
PAUSE: Final = "pause"
RESUME: Final = "resume"
LIMIT: Final = "limit"
UNLIMIT: Final = "unlimit"
FLOWS: Final = "flows"
FLOW: Final = "flow"
FLOW_NODES: Final = "flow_nodes"
WAIT_FLOW: Final = "wait_flow"
CANCEL_FLOW: Final = "cancel_flow"
RETRY_FLOW: Final = "retry_flow"
GRAPH: Final = "graph"

# What goes both ways, beside PROGRESS, CHUNK and LOG.
DRAIN: Final = "drain"

# What the hall says.
OK: Final = "ok"
ERROR: Final = "error"
ENDED: Final = "ended"
ASSIGN: Final = "assign"
REVOKE: Final = "revoke"
LOST: Final = "lost"
SUMMARY: Final = "summary"

# Codes of errors, beside the reasons of a `Refusal`.
BAD_FRAME: Final = "bad_frame"
"""The stream cannot be read on: the connection is closed."""
UNKNOWN_KIND: Final = "unknown_kind"
NO_HELLO: Final = "no_hello"
UNKNOWN_QUEUE: Final = "unknown_queue"
UNKNOWN_WORKER: Final = "unknown_worker"
UNAUTHORIZED: Final = "unauthorized"
"""The peer has no token, or one that does not hold: the connection is closed."""
FORBIDDEN: Final = "forbidden"
"""The role of the peer does not allow it."""
NOT_KEPT: Final = "not_kept"
"""The job has ended, and nothing of it is kept."""

UNKNOWN_FLOW: Final = "unknown_flow"
"""The hall has no flow of this name."""

_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Time = Annotated[int, Meta(ge=0, le=3_153_600_000_000_000)]
"""Microseconds, up to a hundred years: `core.needs.TIME_US_MAX`, which mypyc cannot read in a type."""
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Level = Annotated[int, Meta(ge=0, le=2)]
_Position = Annotated[int, Meta(ge=0, le=1_000_000_000)]
_Code = Annotated[int, Meta(ge=1, le=255)]
# An int with bounds beside a tuple crashes msgspec 0.22 when its decoder is collected: the core checks the ids.
JobSpecBody = tuple[bytes, bytes, Raw, bytes, _Time, list[int | tuple[bytes, bytes]]]

HELLO_BODY: Final = Decoder(dict[str, Raw])
"""{"version": 1, "name": "app 4711@host", "token": "hall_...", "person": "anna"}"""
SUBMIT_BODY: Final = Decoder(tuple[_Level, list[JobSpecBody]])
"""[watch, [[queue, payload, terms, key, delay_us, parents], ...]]"""
UNLESS_DONE: Final = "unless_done"
"""In place of `again`: jobs that failed or were cancelled run again, with what the submit says."""
SUBMIT_AGAIN_BODY: Final = Decoder(tuple[_Level, list[JobSpecBody], bool | Literal["unless_done"]])
"""[watch, [[queue, payload, terms, key, delay_us, parents], ...], again]"""
WATCH_BODY: Final = Decoder(tuple[_Number, Annotated[int, Meta(ge=1, le=2)]])
"""[job, level]"""
ID_BODY: Final = Decoder(tuple[_Number])
"""[job]"""
QUEUE_BODY: Final = Decoder(tuple[bytes])
"""[queue]"""
CANCEL_BODY: Final = Decoder(tuple[_Number, bytes])
"""[job, reason]"""
FLOW_BODY: Final = Decoder(tuple[bytes])
"""[flow]"""
FLOW_NODES_BODY: Final = Decoder(tuple[bytes, _Number])
"""[flow, position]"""
WAIT_FLOW_BODY: Final = Decoder(tuple[bytes, _Time | None])
"""[flow, timeout_us], or nil for no limit"""
CANCEL_FLOW_BODY: Final = Decoder(tuple[bytes, bytes])
"""[flow, reason]"""
OUTPUT_BODY: Final = Decoder(tuple[_Number, _Number])
"""[job, position]"""
LIST_BODY: Final = Decoder(tuple[_Position, _Count])
"""[position, count]"""
FILTERED_LIST_BODY: Final = Decoder(tuple[_Position, _Count, bytes])
"""[position, count, name]"""
SUBSCRIBE_BODY: Final = Decoder(tuple[_Time])
"""[interval_us]"""
SCHEDULES_BODY: Final = Decoder(tuple[_Position, _Count] | None)
"""[position, count], or nil"""
NAME_BODY: Final = Decoder(tuple[Raw])
"""[name]"""
NIL_BODY: Final = Decoder(None)
WORK_BODY: Final = Decoder(
    tuple[
        bytes,
        _Count,
        list[tuple[bytes, _Time, _Count]],
        Annotated[int, Meta(ge=-1, le=3_153_600_000_000_000)],
        _Time,
    ]
)
"""[name, slots, [[queue, run_us, skill], ...], stays_us, silence_us]"""
WORK_WITH_BODY: Final = Decoder(
    tuple[
        bytes,
        _Count,
        list[tuple[bytes, _Time, _Count]],
        Annotated[int, Meta(ge=-1, le=3_153_600_000_000_000)],
        _Time,
        tuple[str, bytes],
    ]
)
"""The same with [resources, machine] at the end."""
SLOTS_BODY: Final = Decoder(tuple[_Count])
"""[slots]"""
PROGRESS_BODY: Final = Decoder(tuple[_Number, _Number, _Number, _Time])
"""[lease, numerator, denominator, remaining_us]"""
CHUNK_BODY: Final = Decoder(tuple[_Number, bytes, bool])
"""[lease, data, warning]"""
LOG_BODY: Final = Decoder(tuple[_Number, bytes])
"""[lease, data]"""
FINISH_BODY: Final = Decoder(tuple[_Number, bytes])
"""[lease, result]; of `lose`: [lease, reason]"""
FAIL_BODY: Final = Decoder(tuple[_Number, _Code, bytes, bool])
"""[lease, code, data, retry]"""
RELEASE_BODY: Final = Decoder(tuple[_Number, bool])
"""[lease, front]"""
TERMS_BODY: Final = Decoder(dict[str, bool | int | str])
"""{"retries": 3, "timeout_us": 60000000}: see `terms.py`"""
STATED_BODY: Final = Decoder(dict[str, Raw])
"""The same with a name in it: {"retries": 3, "flow": "nightly"}"""
TERM_BODY: Final = Decoder(bool | int | str)
BYTES_BODY: Final = Decoder(bytes)

VERSION_BODY: Final = Decoder(int)
TEXT_BODY: Final = Decoder(str)
AUDIT_BODY: Final = Decoder(tuple[_Count])
"""[count]"""

_FRAME: Final = Decoder(tuple[str, _Number, Raw])
_ENCODER: Final = Encoder()
_ARRAYS_OF_THREE: Final = (b"\x93", b"\xdc\0\x03", b"\xdd\0\0\0\x03")
"""How such an array begins: in its usual form, and in the two that are longer than they need be."""
_ARRAYS_OF_SIX: Final = (b"\x96", b"\xdc\0\x06", b"\xdd\0\0\0\x06")
_Body = TypeVar("_Body")


class BadFrame(Exception):
    """The frame cannot be read."""


class BadBody(Exception):
    """The body is not what its kind requires."""


class Reader:
    """Cuts a stream into frames. A part of a frame is kept until the rest has come, and is not scanned
    again.
    """

    __slots__ = ("_bytes_max", "_needed", "_parts", "error", "kept")

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._needed = 0
        self.kept = 0
        """Bytes that wait for the rest of their frame."""
        self.error = ""
        """Why nothing more can be read; empty: no error."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now, each without its length."""
        if self._parts:
            self._parts.append(data)
            self.kept += len(data)
            if self.kept < self._needed:
                return []
            data = b"".join(self._parts)
            self._parts.clear()
            self.kept = 0
        frames: list[bytes] = []
        at = 0
        size = len(data)
        while size - at >= HEADER_BYTES:
            begin = at + HEADER_BYTES
            length = int.from_bytes(data[at:begin], "big")
            if length > self._bytes_max:
                self.error = (
                    f"a frame may have {self._bytes_max} bytes, this one says {length} (frame_bytes_max)"
                )
                return frames
            if size - begin < length:
                self._keep(data[at:], HEADER_BYTES + length)
                return frames
            frames.append(data[begin : begin + length])
            at = begin + length
        if at < size:
            self._keep(data[at:], HEADER_BYTES)
        return frames

    def _keep(self, data: bytes, needed: int) -> None:
        self._parts.append(data)
        self.kept = len(data)
        self._needed = needed


def decode_frame(data: bytes) -> tuple[str, int, Raw]:
    """Kind, number and body of a frame. Raises BadFrame."""
    try:
        return _FRAME.decode(data)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise BadFrame(f"a frame must be an array of kind, number and body: {error}") from error


def decode(decoder: Decoder[_Body], body: bytes | Raw) -> _Body:
    """A body of a known type. Raises BadBody."""
    try:
        return decoder.decode(body)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise BadBody(str(error)) from error


def decode_submit(body: Raw) -> tuple[int, list[JobSpecBody], bool | str]:
    """The watch level, the jobs, and whether they are sent again, or UNLESS_DONE. Raises BadBody."""
    if bytes(memoryview(body)[:5]).startswith(_ARRAYS_OF_THREE):
        return decode(SUBMIT_AGAIN_BODY, body)
    watch, jobs = decode(SUBMIT_BODY, body)
    return watch, jobs, False


def decode_work(body: Raw) -> tuple[bytes, int, list[tuple[bytes, int, int]], int, int, tuple[str, bytes]]:
    """What a worker states; without resources, these are empty. Raises BadBody."""
    if bytes(memoryview(body)[:5]).startswith(_ARRAYS_OF_SIX):
        return decode(WORK_WITH_BODY, body)
    return (*decode(WORK_BODY, body), ("", b""))


def decode_list(body: Raw) -> tuple[int, int, bytes | None]:
    """The position, the count, at most LIST_MAX, and the name to filter by, if there is one. Raises BadBody."""
    if bytes(memoryview(body)[:5]).startswith(_ARRAYS_OF_THREE):
        position, count, name = decode(FILTERED_LIST_BODY, body)
        return position, min(count, LIST_MAX), name
    position, count = decode(LIST_BODY, body)
    return position, min(count, LIST_MAX), None


def encode(kind: str, number: int, body: Any) -> bytes:
    """A frame with its length."""
    data = _ENCODER.encode((kind, number, body))
    return len(data).to_bytes(HEADER_BYTES, "big") + data


def encode_body(body: Any) -> Raw:
    """A body that is encoded already, to be sent more than once."""
    return Raw(_ENCODER.encode(body))
