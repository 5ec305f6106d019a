r"""The draft of Gearman's protocol as frames: packets <-> bytes, for both roles.

Reading is that of `PacketReader`, whatever arrives. A function that parses a body returns None if the body is
malformed.

    \0JOB  04  00 00 00 0F  "resize" 00 "u7" 00  00  01  "args"      a job_create_req

Every integer is big-endian, and both directions have the same magic.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from hiringhall.dialects.packets import PacketReader

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
"""Not in the draft: a task was started outside the hall."""
TASK_RESULT: Final = 0x0F
"""Not in the draft: a task has ended outside the hall."""

NAMES: Final[dict[int, str]] = dict(
    enumerate(
        (
            "noop",
            "worker_connect",
            "worker_disconnect",
            "worker_sleep",
            "job_create_req",
            "job_create_res",
            "job_assign_req",
            "job_assign_res",
            "job_status_announce",
            "job_status_req",
            "job_status_res",
            "job_complete_announce",
            "job_complete_req",
            "job_complete_res",
            "task_start",
            "task_result",
        )
    )
)
"""By the types above, which are numbered in this order."""

SYNC_WAIT: Final = 0
ASYNC_HANDLE: Final = 1
ASYNC_THROW_AWAY: Final = 2
JOB_TYPES: Final = 3

FLAG_NORMAL: Final = 0
FLAG_HIGH: Final = 1
FLAG_LOW: Final = 2
PRIORITY_FLAGS: Final = 3

MAGIC: Final = b"\0JOB"
TYPE_BYTES: Final = 1
HEADER_BYTES: Final = 9
PACKET_BYTES_MAX: Final = 65 << 20
"""The default limit for the body of a packet: the largest payload, and room for its name."""
WORD_MAX: Final = 0xFFFF_FFFF

INCOMPLETE: Final = 0
"""The status in job_complete_res of a job that has not ended; of one that has, it is the seconds it took."""
ERROR_STATUS: Final = WORD_MAX
"""The status of a job_complete_res that is an error: its code is one of those below, its data is a text."""
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
_HEADS: Final = [MAGIC + bytes([number]) for number in range(256)]


# --- writing


def opening(packet_type: int, before: bytes, data_bytes: int) -> bytes:
    """A packet without the data at its end, which has `data_bytes`."""
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
    """The body of a job_complete_res up to its data."""
    return _WORD.pack(status) + bytes((code,))


def pack_error(code: int, text: str) -> bytes:
    """The only error of the protocol."""
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
"""The answer to job_assign_req if there is no job."""


# --- reading


def parse_worker_connect(body: bytes, names_max: int) -> list[bytes] | None:
    """The names of jobs, counted before they are split. A NUL after the last one is allowed."""
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
    """Name and args. The caller checks for an empty body, which means that there is no job."""
    cut = body.find(b"\0")
    return (body[:cut], body[cut + 1 :]) if cut > 0 else None


def parse_job_status(body: bytes) -> tuple[int, int, int] | None:
    """Numerator, denominator and seconds left, of job_status_announce or job_status_res."""
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


class Reader(PacketReader):
    """Reads packets; both directions have the same magic."""

    __slots__ = ()

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        super().__init__(MAGIC, TYPE_BYTES, packet_bytes_max)
