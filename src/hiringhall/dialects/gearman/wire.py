r"""The Gearman binary protocol as frames: packets <-> bytes, for both roles.

Reading is that of `PacketReader`, whatever arrives.

    \0REQ  00 00 00 07  00 00 00 0B  "reverse" 00 "" 00 "abc"      a SUBMIT_JOB
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from hiringhall.dialects.packets import PacketReader

CAN_DO: Final = 1
CANT_DO: Final = 2
RESET_ABILITIES: Final = 3
PRE_SLEEP: Final = 4
NOOP: Final = 6
SUBMIT_JOB: Final = 7
JOB_CREATED: Final = 8
GRAB_JOB: Final = 9
NO_JOB: Final = 10
JOB_ASSIGN: Final = 11
WORK_STATUS: Final = 12
WORK_COMPLETE: Final = 13
WORK_FAIL: Final = 14
GET_STATUS: Final = 15
ECHO_REQ: Final = 16
ECHO_RES: Final = 17
SUBMIT_JOB_BG: Final = 18
ERROR: Final = 19
STATUS_RES: Final = 20
SUBMIT_JOB_HIGH: Final = 21
SET_CLIENT_ID: Final = 22
CAN_DO_TIMEOUT: Final = 23
ALL_YOURS: Final = 24
WORK_EXCEPTION: Final = 25
OPTION_REQ: Final = 26
OPTION_RES: Final = 27
WORK_DATA: Final = 28
WORK_WARNING: Final = 29
GRAB_JOB_UNIQ: Final = 30
JOB_ASSIGN_UNIQ: Final = 31
SUBMIT_JOB_HIGH_BG: Final = 32
SUBMIT_JOB_LOW: Final = 33
SUBMIT_JOB_LOW_BG: Final = 34
SUBMIT_JOB_SCHED: Final = 35
SUBMIT_JOB_EPOCH: Final = 36
SUBMIT_REDUCE_JOB: Final = 37
SUBMIT_REDUCE_JOB_BACKGROUND: Final = 38
GRAB_JOB_ALL: Final = 39
JOB_ASSIGN_ALL: Final = 40
GET_STATUS_UNIQUE: Final = 41
STATUS_RES_UNIQUE: Final = 42

REQUEST: Final = b"\0REQ"
"""The magic of packets to a server."""
RESPONSE: Final = b"\0RES"
"""The magic of packets from a server."""
TYPE_BYTES: Final = 4
HEADER_BYTES: Final = 12
PACKET_BYTES_MAX: Final = 65 << 20
"""The default limit for the body of a packet: the largest payload, and room for its handle."""

NAMES: Final[dict[int, str]] = {
    CAN_DO: "CAN_DO",
    CANT_DO: "CANT_DO",
    RESET_ABILITIES: "RESET_ABILITIES",
    PRE_SLEEP: "PRE_SLEEP",
    NOOP: "NOOP",
    SUBMIT_JOB: "SUBMIT_JOB",
    JOB_CREATED: "JOB_CREATED",
    GRAB_JOB: "GRAB_JOB",
    NO_JOB: "NO_JOB",
    JOB_ASSIGN: "JOB_ASSIGN",
    WORK_STATUS: "WORK_STATUS",
    WORK_COMPLETE: "WORK_COMPLETE",
    WORK_FAIL: "WORK_FAIL",
    GET_STATUS: "GET_STATUS",
    ECHO_REQ: "ECHO_REQ",
    ECHO_RES: "ECHO_RES",
    SUBMIT_JOB_BG: "SUBMIT_JOB_BG",
    ERROR: "ERROR",
    STATUS_RES: "STATUS_RES",
    SUBMIT_JOB_HIGH: "SUBMIT_JOB_HIGH",
    SET_CLIENT_ID: "SET_CLIENT_ID",
    CAN_DO_TIMEOUT: "CAN_DO_TIMEOUT",
    ALL_YOURS: "ALL_YOURS",
    WORK_EXCEPTION: "WORK_EXCEPTION",
    OPTION_REQ: "OPTION_REQ",
    OPTION_RES: "OPTION_RES",
    WORK_DATA: "WORK_DATA",
    WORK_WARNING: "WORK_WARNING",
    GRAB_JOB_UNIQ: "GRAB_JOB_UNIQ",
    JOB_ASSIGN_UNIQ: "JOB_ASSIGN_UNIQ",
    SUBMIT_JOB_HIGH_BG: "SUBMIT_JOB_HIGH_BG",
    SUBMIT_JOB_LOW: "SUBMIT_JOB_LOW",
    SUBMIT_JOB_LOW_BG: "SUBMIT_JOB_LOW_BG",
    SUBMIT_JOB_SCHED: "SUBMIT_JOB_SCHED",
    SUBMIT_JOB_EPOCH: "SUBMIT_JOB_EPOCH",
    SUBMIT_REDUCE_JOB: "SUBMIT_REDUCE_JOB",
    SUBMIT_REDUCE_JOB_BACKGROUND: "SUBMIT_REDUCE_JOB_BACKGROUND",
    GRAB_JOB_ALL: "GRAB_JOB_ALL",
    JOB_ASSIGN_ALL: "JOB_ASSIGN_ALL",
    GET_STATUS_UNIQUE: "GET_STATUS_UNIQUE",
    STATUS_RES_UNIQUE: "STATUS_RES_UNIQUE",
}

_WORD: Final = Struct(">I")
_SIZES: Final = [_WORD.pack(number) for number in range(1024)]
"""The size field of small packets, made in advance."""


def pack_size(size: int) -> bytes:
    """Four bytes, big-endian: the last field of a header."""
    return _SIZES[size] if size < 1024 else _WORD.pack(size)


def request_head(packet_type: int) -> bytes:
    """Magic and type of a packet to the server; its size and its body follow."""
    return REQUEST + _WORD.pack(packet_type)


def response_head(packet_type: int) -> bytes:
    """Magic and type of a packet from the server; its size and its body follow."""
    return RESPONSE + _WORD.pack(packet_type)


_REQUESTS: Final = [request_head(number) for number in range(256)]
_RESPONSES: Final = [response_head(number) for number in range(256)]


def pack_request(packet_type: int, *args: bytes) -> bytes:
    """A whole packet to the server; the arguments are joined by NUL."""
    body = b"\0".join(args)
    return _REQUESTS[packet_type] + pack_size(len(body)) + body


def pack_response(packet_type: int, *args: bytes) -> bytes:
    """A whole packet from the server; the arguments are joined by NUL."""
    body = b"\0".join(args)
    return _RESPONSES[packet_type] + pack_size(len(body)) + body


def split(body: bytes, count: int) -> list[bytes] | None:
    """The `count` arguments of a body; the last goes to the end and may contain NULs. None: too few."""
    args = body.split(b"\0", count - 1)
    return args if len(args) == count else None


class Reader(PacketReader):
    """Reads packets that start with `magic`: REQUEST at a server, RESPONSE at its peers."""

    __slots__ = ()

    def __init__(self, magic: bytes, packet_bytes_max: int = PACKET_BYTES_MAX) -> None:
        super().__init__(magic, TYPE_BYTES, packet_bytes_max)
