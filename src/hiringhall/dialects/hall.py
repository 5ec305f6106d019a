"""What a dialect can know and change of its hall beside the scheduler: the doors and the schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.errors import Refusal
    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms


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
