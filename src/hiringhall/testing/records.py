"""What a test can ask about the jobs of its stage."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgspec

from hiringhall.sdk.failures import decode_failure
from hiringhall.sdk.information import JobInfo

if TYPE_CHECKING:
    from hiringhall.sdk.codec import CodecName


@dataclass(frozen=True)
class StagedJob(JobInfo):
    """A job as `Job.info()` describes it, and what was asked and answered in plain values."""

    arguments: Any
    """As they were sent: a list of positional arguments, or a dict of keyword arguments; of raw ones, bytes."""
    value: Any
    """The result as it was sent; None: there is none."""
    error: str
    """What the failure says, such as "ValueError: no such file"; empty: it has not failed."""


def staged(info: JobInfo, payload: bytes | None, codec: CodecName) -> StagedJob:
    """With what is known of the payload."""
    known = {field.name: getattr(info, field.name) for field in fields(info)}
    error = ""
    if info.state in {"failed", "cancelled"}:
        failure = decode_failure(info.id, info.queue, info.code or 0, info.result or b"")
        error = ": ".join(part for part in (failure.type, failure.text) if part) or str(failure)
    return StagedJob(
        **known,
        arguments=_plain(payload if payload is not None else info.payload, codec, empty=[]),
        value=_plain(info.result, codec) if info.state == "done" else None,
        error=error,
    )


def _plain(data: bytes | None, codec: CodecName, empty: Any = None) -> Any:
    if not data:
        return empty
    if codec == "raw":
        return data
    try:
        return (msgspec.json if codec == "json" else msgspec.msgpack).decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return data
