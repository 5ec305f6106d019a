"""Matching ready jobs to workers: those that ask, those that offered slots, and those that sleep."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from hiringhall.core.errors import CLOSING, WRONG_STATE, Refusal
from hiringhall.core.states import DELAYED, QUEUED, STATE_NAMES
from hiringhall.core.terms import NO_REQUIREMENT

if TYPE_CHECKING:
    from hiringhall.core.bidding.hiring import Hiring
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.leasing import Leases
    from hiringhall.core.queues import Queue
    from hiringhall.core.resources.reserving import Reservations
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Requirement
    from hiringhall.core.waking import Wakeups
    from hiringhall.core.workers import Worker


class Matching:
    """`take` for workers that ask, and `settle` at the end of a turn for those that wait."""

    def __init__(
        self,
        table: JobTable,
        wakeups: Wakeups,
        leases: Leases,
        hiring: Hiring,
        reservations: Reservations,
    ) -> None:
        self._table = table
        self._wakeups = wakeups
        self._leases = leases
        self._hiring = hiring
        self._reservations = reservations

    def take(self, worker: Worker, name: bytes | None = None) -> Lease | None:
        """Lease the job that goes first in the worker's queues, or in the named one. A job that was promised to
        the worker goes before all others.
        """
        if worker.waking is not None:
            self._wakeups.answer(worker)
        elif worker.asleep:
            self._wakeups.stop_sleeping(worker)
        table = self._table
        if table.withholding:
            return None
        promise = worker.promise
        wanted = promise is not None and promise.booked and name in (None, promise.job.queue.name)
        if promise is not None and wanted and self._hiring.begin_booked(promise):
            return promise
        if name is None:
            job = worker.pick(table.now_us)
        else:
            queue = table.queues.get(name)
            job = queue.best(worker, table.now_us) if queue is not None and queue in worker.abilities else None
        return self._leases.lease(job, worker) if job is not None else None

    def take_job(self, worker: Worker, job: Job) -> Lease:
        """Lease this job, which is ready or delayed. The worker need not be able to do its queue."""
        table = self._table
        if table.withholding:
            raise Refusal(CLOSING, "the hall is closing or was cut off; it hands out nothing")
        if job.state not in (DELAYED, QUEUED):
            raise Refusal(WRONG_STATE, f"the job is {STATE_NAMES[job.state]}, and cannot be taken")
        if job.queue.paused_us:
            raise Refusal(WRONG_STATE, "the queue of the job is paused")
        limiter = job.queue.limiter
        if limiter is not None and not limiter.may_start(job):
            raise Refusal(
                WRONG_STATE, "a limit of the queue or of its key is reached: the job may not start now"
            )
        if worker.draining:
            raise Refusal(WRONG_STATE, "the worker drains: it gets no more jobs")
        if not worker.fits(job.queue.name, job.terms.requirement or NO_REQUIREMENT, table.now_us):
            raise Refusal(WRONG_STATE, "the worker lacks the skill, the time or the resources for the job")
        return self._leases.lease(job, worker)

    def settle(self) -> None:
        """At the end of a turn, match the ready jobs of each queue that has changed."""
        table = self._table
        if table.withholding:
            return
        if self._hiring.expectant:
            self.keep_promises()
        if table.unsettled:
            for queue in table.unsettled:
                queue.unsettled = False
                self.match(queue)
            table.unsettled.clear()
        if table.announcer is not None:
            table.announcer.tell_announced()

    def match(self, queue: Queue) -> None:
        """Match ready jobs to waiting workers; the rest is announced to workers that bid."""
        if queue.closed:
            return
        if queue.resourced:
            self._match_by_job(queue)
        else:
            self._match_waiting(queue)
        if queue.limiter is not None:
            queue.limiter.await_token()
        if queue.listing is not None:
            assert self._table.announcer is not None
            self._table.announcer.match(queue, queue.listing)

    def _match_waiting(self, queue: Queue) -> None:
        while queue.ready and queue.takers and not queue.closed:
            worker = next(iter(queue.takers))
            job = worker.pick(self._table.now_us)
            if job is None:
                self._match_by_requirement(queue)
                return
            self._push(job, worker)
        if queue.by_requirement is not None:
            self._wakeups.wake_by_requirement(queue)
            return
        wanted = queue.wanted() if queue.overdue or queue.limiter is not None else queue.ready
        while wanted > queue.waking and queue.sleepers:
            worker, _ = queue.sleepers.popitem()
            if worker.until_us and worker.until_us <= self._table.now_us:
                queue.sleepers[worker] = None
                self._wakeups.wake_by_requirement(queue)
                return
            self._wakeups.wake(worker, queue)

    def _match_by_requirement(self, queue: Queue) -> None:
        """Some jobs have requirements, or some workers no time: look at each waiting worker."""
        for worker in list(queue.takers) if queue.matchable() else ():
            while queue.ready and worker.credit:
                job = worker.pick(self._table.now_us)
                if job is None:
                    break
                self._push(job, worker)
        self._wakeups.wake_by_requirement(queue)

    def _match_by_job(self, queue: Queue) -> None:
        """Some jobs need resources: give the jobs in their order each to the worker with an empty slot where
        it leaves the least unused.
        """
        now_us = self._table.now_us
        heads = self._heads(queue) if queue.takers else []
        while heads and queue.takers and not queue.closed:
            rank, requirement = heads[0]
            job = queue.head(requirement)
            if job is None:
                heappop(heads)
                continue
            if rank < queue.rank(job):
                heapreplace(heads, (queue.rank(job), requirement))
                continue
            worker = self._tightest(queue, requirement)
            if worker is None:
                heappop(heads)  # what is free gets less while jobs are given out
            elif len(worker.abilities) > 1:
                self._push(worker.pick(now_us) or job, worker)  # a job of another queue may go before
            else:
                self._push(job, worker)
        if queue.unsettled:
            return  # a reservation has ended: it is matched once more, with what that has made free
        self._wakeups.wake_by_requirement(queue)
        self._reservations.consider(queue)

    def _heads(self, queue: Queue) -> list[tuple[tuple[int, int, int, int], Requirement]]:
        """The first ready job of each requirement that a worker may meet: its rank, as a heap. So each
        requirement is looked at once, however many there are.
        """
        heads: list[tuple[tuple[int, int, int, int], Requirement]] = []
        for requirement in queue.matchable():
            job = queue.head(requirement)
            if job is not None:
                heads.append((queue.rank(job), requirement))
        heapify(heads)
        return heads

    def _tightest(self, queue: Queue, requirement: Requirement) -> Worker | None:
        """The worker with an empty slot that a job of this requirement fits best; None: it fits none."""
        now_us = self._table.now_us
        best: Worker | None = None
        least = 0
        for worker in queue.takers:
            if not worker.has_time(now_us) or not worker.fits(queue.name, requirement, now_us):
                continue
            capacity = worker.capacity
            if capacity is None or not requirement[2]:
                return worker
            left = capacity.left_over(requirement[2], self._table.scales)
            if best is None or left < least:
                best = worker
                least = left
        return best

    def _push(self, job: Job, worker: Worker) -> None:
        self._spend(worker)
        lease = self._leases.lease(job, worker)
        worker.peer.assigned(lease)

    def _spend(self, worker: Worker) -> None:
        """Use one slot; a worker with slots left goes to the end of the takers."""
        worker.credit -= 1
        for queue in worker.abilities:
            del queue.takers[worker]
            if worker.credit:
                queue.takers[worker] = None

    def keep_promises(self) -> None:
        """Give waiting workers of other dialects the jobs that were promised to them, or wake them up."""
        for worker in self._hiring.expectant:
            promise = worker.promise
            if promise is None or not promise.booked:
                continue
            if worker.credit:
                if self._hiring.begin_booked(promise):
                    self._spend(worker)
                    worker.peer.assigned(promise)
            elif worker.asleep:
                self._wakeups.stop_sleeping(worker)
                self._table.counters.woken += 1
                worker.peer.woken()
        self._hiring.expectant.clear()
