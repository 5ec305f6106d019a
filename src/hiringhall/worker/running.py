"""One job in a child: its message becomes a call, and what comes of the call becomes a report to the hall.

Invariant: nothing that a function raises gets out of here, and each job that was begun is reported once.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from msgspec.msgpack import Encoder

from hiringhall.dialects.native import wire
from hiringhall.sdk.codec import BadArguments, BadResult, decode_arguments, encode_result
from hiringhall.sdk.context import CurrentJob
from hiringhall.sdk.failures import encode_failure
from hiringhall.worker import messages, reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hiringhall.sdk.context import Sink
    from hiringhall.sdk.functions import JobFunction

_HEAD: Final = Struct(">IBQI")
"""The header of a message, and the length of the frame in it."""
_ENCODE: Final = Encoder().encode
_FRAME_HEAD_BYTES: Final = 4


class Call:
    """A job that was begun: what is called, and for whom."""

    __slots__ = ("args", "body", "function", "job", "kwargs", "lease")

    def __init__(
        self,
        lease: int,
        function: JobFunction[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        job: CurrentJob,
    ) -> None:
        self.lease = lease
        self.function = function
        self.body: Callable[..., Any] = function.body or _nothing
        self.args = args
        self.kwargs = kwargs
        self.job = job


class Caller:
    """Opens the messages of jobs, and makes reports. Knows the functions of the module."""

    def __init__(
        self, functions: Mapping[bytes, JobFunction[..., Any]], sink: Sink, result_bytes_max: int
    ) -> None:
        self._functions = functions
        self._sink = sink
        self._result_bytes_max = result_bytes_max

    def open(self, packet: bytes) -> tuple[Call | None, bytes]:
        """The call of a job; or None, and the report that it cannot be called."""
        assign, results = messages.open_job(packet)
        lease, queue, payload = assign[0], assign[2], assign[3]
        function = self._functions.get(queue)
        if function is None:
            text = f"this worker has no function {queue.decode(errors='backslashreplace')}"
            return None, _failed(lease, reports.BAD_ARGUMENTS, reports.failure("UnknownFunction", text), False)
        try:
            args, kwargs = decode_arguments(function, payload, results)
        except BadArguments as error:
            return None, _failed(lease, reports.BAD_ARGUMENTS, _said("BadArguments", error), False)
        except BaseException as error:  # noqa: BLE001 (a converter of the user's types can raise anything)
            return None, _failed(lease, reports.BAD_ARGUMENTS, encode_failure(error, 1), False)
        return Call(lease, function, args, kwargs, CurrentJob(assign, self._sink)), b""

    def done(self, call: Call, value: Any) -> bytes:
        """The report of a call that has returned."""
        try:
            result = encode_result(call.function, value)
        except BadResult as error:
            return _failed(call.lease, reports.BAD_RESULT, _said("BadResult", error), False)
        except BaseException as error:  # noqa: BLE001 (as in `open`)
            return _failed(call.lease, reports.BAD_RESULT, encode_failure(error, 1), False)
        if len(result) > self._result_bytes_max:
            return _failed(call.lease, *reports.too_large(len(result), self._result_bytes_max))
        data = _ENCODE((wire.FINISH, 0, (call.lease, result)))
        size = len(data)
        return _HEAD.pack(size + _FRAME_HEAD_BYTES, messages.DONE, call.lease, size) + data

    def failed(self, call: Call, error: BaseException) -> bytes:
        """The report of a call that has raised."""
        code = reports.SYSTEM_EXIT if isinstance(error, SystemExit) else reports.EXCEPTION
        try:
            data = encode_failure(error, 1)
        except BaseException:  # noqa: BLE001 (no memory or no stack left for a description)
            data = reports.failure(type(error).__name__, "it could not be described")
        retry_on = call.function.retry_on
        return _failed(call.lease, code, data, retry_on is None or isinstance(error, retry_on))

    def dropped(self, lease: int) -> bytes:
        """The report of a call that was revoked and has ended."""
        return messages.HEADER.pack(0, messages.DROPPED, lease)


def _nothing(*_: object, **__: object) -> None:
    """In place of a function that only others have; none is served."""


def said(lease: int, frame: bytes) -> bytes:
    """A frame about a job that runs on."""
    return messages.HEADER.pack(len(frame), messages.SAID, lease) + frame


def _said(kind: str, error: Exception) -> bytes:
    return reports.failure(kind, str(error))


def _failed(lease: int, code: int, data: bytes, retry: bool) -> bytes:
    frame = wire.encode(wire.FAIL, 0, (lease, code, data, retry))
    return messages.HEADER.pack(len(frame), messages.FAILED, lease) + frame
