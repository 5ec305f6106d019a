"""A route of the API as data: the router, the OpenAPI document and the tests are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hiringhall.dialects.native.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import msgspec

    from hiringhall.web.calls import Call

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
EVENTS: Final = "text/event-stream"

ALWAYS: Final = (400, 401, 403, 421, 500, 501, 502, 503)
"""Errors that every route can answer with."""


@dataclass(frozen=True)
class Route:
    """What a request with this method and path needs, does and answers."""

    method: str
    path: str
    """Below /api/v1; `{name}` is one step of a path."""
    role: str
    """The least role that may ask."""
    summary: str
    handler: Callable[[Call], Awaitable[Any]]
    answer: Any
    """The type of the JSON answer; None: the handler makes the response."""
    query: type[msgspec.Struct] | None = None
    body: Any = None
    body_required: bool = True
    """False: without a body, it is an empty object."""
    status: int = 200
    media: str = JSON
    errors: tuple[int, ...] = ()
    """Statuses of errors beside `ALWAYS`."""
    also: tuple[tuple[int, Any], ...] = ()
    """Further statuses that are no errors, with the types of their answers."""
    download: bool = False
    """With `format` the answer is a file: an array of the items, or CSV."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"{self.method} {self.path} has no role: name one of {', '.join(ROLES)}")
