"""The packets that a server sends: the progress of a job, its end, and errors."""

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
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import CALLED_OFF, CANCELLED, DONE, SUCCESS
from hiringhall.core.timers import NEVER
from hiringhall.dialects.gearman_draft import wire

if TYPE_CHECKING:
    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job

CODE_MAX: Final = 255
INCOMPLETE: Final = wire.pack_job_complete_res(wire.INCOMPLETE, SUCCESS)

_REFUSAL_CODES: Final = {
    UNKNOWN_JOB: wire.UNKNOWN_HANDLE,
    STALE_LEASE: wire.NO_TASK,
    QUEUE_FULL: wire.FULL,
    HALL_FULL: wire.FULL,
    STORE_DOWN: wire.STORE_DOWN,
    TOO_LARGE: wire.TOO_LARGE,
    BAD_REQUEST: wire.BAD_REQUEST,
    CYCLE: wire.BAD_REQUEST,
    WRONG_STATE: wire.BUSY,
    CLOSING: wire.CLOSING,
}
"""The error codes of this dialect, by the reasons of the core."""

_BODIES: Final = {
    wire.JOB_CREATE_REQ: "name NUL key NUL, a byte of flags, a byte for the type, args",
    wire.JOB_STATUS_ANNOUNCE: "numerator, denominator and seconds left, of 4 bytes each",
    wire.JOB_COMPLETE_ANNOUNCE: "a byte for the result code, data",
    wire.TASK_START: "name NUL key NUL, 8 bytes for the time in microseconds",
    wire.TASK_RESULT: "name NUL key NUL, 8 bytes for the time in microseconds, a byte for the code, data",
}


def refused(refusal: Refusal) -> bytes:
    """The answer for a refusal of the core."""
    return wire.pack_error(_REFUSAL_CODES.get(refusal.reason, wire.BAD_REQUEST), refusal.text)


def bad_body(packet_type: int) -> bytes:
    """The body does not have the format of its packet type."""
    body = _BODIES.get(packet_type, "nothing")
    return wire.pack_error(wire.BAD_BODY, f"the body of {wire.NAMES[packet_type]} must be: {body}")


def unexpected(packet_type: int) -> bytes:
    """The packet type is unknown, or only a server sends it."""
    name = wire.NAMES.get(packet_type)
    if name is None:
        return wire.pack_error(wire.UNKNOWN_TYPE, f"packet type 0x{packet_type:02X} is unknown")
    return wire.pack_error(wire.SERVER_ONLY, f"only a server sends {name}")


def status(job: Job, now_us: int) -> bytes:
    """The progress of a job. One that is done is complete, whatever its worker reported last."""
    numerator = _word(job.numerator)
    denominator = _word(job.denominator)
    if job.state == DONE:
        numerator = denominator = denominator or 1
    return wire.pack_job_status_res(numerator, denominator, _remaining_s(job, now_us))


def _remaining_s(job: Job, now_us: int) -> int:
    """The seconds left, as its worker estimates, rounded up; 0: unknown."""
    lease = job.lease
    if lease is None or lease.expected_us == NEVER:
        return 0
    return _word((lease.expected_us - now_us + SECOND_US - 1) // SECOND_US)


def logged_status(state: int) -> bytes:
    """The progress of a job in the history, which only knows whether it is done."""
    return wire.pack_job_status_res(1, 1) if state == DONE else wire.pack_job_status_res(0, 0)


def end(state: int, code: int, created_us: int, ended_us: int) -> bytes:
    """The end of a job, without its result: the seconds that it took, at least one, and its code."""
    elapsed_s = min(max((ended_us - created_us) // SECOND_US, 1), wire.WORD_MAX - 1)
    if state == DONE:
        code = SUCCESS
    elif state == CANCELLED:
        code = CALLED_OFF
    else:
        code = min(max(code, 1), CODE_MAX)
    return wire.complete_before(elapsed_s, code)


def _word(number: int) -> int:
    return min(max(number, 0), wire.WORD_MAX)
