"""One HTTP request to the API: what it asks is checked here, before a handler sees it.

Invariant: a handler is called only with an actor whose role suffices, and with parameters and a body of the
types that its route names. A parameter that is wrong or unknown is refused with its name.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from hiringhall.web.problems import Problem
from hiringhall.web.steps import read_name
from hiringhall.web.values import BASE64_PATTERN

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo
    from starlette.requests import Request

    from hiringhall.web.guard import Actor
    from hiringhall.web.hall import HallClient
    from hiringhall.web.services import Services

QUERY_BYTES_MAX: Final = 16 << 10
_NAME: Final = "{name}"
_ESCAPES: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Call(NamedTuple):
    """A request that may go on."""

    services: Services
    hall: HallClient
    """The hall, as the actor."""
    actor: Actor
    path: dict[str, bytes]
    """The variable parts of the path, as bytes."""
    query: Any
    """Of the type that the route names."""
    body: Any
    """Of the type that the route names; None: it has none."""
    request: Request


def read_path(pattern: str, raw_path: bytes) -> dict[str, bytes]:
    """The variable parts of a path, as bytes. Raises Problem."""
    steps = pattern.split("/")
    given = raw_path.split(b"/")
    return {
        step[1:-1]: read_name(part) if step == _NAME else unquote_to_bytes(part)
        for step, part in zip(steps, given, strict=True)
        if step.startswith("{")
    }


def read_query(shape: type[msgspec.Struct] | None, written: bytes) -> Any:
    """The parameters of a request. Raises Problem, which names the parameter."""
    if len(written) > QUERY_BYTES_MAX:
        raise Problem("bad_request", f"the query has more than {QUERY_BYTES_MAX} bytes")
    fields = _fields(shape)
    values: dict[str, Any] = {}
    for part in written.split(b"&"):
        if not part:
            continue
        raw_name, _, raw_value = part.partition(b"=")
        name = _decoded(raw_name)
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise Problem("bad_request", f"{name[:40]!r} is not a parameter here; the parameters are: {known}")
        field, is_number = fields[name]
        if field.name in values:
            raise Problem("bad_request", f"{name} is given more than once")
        try:
            values[field.name] = msgspec.convert(_decoded(raw_value), field.type, strict=not is_number)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise Problem("bad_request", f"{name}: {error}") from None
    for name, (field, _) in fields.items():
        if field.required and field.name not in values:
            raise Problem("bad_request", f"{name} is missing")
    return shape(**values) if shape is not None else None


@functools.cache
def _fields(shape: type[msgspec.Struct] | None) -> dict[str, tuple[FieldInfo, bool]]:
    """The parameters of a type by their names, and whether each is a number."""
    fields = msgspec.structs.fields(shape) if shape is not None else ()
    return {field.encode_name: (field, _is_number(field.type)) for field in fields}


def _is_number(kind: Any) -> bool:
    """Only numbers are converted from text."""
    info = msgspec.inspect.type_info(kind)
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    bare = [kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind for kind in kinds]
    return any(isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType) for kind in bare)


def _decoded(written: bytes) -> str:
    """A name or a value; bytes that are not UTF-8 stay as they are, as surrogates."""
    if _ESCAPES.search(written):
        raise Problem("bad_request", "the query has a % that is not followed by two hexadecimal digits")
    return unquote_to_bytes(written.replace(b"+", b" ")).decode(errors="surrogateescape")


async def read_body(request: Request, shape: Any, *, required: bool) -> Any:
    """The JSON of a request, whose length the guard has bounded. If none is required, an empty body is an empty
    object. Raises Problem.
    """
    data = await request.body()
    if shape is None:
        if data:
            raise Problem("bad_request", "this request takes no body")
        return None
    if required and not data:
        raise Problem("bad_request", "the body is missing")
    try:
        return msgspec.json.decode(data or b"{}", type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        text = str(error).replace(f"`str` matching regex {BASE64_PATTERN!r}", "base64")
        raise Problem("bad_request", f"the body is not as required: {text}") from None
