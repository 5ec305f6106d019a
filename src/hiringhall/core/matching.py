"""Where a job meets a worker: one that asks, one that has offered slots, or one that sleeps and is woken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.leases import Lease
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.hiring import Hiring
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.leasing import Leases
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.waking import Wakeups
    from hiringhall.core.workers import Worker


class Matching:
    """The verb of workers that ask for work, and the end of a turn."""

    def __init__(self, table: JobTable, wakeups: Wakeups, leases: Leases, hiring: Hiring) -> None:
        self._table = table
        self._wakeups = wakeups
        self._leases = leases
        self._hiring = hiring

    def take(self, worker: Worker, name: bytes | None = None) -> Lease | None:
        """Pull the one job that goes first among all the worker's queues, or in the one that is named. What the
        worker was promised comes before all else.
        """
        if worker.waking is not None:
            self._wakeups.answer(worker)
        elif worker.asleep:
            self._wakeups.stop_sleeping(worker)
        table = self._table
        if table.closing:
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

    def settle(self) -> None:
        """The end of a turn: ready jobs meet workers."""
        table = self._table
        if table.closing:
            return
        if self._hiring.expectant:
            self.keep_promises()
        if table.unsettled:
            for queue in table.unsettled:
                queue.unsettled = False
                self.match(queue)
            table.unsettled.clear()

    def match(self, queue: Queue) -> None:
        """Ready jobs meet workers who wait; what is left is announced to those who bid."""
        self._match_waiting(queue)
        if queue.listing is not None:
            assert self._table.announcer is not None
            self._table.announcer.match(queue, queue.listing)

    def _match_waiting(self, queue: Queue) -> None:
        while queue.ready and queue.takers:
            worker = next(iter(queue.takers))
            job = worker.pick(self._table.now_us)
            if job is None:
                self._match_choosily(queue)
                return
            self._push(job, worker)
        if queue.shapes is not None:
            self._wakeups.wake_choosily(queue)
            return
        wanted = queue.wanted() if queue.overdue else queue.ready
        while wanted > queue.waking and queue.sleepers:
            worker, _ = queue.sleepers.popitem()
            if worker.until_us and worker.until_us <= self._table.now_us:
                queue.sleepers[worker] = None
                self._wakeups.wake_choosily(queue)
                return
            self._wakeups.wake(worker, queue)

    def _match_choosily(self, queue: Queue) -> None:
        """Not every worker is good for every job: look at each of them."""
        for worker in list(queue.takers) if queue.candidates() else ():
            while queue.ready and worker.credit:
                job = worker.pick(self._table.now_us)
                if job is None:
                    break
                self._push(job, worker)
        self._wakeups.wake_choosily(queue)

    def _push(self, job: Job, worker: Worker) -> None:
        self._spend(worker)
        lease = self._leases.lease(job, worker)
        worker.peer.assigned(lease)

    def _spend(self, worker: Worker) -> None:
        """One slot is used; with slots left, the worker goes behind the others."""
        worker.credit -= 1
        for queue in worker.abilities:
            del queue.takers[worker]
            if worker.credit:
                queue.takers[worker] = None

    def keep_promises(self) -> None:
        """Workers of other dialects that wait are given what they were promised, or woken for it."""
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
