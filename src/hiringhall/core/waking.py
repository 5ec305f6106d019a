"""Workers that sleep, and are woken: one worker for one job.

Invariant: no worker sleeps while a job that it could do is ready and not reserved for another woken worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.terms import NO_REQUIREMENT
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Requirement
    from hiringhall.core.workers import Worker

RESIDENT_HEARD_US: Final = 10_000_000
"""A resident never sleeps: it counts as present if it asked for work within this time."""


class Wakeups:
    """Sleep, wake-ups, and the deadline of an answer."""

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
            if queue.ready > queue.waking or (
                queue.ready and (queue.by_requirement is not None or queue.overdue)
            ):
                self._table.unsettle(queue)

    def spare(self, name: bytes) -> int:
        """How many more jobs of a queue could start now, beyond those that are ready. Other halls, which would
        pass a job on, do not count.
        """
        queue = self._table.queues.get(name)
        if queue is None or queue.closed:
            return 0
        spare = queue.waking - queue.ready
        now_us = self._table.now_us
        for worker in queue.sleepers:
            spare += not worker.passes_on and worker.has_time(now_us)
        for worker in queue.takers:
            spare += worker.credit if worker.has_time(now_us) else 0
        if queue.listing is not None or self._table.residents:
            for worker in queue.workers:
                at_hand = worker.bids or (
                    worker.resident is queue and now_us - worker.heard_us < RESIDENT_HEARD_US
                )
                free = not worker.leases and worker.promise is None
                spare += at_hand and free and worker.has_time(now_us)
        if queue.limiter is not None:
            spare = min(spare, queue.limiter.room_beyond_ready())
        return max(spare, 0)

    def wake_by_requirement(self, queue: Queue) -> None:
        """Wake one worker for each job with a requirement that it meets. A job that no worker can do wakes
        nobody, and no job waits for workers that were woken for others.
        """
        candidates = queue.candidates()
        if not candidates:
            return
        sleepers = list(queue.sleepers)
        sleepers.reverse()
        if queue.resourced:
            sleepers.sort(key=self._unused)
        for worker in sleepers:
            requirement = queue.claim(worker, candidates, self._table.now_us)
            if requirement is None:
                continue
            del queue.sleepers[worker]
            if requirement != NO_REQUIREMENT:
                queue.woken[requirement] = queue.woken.get(requirement, 0) + 1
                worker.waking_requirement = requirement
            self.wake(worker, queue)
            candidates = queue.candidates()
            if not candidates:
                return
        queue.set_unmatched(candidates)

    def _unused(self, worker: Worker) -> int:
        """How much of its resources is free: the worker with the least is woken first."""
        return worker.capacity.left_over((), self._table.scales) if worker.capacity is not None else 0

    def wake(self, worker: Worker, queue: Queue) -> None:
        """Wake a worker for a job of this queue, which is reserved for it."""
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
        """The worker asks for work although it went to sleep."""
        worker.asleep = False
        for queue in worker.abilities:
            del queue.sleepers[worker]

    def answer(self, worker: Worker) -> None:
        """The wake-up is over: no job is reserved for the worker any more, whether or not it takes one."""
        queue = worker.waking
        assert queue is not None
        worker.waking = None
        if worker.overdue:
            worker.overdue = False
            _subtract(queue.overdue, worker.waking_requirement)
            worker.waking_requirement = NO_REQUIREMENT
        else:
            queue.waking -= 1
            if queue.woken and worker.waking_requirement != NO_REQUIREMENT:
                _subtract(queue.woken, worker.waking_requirement)
                worker.waking_requirement = NO_REQUIREMENT
        if queue.ready > queue.waking or (queue.ready and (queue.by_requirement is not None or queue.overdue)):
            self._table.unsettle(queue)

    def pass_by(self, worker: Worker) -> None:
        """The worker has not answered within `wake_step_us`: others are woken as well."""
        queue = worker.waking
        assert queue is not None
        requirement = worker.waking_requirement
        queue.waking -= 1
        if requirement != NO_REQUIREMENT:
            _subtract(queue.woken, requirement)
        worker.overdue = True
        queue.overdue[requirement] = queue.overdue.get(requirement, 0) + 1
        worker.wake_until_us += max(self._table.limits.wake_us - worker.wake_step_us, 0)
        if queue.ready:
            self._table.unsettle(queue)

    def arm(self, worker: Worker) -> None:
        """Set the timer of a worker: for its wake-up, or for its allowed silence."""
        due_us = worker.wake_until_us if worker.waking is not None else NEVER
        if worker.silence_us:
            silent_us = worker.heard_us + worker.silence_us
            if worker.quiet_at_work and worker.leases:
                silent_us = self._table.now_us + worker.silence_us
            if due_us == NEVER or silent_us < due_us:
                due_us = silent_us
        if due_us != NEVER:
            self._table.timers.arm(worker, due_us)


def _subtract(counts: dict[Requirement, int], requirement: Requirement) -> None:
    counts[requirement] -= 1
    if not counts[requirement]:
        del counts[requirement]
