"""A cooldown: a worker that declined a job gets no jobs of that queue for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker


class Cooldown(Timed):
    """One worker and one queue."""

    __slots__ = ("able", "name", "run_us", "worker")

    def __init__(self, worker: Worker, name: bytes, run_us: int) -> None:
        super().__init__()
        self.worker = worker
        self.name = name
        self.able = True
        """The worker can do the queue again when the cooldown is over."""
        self.run_us = run_us

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.workforce.cooldown_due(self)
