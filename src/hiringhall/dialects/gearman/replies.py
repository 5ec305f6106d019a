"""The packets that a server sends.

A large payload or result is not copied into its packet: `opening` makes everything before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    CYCLE,
    HALL_FULL,
    QUEUE_FULL,
    STALE_LEASE,
    STORE_DOWN,
    TOO_LARGE,
    UNKNOWN_JOB,
    WRONG_STATE,
)
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.wire import pack_response, pack_size, response_head

if TYPE_CHECKING:
    from hiringhall.core.errors import Refusal

NO_JOB: Final = pack_response(wire.NO_JOB)
NOOP: Final = pack_response(wire.NOOP)

CREATED_HEAD: Final = response_head(wire.JOB_CREATED)
ASSIGN_HEAD: Final = response_head(wire.JOB_ASSIGN)
ASSIGN_UNIQ_HEAD: Final = response_head(wire.JOB_ASSIGN_UNIQ)
ASSIGN_ALL_HEAD: Final = response_head(wire.JOB_ASSIGN_ALL)
COMPLETE_HEAD: Final = response_head(wire.WORK_COMPLETE)
EXCEPTION_HEAD: Final = response_head(wire.WORK_EXCEPTION)
DATA_HEAD: Final = response_head(wire.WORK_DATA)
WARNING_HEAD: Final = response_head(wire.WORK_WARNING)

INVALID_ARGUMENT: Final = "INVALID_ARGUMENT"
INVALID_COMMAND: Final = "INVALID_COMMAND"
INVALID_MAGIC: Final = "INVALID_MAGIC"
ARGUMENT_TOO_LARGE: Final = "ARGUMENT_TOO_LARGE"
UNKNOWN_OPTION: Final = "UNKNOWN_OPTION"
JOB_NOT_FOUND: Final = "JOB_NOT_FOUND"

_REFUSAL_CODES: Final = {
    UNKNOWN_JOB: JOB_NOT_FOUND,
    STALE_LEASE: JOB_NOT_FOUND,
    QUEUE_FULL: "QUEUE_ERROR",
    HALL_FULL: "QUEUE_ERROR",
    STORE_DOWN: "QUEUE_ERROR",
    TOO_LARGE: ARGUMENT_TOO_LARGE,
    BAD_REQUEST: INVALID_ARGUMENT,
    CYCLE: INVALID_ARGUMENT,
    WRONG_STATE: INVALID_ARGUMENT,
    CLOSING: "SHUTDOWN",
}
"""The error codes of gearmand, which libgearman knows, by the reasons of the core."""

_ARGUMENTS: Final = {
    wire.CAN_DO: "function",
    wire.CANT_DO: "function",
    wire.CAN_DO_TIMEOUT: "function, timeout",
    wire.WORK_STATUS: "handle, numerator, denominator",
    wire.WORK_COMPLETE: "handle, data",
    wire.WORK_DATA: "handle, data",
    wire.WORK_WARNING: "handle, data",
    wire.WORK_EXCEPTION: "handle, data",
    wire.SUBMIT_JOB_SCHED: "function, unique, minute, hour, day, month, weekday, data",
    wire.SUBMIT_JOB_EPOCH: "function, unique, epoch, data",
    wire.SUBMIT_REDUCE_JOB: "function, unique, reducer, data",
    wire.SUBMIT_REDUCE_JOB_BACKGROUND: "function, unique, reducer, data",
}


def opening(head: bytes, before: bytes, data_bytes: int) -> bytes:
    """A packet without its last argument, which has `data_bytes`; `before` ends with a NUL."""
    return b"%b%b%b" % (head, pack_size(len(before) + data_bytes), before)


def created(handle: bytes) -> bytes:
    return b"%b%b%b" % (CREATED_HEAD, pack_size(len(handle)), handle)


def assign(handle: bytes, queue: bytes, work: bytes) -> bytes:
    """JOB_ASSIGN, made at once: `work` is short."""
    size = len(handle) + len(queue) + len(work) + 2
    return b"%b%b%b\0%b\0%b" % (ASSIGN_HEAD, pack_size(size), handle, queue, work)


def complete(handle: bytes, result: bytes) -> bytes:
    """WORK_COMPLETE, made at once: `result` is short."""
    return b"%b%b%b\0%b" % (COMPLETE_HEAD, pack_size(len(handle) + 1 + len(result)), handle, result)


def error(code: str, text: str) -> bytes:
    return pack_response(wire.ERROR, code.encode(), text.encode())


def refused(refusal: Refusal) -> bytes:
    """The answer for a refusal of the core."""
    return error(_REFUSAL_CODES.get(refusal.reason, "SERVER_ERROR"), refusal.text)


def missing_arguments(packet_type: int) -> bytes:
    """An argument is missing."""
    arguments = _ARGUMENTS.get(packet_type, "function, unique, data")
    name = wire.NAMES[packet_type]
    return error(INVALID_ARGUMENT, f"{name} takes these arguments, separated by NUL: {arguments}")


def unexpected(packet_type: int) -> bytes:
    """The packet type is unknown, or only a server sends it."""
    name = wire.NAMES.get(packet_type)
    if name is None:
        return error(INVALID_COMMAND, f"packet type {packet_type} is unknown")
    return error(INVALID_COMMAND, f"only a server sends {name}")
