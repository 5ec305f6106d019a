"""Workers that sleep, and are woken: one for one job.

The law: while a job is ready and nobody stands for it, nobody who is good for it sleeps on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import PLAIN
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Shape
    from hiringhall.core.workers import Worker

RESIDENT_HEARD_US: Final = 10_000_000
"""A resident sleeps nowhere: it is there if it has asked for work of late."""


class Wakeups:
    """Sleeping, being woken, and the time for an answer."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def fall_asleep(self, worker: Worker) -> None:
        """The worker waits for `woken`, which comes at the end of this turn if there is work for it."""
        if worker.waking is not None:
            self.answer(worker)
        worker.asleep = True
        for queue in worker.abilities:
            queue.sleepers[worker] = None
            if queue.unmatched:
                queue.reconsider(worker, self._table.now_us)
            if queue.ready > queue.waking or (queue.ready and (queue.shapes is not None or queue.overdue)):
                self._table.unsettle(queue)

    def spare(self, name: bytes) -> int:
        """How many more jobs of a queue those who wait for work could be given now, beside the jobs that wait.
        Other halls, which would pass a job on, are not counted.
        """
        queue = self._table.queues.get(name)
        if queue is None:
            return 0
        spare = queue.waking - queue.ready
        for worker in queue.sleepers:
            spare += not worker.passes_on
        for worker in queue.takers:
            spare += worker.credit
        if queue.listing is not None or self._table.residents:
            for worker in queue.workers:
                at_hand = worker.bids or (
                    worker.resident is queue and self._table.now_us - worker.heard_us < RESIDENT_HEARD_US
                )
                spare += at_hand and not worker.leases and worker.promise is None
        return max(spare, 0)

    def wake_choosily(self, queue: Queue) -> None:
        """Each who is woken stands for one job that is good for it: a job that nobody can be given wakes nobody
        up, and one that nobody stands for does not wait for those who were woken for others.
        """
        candidates = queue.candidates()
        if not candidates:
            return
        for worker in reversed(list(queue.sleepers)):
            shape = queue.claim(worker, candidates, self._table.now_us)
            if shape is None:
                continue
            del queue.sleepers[worker]
            if shape != PLAIN:
                queue.woken[shape] = queue.woken.get(shape, 0) + 1
                worker.waking_shape = shape
            self.wake(worker, queue)
            candidates = queue.candidates()
            if not candidates:
                return
        queue.unmatched.update(dict.fromkeys(candidates))

    def wake(self, worker: Worker, queue: Queue) -> None:
        worker.asleep = False
        for other in worker.abilities:
            if other is not queue:
                del other.sleepers[worker]
        worker.waking = queue
        queue.waking += 1
        worker.wake_until_us = self._table.now_us + (worker.wake_step_us or self._table.limits.wake_us)
        self.arm(worker)
        self._table.counters.woken += 1
        worker.peer.woken()

    def stop_sleeping(self, worker: Worker) -> None:
        """The worker asks for work although it said that it sleeps."""
        worker.asleep = False
        for queue in worker.abilities:
            del queue.sleepers[worker]

    def answer(self, worker: Worker) -> None:
        """Whether or not it takes a job of the queue it was woken for, it stands for none any more."""
        queue = worker.waking
        assert queue is not None
        worker.waking = None
        if worker.overdue:
            worker.overdue = False
            _subtract(queue.overdue, worker.waking_shape)
            worker.waking_shape = PLAIN
        else:
            queue.waking -= 1
            if queue.woken and worker.waking_shape != PLAIN:
                _subtract(queue.woken, worker.waking_shape)
                worker.waking_shape = PLAIN
        if queue.ready > queue.waking or (queue.ready and (queue.shapes is not None or queue.overdue)):
            self._table.unsettle(queue)

    def pass_by(self, worker: Worker) -> None:
        """It lets its wake-up go unanswered for a while: others are woken beside it."""
        queue = worker.waking
        assert queue is not None
        shape = worker.waking_shape
        queue.waking -= 1
        if shape != PLAIN:
            _subtract(queue.woken, shape)
        worker.overdue = True
        queue.overdue[shape] = queue.overdue.get(shape, 0) + 1
        worker.wake_until_us += max(self._table.limits.wake_us - worker.wake_step_us, 0)
        if queue.ready:
            self._table.unsettle(queue)

    def arm(self, worker: Worker) -> None:
        due_us = worker.wake_until_us if worker.waking is not None else NEVER
        if worker.silence_us:
            silent_us = worker.heard_us + worker.silence_us
            if worker.quiet_at_work and worker.leases:
                silent_us = self._table.now_us + worker.silence_us
            if due_us == NEVER or silent_us < due_us:
                due_us = silent_us
        if due_us != NEVER:
            self._table.timers.arm(worker, due_us)


def _subtract(counts: dict[Shape, int], shape: Shape) -> None:
    counts[shape] -= 1
    if not counts[shape]:
        del counts[shape]
