r"""The draft of Gearman's protocol as frames: packets <-> bytes, for both roles.

The law: a `Reader` never raises, looks at each byte once, copies a body once, and believes no length before
it is checked against the limit. What reads a body says None when it is not as it should be.

    \0JOB  04  00 00 00 0F  "resize" 00 "u7" 00  00  01  "args"      a job_create_req

Every integer is big-endian, and both directions have the same magic.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

NOOP: Final = 0x00
WORKER_CONNECT: Final = 0x01
WORKER_DISCONNECT: Final = 0x02
WORKER_SLEEP: Final = 0x03
JOB_CREATE_REQ: Final = 0x04
JOB_CREATE_RES: Final = 0x05
JOB_ASSIGN_REQ: Final = 0x06
JOB_ASSIGN_RES: Final = 0x07
JOB_STATUS_ANNOUNCE: Final = 0x08
JOB_STATUS_REQ: Final = 0x09
JOB_STATUS_RES: Final = 0x0A
JOB_COMPLETE_ANNOUNCE: Final = 0x0B
JOB_COMPLETE_REQ: Final = 0x0C
JOB_COMPLETE_RES: Final = 0x0D
TASK_START: Final = 0x0E
"""Not in the draft: a task has begun outside the hall."""
TASK_RESULT: Final = 0x0F
"""Not in the draft: a task has ended outside the hall."""

NAMES: Final[dict[int, str]] = {
    NOOP: "noop",
    WORKER_CONNECT: "worker_connect",
    WORKER_DISCONNECT: "worker_disconnect",
    WORKER_SLEEP: "worker_sleep",
    JOB_CREATE_REQ: "job_create_req",
    JOB_CREATE_RES: "job_create_res",
    JOB_ASSIGN_REQ: "job_assign_req",
    JOB_ASSIGN_RES: "job_assign_res",
    JOB_STATUS_ANNOUNCE: "job_status_announce",
    JOB_STATUS_REQ: "job_status_req",
    JOB_STATUS_RES: "job_status_res",
    JOB_COMPLETE_ANNOUNCE: "job_complete_announce",
    JOB_COMPLETE_REQ: "job_complete_req",
    JOB_COMPLETE_RES: "job_complete_res",
    TASK_START: "task_start",
    TASK_RESULT: "task_result",
}

SYNC_WAIT: Final = 0
ASYNC_HANDLE: Final = 1
ASYNC_THROW_AWAY: Final = 2
JOB_TYPES: Final = 3

FLAG_NORMAL: Final = 0
FLAG_HIGH: Final = 1
FLAG_LOW: Final = 2
PRIORITY_FLAGS: Final = 3

MAGIC: Final = b"\0JOB"
HEADER_BYTES: Final = 9
PACKET_BYTES_MAX: Final = 65 << 20
"""The body of one packet, unless the door says otherwise: the largest payload and room for its name."""
WORD_MAX: Final = 0xFFFF_FFFF

INCOMPLETE: Final = 0
"""The status in job_complete_res of a job that has not ended; otherwise it is the seconds that it took."""
ERROR_STATUS: Final = WORD_MAX
"""The status that makes a job_complete_res an error; its code is one of these, its data says it in words."""
BAD_MAGIC: Final = 1
PACKET_TOO_LARGE: Final = 2
UNKNOWN_TYPE: Final = 3
SERVER_ONLY: Final = 4
BAD_BODY: Final = 5
BAD_REQUEST: Final = 6
TOO_LARGE: Final = 7
UNKNOWN_HANDLE: Final = 8
NO_TASK: Final = 9
BUSY: Final = 10
FULL: Final = 11
STORE_DOWN: Final = 12
CLOSING: Final = 13
NOT_KEPT: Final = 14

_WORD: Final = Struct(">I")
_STATUS: Final = Struct(">III")
_TIME: Final = Struct(">Q")
_PIECE_BYTES_MIN: Final = 4096
"""Smaller pieces of a body are gathered, so that a trickle of bytes does not cost an object each."""
_GATHERED_BYTES_MAX: Final = 65536
_HEADS: Final = [MAGIC + bytes([number]) for number in range(256)]


# --- what is written


def opening(packet_type: int, before: bytes, data_bytes: int) -> bytes:
    """Everything of a packet but the data at its end, which has `data_bytes`."""
    return _HEADS[packet_type] + _WORD.pack(len(before) + data_bytes) + before


def pack(packet_type: int, body: bytes = b"") -> bytes:
    """A whole packet."""
    return _HEADS[packet_type] + _WORD.pack(len(body)) + body


def pack_worker_connect(names: list[bytes]) -> bytes:
    return pack(WORKER_CONNECT, b"\0".join(names))


def pack_job_create_req(name: bytes, key: bytes, flags: int, job_type: int, args: bytes) -> bytes:
    return pack(JOB_CREATE_REQ, b"\0".join((name, key, bytes((flags, job_type)))) + args)


def pack_job_create_res(handle: bytes = b"") -> bytes:
    return pack(JOB_CREATE_RES, handle)


def pack_job_assign_res(name: bytes, args: bytes) -> bytes:
    return pack(JOB_ASSIGN_RES, name + b"\0" + args)


def pack_job_status_announce(numerator: int, denominator: int, remaining_s: int = 0) -> bytes:
    return pack(JOB_STATUS_ANNOUNCE, _STATUS.pack(numerator, denominator, remaining_s))


def pack_job_status_req(handle: bytes) -> bytes:
    return pack(JOB_STATUS_REQ, handle)


def pack_job_status_res(numerator: int, denominator: int, remaining_s: int = 0) -> bytes:
    return pack(JOB_STATUS_RES, _STATUS.pack(numerator, denominator, remaining_s))


def pack_job_complete_announce(code: int, data: bytes) -> bytes:
    return pack(JOB_COMPLETE_ANNOUNCE, bytes((code,)) + data)


def pack_job_complete_req(handle: bytes) -> bytes:
    return pack(JOB_COMPLETE_REQ, handle)


def pack_job_complete_res(status: int, code: int, data: bytes = b"") -> bytes:
    return pack(JOB_COMPLETE_RES, complete_before(status, code) + data)


def complete_before(status: int, code: int) -> bytes:
    """What stands before the data in a job_complete_res."""
    return _WORD.pack(status) + bytes((code,))


def pack_error(code: int, text: str) -> bytes:
    """The one error there is."""
    return pack_job_complete_res(ERROR_STATUS, code, text.encode(errors="replace"))


def pack_task_start(name: bytes, key: bytes, time_us: int) -> bytes:
    return pack(TASK_START, b"\0".join((name, key, _TIME.pack(time_us))))


def pack_task_result(name: bytes, key: bytes, time_us: int, code: int, data: bytes) -> bytes:
    return pack(TASK_RESULT, b"\0".join((name, key, _TIME.pack(time_us))) + bytes((code,)) + data)


NOOP_PACKET: Final = pack(NOOP)
WORKER_DISCONNECT_PACKET: Final = pack(WORKER_DISCONNECT)
WORKER_SLEEP_PACKET: Final = pack(WORKER_SLEEP)
JOB_ASSIGN_REQ_PACKET: Final = pack(JOB_ASSIGN_REQ)
NO_JOB_PACKET: Final = pack(JOB_ASSIGN_RES)
"""The answer to job_assign_req that is no job: "no, sorry"."""


# --- what is read


def parse_worker_connect(body: bytes, names_max: int) -> list[bytes] | None:
    """The names of jobs, counted before they are cut; a NUL after the last one does no harm."""
    if not body:
        return []
    if body.endswith(b"\0"):
        body = body[:-1]
    if body.count(b"\0") >= names_max:
        return None
    names = body.split(b"\0")
    return names if all(names) else None


def parse_job_create_req(body: bytes) -> tuple[bytes, bytes, int, int, bytes] | None:
    """Name, key, flags, type, args."""
    first = body.find(b"\0")
    second = body.find(b"\0", first + 1)
    if first < 0 or second < 0 or len(body) < second + 3:
        return None
    return body[:first], body[first + 1 : second], body[second + 1], body[second + 2], body[second + 3 :]


def parse_job_assign_res(body: bytes) -> tuple[bytes, bytes] | None:
    """Name and args; an empty body, which is no job, is for the caller to see."""
    cut = body.find(b"\0")
    return (body[:cut], body[cut + 1 :]) if cut > 0 else None


def parse_job_status(body: bytes) -> tuple[int, int, int] | None:
    """Numerator, denominator and seconds left, of an announcement or of an answer."""
    if len(body) != _STATUS.size:
        return None
    numerator, denominator, remaining_s = _STATUS.unpack(body)
    return numerator, denominator, remaining_s


def parse_job_complete_announce(body: bytes) -> tuple[int, bytes] | None:
    """Code and data."""
    return (body[0], body[1:]) if body else None


def parse_job_complete_res(body: bytes) -> tuple[int, int, bytes] | None:
    """Status, code and data."""
    return (int.from_bytes(body[:4], "big"), body[4], body[5:]) if len(body) >= 5 else None


def parse_task_start(body: bytes) -> tuple[bytes, bytes, int] | None:
    """Name, key and microseconds since 1970."""
    second = _second_nul(body)
    if second < 0 or len(body) != second + 9:
        return None
    name, _, key = body[:second].partition(b"\0")
    return name, key, int.from_bytes(body[second + 1 :], "big")


def parse_task_result(body: bytes) -> tuple[bytes, bytes, int, int, bytes] | None:
    """Name, key, microseconds since 1970, code and data."""
    second = _second_nul(body)
    if second < 0 or len(body) < second + 10:
        return None
    name, _, key = body[:second].partition(b"\0")
    time_us = int.from_bytes(body[second + 1 : second + 9], "big")
    return name, key, time_us, body[second + 9], body[second + 10 :]


def _second_nul(body: bytes) -> int:
    first = body.find(b"\0")
    return body.find(b"\0", first + 1) if first >= 0 else -1


class WireError:
    """Why a stream of packets cannot be read any further."""

    __slots__ = ("code", "text")

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        """BAD_MAGIC or PACKET_TOO_LARGE."""
        self.text = text


class Reader:
    """Cuts a stream into packets, however it arrives."""

    __slots__ = ("_gathered", "_head", "_missing", "_pieces", "_type", "error", "limit")

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        self.limit = packet_bytes_max
        self.error: WireError | None = None
        """Set once the stream has gone wrong; nothing is read from then on."""
        self._head = b""
        """The start of a header of which the rest has not arrived."""
        self._type = 0
        self._missing = 0
        """Bytes of the body under way that have not arrived; 0: none is under way."""
        self._pieces: list[bytes | bytearray] = []
        self._gathered = bytearray()
        """Small pieces that follow the last of `_pieces`."""

    @property
    def idle(self) -> bool:
        """The stream stands between two packets."""
        return not self._missing and not self._head

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The packets that `data` completes: type and body of each."""
        packets: list[tuple[int, bytes]] = []
        if self.error is not None:
            return packets
        at = 0
        end = len(data)
        if self._missing:
            at = self._continue_body(data, packets)
        elif self._head:
            at = self._continue_head(data, packets)
        while end - at >= HEADER_BYTES:
            size = data[at + 5] << 24 | data[at + 6] << 16 | data[at + 7] << 8 | data[at + 8]
            if size > self.limit or data[at : at + 4] != MAGIC:
                self._refuse(data[at : at + HEADER_BYTES])
                return packets
            body_at = at + HEADER_BYTES
            after = body_at + size
            if after > end:
                self._type = data[at + 4]
                self._missing = size
                self._keep(data, body_at, end)
                return packets
            packets.append((data[at + 4], data[body_at:after]))
            at = after
        if at < end:
            head = data[at:]
            if MAGIC.startswith(head[:4]):
                self._head = head
            else:
                self._refuse(head)
        return packets

    def _continue_head(self, data: bytes, packets: list[tuple[int, bytes]]) -> int:
        """Complete a header that was cut; says where in `data` to read on."""
        at = HEADER_BYTES - len(self._head)
        head = self._head + data[:at]
        if not MAGIC.startswith(head[:4]):
            self._refuse(head)
            return len(data)
        if len(head) < HEADER_BYTES:
            self._head = head
            return len(data)
        size = int.from_bytes(head[5:], "big")
        if size > self.limit:
            self._refuse(head)
            return len(data)
        self._head = b""
        if not size:
            packets.append((head[4], b""))
            return at
        self._type = head[4]
        self._missing = size
        return self._continue_body(data, packets, at)

    def _continue_body(self, data: bytes, packets: list[tuple[int, bytes]], at: int = 0) -> int:
        """Complete a body that was cut; says where in `data` to read on."""
        after = min(at + self._missing, len(data))
        self._keep(data, at, after)
        if not self._missing:
            if self._gathered:
                self._pieces.append(self._gathered)
                self._gathered = bytearray()
            packets.append((self._type, b"".join(self._pieces)))
            self._pieces = []
        return after

    def _keep(self, data: bytes, at: int, after: int) -> None:
        self._missing -= after - at
        if after - at < _PIECE_BYTES_MIN:
            self._gathered += data[at:after]
            if len(self._gathered) < _GATHERED_BYTES_MAX:
                return
        if self._gathered:
            self._pieces.append(self._gathered)
            self._gathered = bytearray()
        if after - at >= _PIECE_BYTES_MIN:
            self._pieces.append(data[at:after])

    def _refuse(self, head: bytes) -> None:
        self._head = b""
        if head[:4] != MAGIC[: len(head)]:
            self.error = WireError(BAD_MAGIC, f"a packet starts with {MAGIC!r} here; this one does not")
        else:
            size = int.from_bytes(head[5:9], "big")
            text = f"a packet of {size} bytes is over the limit of {self.limit}"
            self.error = WireError(PACKET_TOO_LARGE, text)
