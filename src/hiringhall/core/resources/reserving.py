"""Reservations: a large job is not overtaken for ever by small ones that fit where it does not.

A job goes to a worker as soon as it fits one, and jobs that fit go before jobs that do not. When the first job
of a queue has waited for `reserve_after_us` because it fits nowhere, one worker is reserved for it: the one
that should be free soonest. It gets that job next. Until then it gets only jobs that say how long they take,
and that end before the worker should be free.

Invariant: a queue has at most one reservation, a worker as well, and the job that it is for is ready. Whatever
ends one lets all queues of that worker be matched again. So the first job of a queue that some worker could do
starts at the latest when the jobs have ended that the worker had at the time of the reservation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.lanes import head_of
from hiringhall.core.resources.capacity import expected_end_us
from hiringhall.core.timers import NEVER, Timed

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.resources.capacity import Capacity
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Requirement
    from hiringhall.core.workers import Worker


_MANY: Final = 64
"""With more different needs, of which no worker could ever meet one, it is not asked at each match again."""
_PAUSE_US: Final = 1_000_000


class Reservation:
    """One worker is kept for one job."""

    __slots__ = ("_table", "capacity", "job", "requirement", "until_us")

    def __init__(self, table: JobTable, job: Job, capacity: Capacity, until_us: int) -> None:
        assert job.terms.requirement is not None
        self._table = table
        self.job = job
        self.requirement = job.terms.requirement
        self.capacity = capacity
        self.until_us = until_us
        """When the worker should be free, by what its jobs have said; 0: unknown."""

    def allows(self, name: bytes, requirement: Requirement, now_us: int) -> bool:
        """Whether a job of this queue may go to the reserved worker."""
        if requirement == self.requirement and name == self.job.queue.name:
            return True
        return 0 < requirement[1] <= self.until_us - now_us

    def end(self) -> None:
        """Its job started, went away or may not start, or its worker left: others may have the worker."""
        self.job.queue.reservation = None
        self.capacity.reservation = None
        self._table.look_again(self.capacity)


class ReservationTimer(Timed):
    """Rings when the first job of a queue has waited for so long that a worker is reserved for it."""

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def ring(self, scheduler: Scheduler) -> None:
        """Match the queue again at the end of the turn: that considers a reservation."""
        if scheduler.queues.get(self._queue.name) is self._queue and self._queue.ready:
            scheduler.table.unsettle(self._queue)


class Reservations:
    """Makes reservations."""

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def consider(self, queue: Queue) -> None:
        """The queue was matched, and what is ready does not fit. Reserve a worker for the first job that has
        waited for too long, or look again when it has.
        """
        reservation = queue.reservation
        if reservation is not None:
            if reservation.job.in_lane:
                return
            reservation.end()  # its key has reached its limit
        if queue.reservation_timer is not None and queue.reservation_timer.due_us != NEVER:
            return
        table = self._table
        first_jobs = self._first_jobs(queue)
        for job in first_jobs:
            due_us = job.queued_us + table.limits.reserve_after_us
            found = self._soonest(queue, job)
            if found is None:
                continue
            if due_us > table.now_us:
                self._look_again_at(queue, due_us)
                return
            capacity, until_us = found
            queue.reservation = capacity.reservation = Reservation(table, job, capacity, until_us)
            return
        if len(first_jobs) > _MANY:
            self._look_again_at(queue, table.now_us + _PAUSE_US)

    def _look_again_at(self, queue: Queue, due_us: int) -> None:
        if queue.reservation_timer is None:
            queue.reservation_timer = ReservationTimer(queue)
        self._table.timers.arm(queue.reservation_timer, due_us)

    def _first_jobs(self, queue: Queue) -> list[Job]:
        """The first job of each requirement with resources, in their order."""
        jobs: list[Job] = []
        for requirement, lanes in (queue.by_requirement or {}).items():
            if requirement[2]:
                job = head_of(lanes)
                if job is not None:
                    jobs.append(job)
        return sorted(jobs, key=_order)

    def _soonest(self, queue: Queue, job: Job) -> tuple[Capacity, int] | None:
        """The worker that should be free for it first, and when, if that was stated; None: no worker is."""
        now_us = self._table.now_us
        terms = job.terms
        assert terms.requirement is not None
        plain: Requirement = (terms.requirement[0], terms.requirement[1], ())
        best: tuple[int, int] | None = None
        found: tuple[Capacity, int] | None = None
        for worker in queue.workers:
            capacity = worker.capacity
            if capacity is None or capacity.reservation is not None or not capacity.could_fit(terms.resources):
                continue
            if not worker.has_time(now_us) or not worker.fits(queue.name, plain, now_us):
                continue
            expected_us, stated_us = capacity.free_from(terms.resources, now_us)
            expected_us = max(expected_us, _slot_us(worker, now_us))
            rank = (expected_us, capacity.left_over(terms.resources, self._table.scales))
            if best is None or rank < best:
                best = rank
                found = (capacity, stated_us)
        return found


def _slot_us(worker: Worker, now_us: int) -> int:
    """When it should be able to begin with a job: it may have resources free, and no empty slot."""
    if worker.credit or worker.asleep or worker.delegates or not worker.leases:
        return now_us
    return min([expected_end_us(lease, now_us) for lease in worker.leases.values()])


def _order(job: Job) -> tuple[int, int]:
    return job.terms.priority, job.id
