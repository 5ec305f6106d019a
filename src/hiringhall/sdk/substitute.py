"""What may take the place of the hall at a URL: see `hiringhall.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hiringhall.sdk.connection import Connection

T = TypeVar("T")


class Substitute(Protocol):
    """Answers what a `Hall` would ask its hall."""

    def connection(self) -> Connection:
        """The connection of the event loop that runs here."""
        ...

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the SDK for a blocking caller."""
        ...

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """The same for a caller that does not wait."""
        ...

    def time(self) -> float:
        """The time, in seconds since 1970."""
        ...
