"""What a worker states of itself to the hall: its skill in each function, its time left, and its resources."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hiringhall.worker.link import SILENCE_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.worker.messages import Served


def names_of(queue: bytes) -> tuple[str, str]:
    """What a function is called at the command line: its whole name, or the last part of it."""
    name = queue.decode("utf-8", "backslashreplace")
    return name, name.rpartition(".")[2]


class Stated:
    """The same for all functions and processes of the worker. Time is counted from when it is made."""

    def __init__(
        self,
        skill: int = 0,
        skills: Mapping[str, int] | None = None,
        stays_s: float | None = None,
        resources: str = "",
    ) -> None:
        self._skill = skill
        self._skills = dict(skills or {})
        """By the name of a function; for the others `skill` counts."""
        self._until_s = None if stays_s is None else monotonic() + stays_s
        self.resources = resources
        """Empty: it states none."""
        self._machine = uuid4().bytes
        """Its connections have these resources together."""

    def skill(self, queue: bytes) -> int:
        whole, short = names_of(queue)
        return self._skills.get(whole, self._skills.get(short, self._skill))

    @property
    def left_us(self) -> int:
        """How long the worker stays; negative: it does not leave."""
        return -1 if self._until_s is None else max(round((self._until_s - monotonic()) * 1e6), 0)

    def work_body(self, name: bytes, slots: int, queues: list[tuple[bytes, int, int]]) -> tuple[Any, ...]:
        """The body of `work`."""
        body = (name, slots, queues, self.left_us, int(SILENCE_S * 1e6))
        return (*body, (self.resources, self._machine)) if self.resources else body

    def unknown(self, served: list[Served]) -> list[str]:
        """The names with a skill that no function has."""
        names = {name for each in served for name in names_of(each.queue)}
        return [name for name in self._skills if name not in names]
