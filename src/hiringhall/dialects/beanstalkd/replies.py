"""What a beanstalkd client is told when it is refused something, and what the log says of its mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    HALL_FULL,
    QUEUE_FULL,
    STALE_LEASE,
    STORE_DOWN,
    TOO_LARGE,
    UNKNOWN_JOB,
    WRONG_STATE,
)
from hiringhall.dialects.beanstalkd import wire

if TYPE_CHECKING:
    from hiringhall.core.errors import Refusal
    from hiringhall.dialects.beanstalkd.wire import Request

_REPLIES: Final = {
    BAD_REQUEST: wire.BAD_FORMAT,
    CLOSING: wire.DRAINING,
    HALL_FULL: wire.OUT_OF_MEMORY,
    QUEUE_FULL: wire.OUT_OF_MEMORY,
    STALE_LEASE: wire.NOT_FOUND,
    STORE_DOWN: wire.OUT_OF_MEMORY,
    TOO_LARGE: wire.JOB_TOO_BIG,
    UNKNOWN_JOB: wire.NOT_FOUND,
    WRONG_STATE: wire.NOT_FOUND,
}
_FAULTS: Final = {
    wire.BAD_FORMAT: "its arguments are wrong, or its line is too long",
    wire.UNKNOWN_COMMAND: "the command is unknown",
    wire.EXPECTED_CRLF: "its body does not end where it should",
    wire.JOB_TOO_BIG: "its body is too long (job_bytes_max)",
}
_SHOWN_BYTES_MAX: Final = 32


def refused(refusal: Refusal) -> bytes:
    """The reply to what the core refuses."""
    return _REPLIES.get(refusal.reason, wire.INTERNAL_ERROR)


def fault_text(request: Request) -> str:
    """What is wrong with a request, for the log."""
    return f"request {request.command[:_SHOWN_BYTES_MAX]!r}: {_FAULTS[request.fault]}"
