"""What happened in one village: every job with its waiting, and the talk of the town."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from world import Clock, Workplace

TALK_KEPT: Final = 2_000


class Task:
    """One job of one workplace.

    The workplace waits whenever the job is due and nobody performs it: because nobody has come yet, or
    because somebody quit in the middle of it.
    """

    def __init__(self, place: Workplace, due_h: float) -> None:
        self.place = place
        self.due_h = due_h
        self.skill = 0
        """Of who performed it last."""
        self.done_h: float | None = None
        self.begun_h: list[float] = []
        self.left_h: list[float] = []
        """When somebody began, and when somebody stopped, be it that it was done."""
        self._waited_h = 0.0
        self._idle_since_h: float | None = due_h
        """None: somebody performs it, or it is done."""

    def begun(self, now_h: float, skill: int) -> None:
        self.skill = skill
        self.begun_h.append(now_h)
        self._waited_h = self.waited_h(now_h)
        self._idle_since_h = None

    def left(self, now_h: float) -> None:
        self.left_h.append(now_h)
        self._idle_since_h = now_h

    def done(self, now_h: float) -> None:
        self.left_h.append(now_h)
        self.done_h = now_h

    def waited_h(self, now_h: float) -> float:
        """How long its workplace has waited by now."""
        if self._idle_since_h is None:
            return self._waited_h
        return self._waited_h + max(now_h - self._idle_since_h, 0.0)

    def state(self, now_h: float) -> str:
        if self.done_h is not None:
            return "done"
        if self._idle_since_h is None:
            return "in work"
        return "wanted" if now_h >= self.due_h else "to come"


class News(NamedTuple):
    hour: float
    kind: str
    text: str


class Chronicle:
    """The book of one village."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tasks: dict[str, Task] = {}
        """By the job's name: its number in the hall, or the id that its workplace gave it."""
        self.talk: deque[News] = deque(maxlen=TALK_KEPT)
        self.counts = dict.fromkeys(("hired", "done", "quit", "conscripted", "dismissed"), 0)
        """How often there was news of each kind."""
        self.stood_h = 0.0
        """Hours that villagers stood at a workplace until they were told to begin."""

    def tell(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.talk.append(News(self.clock.now_h(), kind, text))

    def due(self) -> list[Task]:
        now_h = self.clock.now_h()
        return [task for task in self.tasks.values() if task.due_h <= now_h]

    def waits_h(self) -> list[float]:
        """How long each job has been waited for, of those that are due; the shortest first."""
        now_h = self.clock.now_h()
        return sorted(task.waited_h(now_h) for task in self.due())

    def mean_wait_h(self) -> float:
        waits_h = self.waits_h()
        return sum(waits_h) / len(waits_h) if waits_h else 0.0
