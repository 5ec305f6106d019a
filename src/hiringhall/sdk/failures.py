"""How a worker's exception travels: a JSON object of type, text and traceback.

Invariant: every exception can be encoded, also one whose text cannot be made or encoded; and any bytes can be
decoded, since foreign workers send what they like.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

import msgspec

from hiringhall.sdk.errors import CANCELLED, TIMEOUT, HallRefused, JobCancelled, JobFailed, JobTimeout

if TYPE_CHECKING:
    from types import TracebackType

TEXT_CHARACTERS_MAX: Final = 16_384
TRACEBACK_CHARACTERS_MAX: Final = 65_536
"""Of a longer traceback the end is kept: that is where the exception was raised."""


class Failure(msgspec.Struct, frozen=True):
    """What is known of a worker's exception."""

    type: str = ""
    text: str = ""
    traceback: str = ""


_DECODER: Final = msgspec.json.Decoder(Failure)


def encode_failure(error: BaseException, skipped_frames: int = 0) -> bytes:
    """The data of a `fail` for this exception. The outermost `skipped_frames` of the traceback are left out."""
    trace = error.__traceback__
    for _ in range(skipped_frames):
        if trace is not None:
            trace = trace.tb_next
    failure = Failure(
        type_name(type(error)),
        _encodable(_text_of(error))[:TEXT_CHARACTERS_MAX],
        _encodable(_traceback_of(error, trace))[-TRACEBACK_CHARACTERS_MAX:],
    )
    return msgspec.json.encode(failure)


def decode_failure(job_id: int, queue: str, code: int, data: bytes) -> JobFailed:
    """The exception for a job that has failed or was cancelled."""
    kind = {TIMEOUT: JobTimeout, CANCELLED: JobCancelled}.get(code, JobFailed)
    try:
        failure = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        failure = Failure(text=data.decode(errors="replace"))
    return kind(job_id, queue, code, failure.type, failure.text, failure.traceback)


def not_kept(job_id: int) -> HallRefused:
    """For a job that is done, and whose result the hall no longer has."""
    return HallRefused(
        "not_kept",
        f"job {job_id} is done, but its result was not kept: the job was not durable, or its result is longer "
        "than the history keeps (history.result_bytes_max)",
    )


def type_name(kind: type) -> str:
    """`ValueError`, or `package.module.Name` of one that is not built in."""
    if kind.__module__ in {"builtins", "__main__"}:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 (whatever the exception's own code raises)
        return f"its text cannot be made: {type_name(type(second))}"


def _traceback_of(error: BaseException, trace: TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except Exception:  # noqa: BLE001 (the traceback module calls the exception's own code)
        return "".join(traceback.format_tb(trace))


def _encodable(text: str) -> str:
    """Without lone surrogates, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace").decode()
