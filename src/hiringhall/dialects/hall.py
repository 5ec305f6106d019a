"""What a dialect can know and change of its hall beside the scheduler: doors, schedules, who may come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms
    from hiringhall.dialects.session import Caller

TOKENS_AUTO: Final = "auto"
"""Peers on this machine need no token. Others need one as soon as there are tokens."""
TOKENS_REQUIRED: Final = "required"
"""Every peer needs one, except at a Unix socket."""
TOKENS_OFF: Final = "off"
"""Nobody needs one."""


class DoorState(NamedTuple):
    """An address at which the hall listens."""

    dialect: str
    role: str
    """Which address of the door it is; empty if the door has only one."""
    address: str
    connections: int
    """Open connections; peers that are known, where the transport knows no connections."""


class Schedules(Protocol):
    """The schedules of the hall. A verb raises a Refusal, or calls `done` inside this turn or a later one."""

    def describe(
        self, position: int, count: int, done: Callable[[list[dict[str, Any]], Refusal | None], None]
    ) -> None:
        """Some of the schedules, by name."""
        ...

    def add(
        self, stated: dict[str, Any], terms: Terms, replace: bool, done: Callable[[Refusal | None], None]
    ) -> None:
        """Add a schedule. `stated` has the fields of a plan by name. It is on disk when `done` is called."""
        ...

    def remove(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        """Remove a schedule. That is on disk when `done` is called."""
        ...

    def pause(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        """Fire it no more, until it is resumed. That is on disk when `done` is called."""
        ...

    def resume(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        """Fire it again, from now on. That is on disk when `done` is called."""
        ...

    def run(self, name: str) -> Job:
        """Fire it once now; its due times stay as they are. The job, which need not be on disk yet."""
        ...


class Actor(NamedTuple):
    """Who a peer is."""

    name: str
    role: int
    """See `native.roles`."""
    key: str
    """Names its token; empty: it has none."""


class Visitor(Protocol):
    """A connection, as whoever let it in sees it."""

    actor: Actor

    def expel(self, code: str, text: str) -> None:
        """Say why, and close."""
        ...


class Access(Protocol):
    """Decides who comes in. All calls come inside a turn."""

    def admit(self, visitor: Visitor, caller: Caller, token: str | None, rule: str) -> Actor:
        """Who the peer is. `rule` is one of the words above. Raises Refusal."""
        ...

    def turned_away(self, caller: Caller, tell: Callable[[], None]) -> None:
        """A peer was refused. `tell` is called inside this turn or a later one: it may be slowed down."""
        ...

    def left(self, visitor: Visitor, actor: Actor) -> None:
        """The connection of an actor with a key has ended."""
        ...


class AuditTrail(Protocol):
    """Keeps what people changed."""

    def note(self, entry: dict[str, Any]) -> None: ...

    def latest(self, count: int) -> list[dict[str, Any]]:
        """The latest entries, the newest first."""
        ...
