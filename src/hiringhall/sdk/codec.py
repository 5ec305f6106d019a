"""Arguments and results as bytes: JSON unless the function says msgpack, and never pickle.

A payload is an array of positional arguments or an object of keyword arguments; an empty one has none.

    thumbnail.submit("cat.jpg", width=100)           ["cat.jpg", 100]
    thumbnail.submit(path="cat.jpg", width=100)      {"path": "cat.jpg", "width": 100}
    report.submit(thumbnail_job)                     [{"$job": 68719476737}], and the job is a parent

Invariant: what was encoded here decodes to the same arguments, also a dict of the user with the key "$job",
which is sent as "$$job".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from hiringhall.sdk.hooks import Handle, PathError, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hiringhall.sdk.signatures import Signature

CodecName: TypeAlias = Literal["json", "msgpack", "raw"]
"""`raw`: one argument and the result are bytes, and travel as they are."""

HANDLE: Final = "$job"
"""The key of an object that stands for the result of a job."""
_MARK: Final = "\0job"
"""The same while a payload is made, when dicts of the user are not escaped yet."""
_PLACES: Final = {"json": b'job"', "msgpack": b"job"}
"""In every payload with a handle, or with a key that looks like one; a few others take the longer way too."""
_ESCAPED: Final = re.compile(r"\$+job")


class Function(Protocol):
    """What the codec must know of a job function."""

    @property
    def queue(self) -> str: ...
    @property
    def codec(self) -> CodecName: ...
    @property
    def signature(self) -> Signature: ...


class BadArguments(ValueError):
    """The payload does not fit the function."""


class BadResult(ValueError):
    """The result cannot be encoded, or does not fit the function's annotation."""


# --- arguments


def encode_arguments(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bytes, list[int]]:
    """The payload of a call, and the ids of the jobs whose results are arguments. Raises TypeError."""
    codec = function.codec
    if codec == "raw":
        return _raw_argument(function, args, kwargs), []
    if not args and not kwargs and not function.signature.required:
        return b"", []
    arguments = function.signature.arrange(args, kwargs)
    try:
        payload = _ENCODE[codec](arguments, enc_hook=_mark)
        if _PLACES[codec] not in payload:
            return payload, []
        parents: list[int] = []
        plain = msgspec.to_builtins(arguments, enc_hook=_mark, **_BUILTIN[codec])
        payload = _ENCODE[codec](_escape(plain, parents, codec))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise TypeError(f"{function.queue}: the arguments cannot be sent as {codec}: {error}") from error
    return payload, list(dict.fromkeys(parents))


def decode_arguments(
    function: Function, payload: bytes, results: Mapping[int, bytes] | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, converted by the function's annotations. `results` has what the parents in
    the payload gave: see `argument_parents`. Raises BadArguments.
    """
    codec = function.codec
    if codec == "raw":
        return (payload,), {}
    try:
        if b"$job" in payload:
            plain = _replace(_DECODE[codec](payload), results or {}, codec)
            return function.signature.convert(plain)
        return function.signature.decode(payload, codec)
    except (msgspec.MsgspecError, PathError, ValueError, RecursionError) as error:
        raise BadArguments(f"{function.queue}: {function.signature.explain(str(error))}") from error


def argument_parents(function: Function, payload: bytes) -> list[int]:
    """The ids of the jobs whose results are arguments in this payload."""
    if function.codec == "raw" or b"$job" not in payload:
        return []
    found: list[int] = []
    try:
        _find_handles(_DECODE[function.codec](payload), found)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return []  # `decode_arguments` says what is wrong
    return list(dict.fromkeys(found))


# --- results


def encode_result(function: Function, value: Any) -> bytes:
    """The result as bytes. Raises BadResult."""
    codec = function.codec
    if codec == "raw":
        if not isinstance(value, bytes):
            raise BadResult(f"{function.queue}: the result must be bytes, not {type(value).__name__}")
        return value
    try:
        return _ENCODE[codec](value, enc_hook=to_wire)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise BadResult(f"{function.queue}: the result cannot be sent as {codec}: {error}") from error


def decode_result(function: Function, data: bytes) -> Any:
    """The result, converted by the function's annotation. Raises BadResult."""
    codec = function.codec
    if codec == "raw":
        return data
    try:
        return function.signature.decode_result(data, codec) if data else None
    except (msgspec.MsgspecError, PathError, ValueError, RecursionError) as error:
        raise BadResult(f"{function.queue}: the result does not fit its annotation: {error}") from error


# --- parts


def _raw_argument(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    if kwargs or len(args) > 1 or not all(isinstance(argument, bytes) for argument in args):
        raise TypeError(f"{function.queue} is raw: its argument must be one object of bytes")
    return args[0] if args else b""


def _mark(value: Any) -> Any:
    """What a handle is while the payload is made; other values as in results."""
    return {_MARK: (value.id, value.codec)} if isinstance(value, Handle) else to_wire(value)


def _escape(value: Any, parents: list[int], codec: CodecName) -> Any:
    """Handles as the wire has them, with their ids in `parents`, and the user's own "$job" as "$$job"."""
    if isinstance(value, list | tuple):
        return [_escape(item, parents, codec) for item in value]
    if not isinstance(value, dict):
        return value
    if _MARK in value:
        job_id, other = value[_MARK]
        if other not in (codec, "raw"):
            # The bytes of a small number in one of them are another number in the other.
            raise TypeError(f"the result of job {job_id} is {other}: give both functions the same codec")
        parents.append(job_id)
        return {HANDLE: job_id}
    return {
        f"${key}" if isinstance(key, str) and _ESCAPED.fullmatch(key) else key: _escape(item, parents, codec)
        for key, item in value.items()
    }


def _replace(value: Any, results: Mapping[int, bytes], codec: CodecName) -> Any:
    """The reverse: results in place of handles."""
    if isinstance(value, list):
        return [_replace(item, results, codec) for item in value]
    if not isinstance(value, dict):
        return value
    job_id = value.get(HANDLE)
    if job_id is not None:
        if len(value) > 1 or not isinstance(job_id, int) or isinstance(job_id, bool):
            raise ValueError(f'an object with "{HANDLE}" stands for the result of a job: {{"{HANDLE}": ID}}')
        return _result_of(job_id, results, codec)
    return {
        key[1:] if isinstance(key, str) and _ESCAPED.fullmatch(key) else key: _replace(item, results, codec)
        for key, item in value.items()
    }


def _result_of(job_id: int, results: Mapping[int, bytes], codec: CodecName) -> Any:
    data = results.get(job_id)
    if data is None:
        raise ValueError(f"the result of job {job_id} is an argument, and it is not there")
    if not data:
        return None
    other: CodecName = "msgpack" if codec == "json" else "json"
    # One byte of text is a number in MessagePack.
    for name in (codec, other) if len(data) > 1 else (codec,):
        try:
            return _DECODE[name](data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
    raise ValueError(f"the result of job {job_id} is an argument, but it is not {codec}")


def _find_handles(value: Any, found: list[int]) -> None:
    if isinstance(value, list):
        for item in value:
            _find_handles(item, found)
    elif isinstance(value, dict):
        job_id = value.get(HANDLE)
        if isinstance(job_id, int):
            found.append(job_id)
        else:
            for item in value.values():
                _find_handles(item, found)


_ENCODE: Final[dict[str, Callable[..., bytes]]] = {
    "json": msgspec.json.encode,
    "msgpack": msgspec.msgpack.encode,
}
_DECODE: Final[dict[str, Callable[[bytes], Any]]] = {
    "json": msgspec.json.decode,
    "msgpack": msgspec.msgpack.decode,
}
_BUILTIN: Final[dict[str, dict[str, Any]]] = {
    "json": {"str_keys": True},
    "msgpack": {"builtin_types": (bytes,)},
}
