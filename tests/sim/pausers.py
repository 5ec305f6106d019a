"""Somebody who pauses queues and resumes them, by the simulator's own dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .actors import Actor
from .owndialect import Lines, line
from .world import MS

if TYPE_CHECKING:
    from .actors import Town

PAUSING_SEEDS_FROM: Final = 10_000_000
"""Worlds of these seeds have a pauser. Others are as they were before there was one."""


class Pauser(Actor):
    """Asks for one thing at a time. When the faults stop it resumes every queue, also one that is paused late:
    a request may be under way on a connection that it has given up.
    """

    dialect = "own"
    tap = "own"

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town, name)
        self.pause_us = self.world.random.choice((20 * MS, 150 * MS, 400 * MS))
        self._waiting = False
        """An answer is to come."""
        self._paused: set[bytes] = set()
        """Queues that may be paused."""
        self.world.after(self.world.random.randrange(50 * MS), self._act)

    @property
    def done(self) -> bool:
        """Nothing is paused."""
        return not self._paused and not self._paused_now()

    def _paused_now(self) -> list[bytes]:
        hall = self.town.hall
        return list(hall.scheduler.paused_queues.queues) if hall.up else []

    def arrived(self) -> None:
        self._lines = Lines()
        self._waiting = False

    def _act(self) -> None:
        random = self.world.random
        if self.town.calm:
            self._paused.update(self._paused_now())
        self.world.after(random.randrange(1, self.pause_us), self._act)
        if self.connection is None or self._waiting or (self.town.calm and self.done):
            return
        self._waiting = True
        if self.town.calm or (self._paused and self.world.chance(0.5)):
            queue = random.choice(sorted(self._paused))
            self.say("resume", queue)
        else:
            queue = self.town.queue()
            self._paused.add(queue)
            self.say("pause", queue)
            if self.world.chance(0.1):
                self.hang_up()

    def say(self, verb: str, queue: bytes) -> None:
        self.send(line(do=verb, queue=queue.decode()))

    def listen(self, data: bytes) -> None:
        for told in self._lines.feed(data):
            self.answered(told.get("resumed", "").encode())

    def answered(self, resumed: bytes) -> None:
        """An answer has come; the queue that is resumed, if it says so."""
        self._waiting = False
        self._paused.discard(resumed)
