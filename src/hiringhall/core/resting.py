"""Workers that give back what they are given: for a while they are given nothing more of that queue.

The law: a rest has an end, and ends with its worker; what the worker can do is not forgotten over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import Refusal
from hiringhall.core.returning import Returning
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker


class Rest(Timed):
    """One worker, and one queue that it could do."""

    __slots__ = ("able", "name", "run_us", "worker")

    def __init__(self, worker: Worker, name: bytes, run_us: int) -> None:
        super().__init__()
        self.worker = worker
        self.name = name
        self.able = True
        """It can do the queue again when the rest is over."""
        self.run_us = run_us

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.rest_due(self)


class Resting(Returning):
    """The verb, and what becomes of a rest."""

    def rest(self, worker: Worker, name: bytes, pause_us: int) -> bool:
        """The worker is neither woken for this queue nor given a job of it for so long. False: it cannot do the
        queue, or rests from it already.
        """
        queue = self.queues.get(name)
        if queue is None or queue not in worker.abilities:
            return False
        rest = Rest(worker, name, worker.abilities[queue])
        self.cant_do(worker, name)
        if worker.rests is None:
            worker.rests = {}
        worker.rests[name] = rest
        self.timers.arm(rest, self.now_us + max(pause_us, 1))
        return True

    def can_do(self, worker: Worker, name: bytes, run_us: int = 0) -> None:
        rest = worker.rests.get(name) if worker.rests is not None else None
        if rest is None:
            super().can_do(worker, name, run_us)
        else:
            rest.able = True
            rest.run_us = run_us

    def cant_do(self, worker: Worker, name: bytes) -> None:
        rest = worker.rests.get(name) if worker.rests is not None else None
        if rest is None:
            super().cant_do(worker, name)
        else:
            rest.able = False

    def rest_due(self, rest: Rest) -> None:
        worker = rest.worker
        assert worker.rests is not None
        del worker.rests[rest.name]
        if rest.able:
            try:
                self.can_do(worker, rest.name, rest.run_us)
            except Refusal:
                return  # The hall is full of queues by now: the worker may say again that it can do this one.

    def _drop_worker(self, worker: Worker) -> None:
        if worker.rests is not None:
            for rest in worker.rests.values():
                self.timers.disarm(rest)
            worker.rests = None
        super()._drop_worker(worker)
