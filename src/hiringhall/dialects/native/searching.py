"""A search among the live jobs, for a list or for a count.

Invariant: it looks at a bounded number of jobs in one turn. If these are not enough it goes on in later turns,
for a bounded number of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.timers import Timed
from hiringhall.dialects.native import describing
from hiringhall.dialects.native.filtering import TEXT_COST, TEXT_LOOKED_BYTES

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.filtering import JobFilter
    from hiringhall.dialects.native.listing import Lists

TEXT_STEP_BYTES: Final = 128 << 10
"""With fewer bytes of payloads than this in one turn, the next one looks at twice as many jobs."""
STEP_US: Final = 1000
"""The pause between two steps of a search: others have their turns in it."""


class JobSearch(Timed):
    """A search that is under way. Its timer is its next step."""

    __slots__ = (
        "_after",
        "_began_us",
        "_count",
        "_filter",
        "_found",
        "_ids_max",
        "_lists",
        "_matched",
        "_scheduler",
        "_steps",
        "number",
        "ticket",
    )

    def __init__(
        self, lists: Lists, scheduler: Scheduler, number: int, wanted: JobFilter, after: int, count: int
    ) -> None:
        super().__init__()
        self.ticket = lists.next_ticket()
        self.number = number
        self._lists = lists
        self._scheduler = scheduler
        self._filter = wanted
        self._ids_max = lists.bounds.ids_max
        if wanted.text is not None:
            self._ids_max = max(self._ids_max // TEXT_COST, 1)
        self._after = after
        self._began_us = scheduler.now_us
        self._count = count
        """How many are listed; 0: they are only counted."""
        self._found: list[describing.Described] = []
        self._matched = 0
        self._steps = 0

    def begin(self) -> None:
        jobs = self._candidates()
        if jobs is None:
            self._step()
        else:
            jobs.sort(key=_id)
            self._finish(self._take(jobs))

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (it knows the scheduler)
        self._step()

    def _candidates(self) -> list[Job] | None:
        """All jobs that may match, if an index has them; None: look at all jobs."""
        scheduler = self._scheduler
        wanted = self._filter
        if wanted.worker is not None:
            return _jobs_with(scheduler, wanted.worker, self._ids_max)
        if wanted.queue is None:
            if wanted.state < 0:
                return None
            queues = [queue for queue in scheduler.queues.values() if wanted.may_be_in(queue)]
            return _jobs_of(queues, wanted.state, self._ids_max)
        queue = scheduler.queues.get(wanted.queue)
        if queue is None or not wanted.may_be_in(queue):
            return []
        named = scheduler.find_key(wanted.queue, wanted.key) if wanted.key else None
        if named is not None:
            return [named]
        return _indexed_jobs(scheduler, queue, wanted.state, self._ids_max)

    def _step(self) -> None:
        """Look at some more jobs."""
        scheduler = self._scheduler
        jobs, position = scheduler.table.id_blocks.page(scheduler.jobs, self._after, self._ids_max)
        self._steps += 1
        full = self._take(jobs)
        bounds = self._lists.bounds
        late = scheduler.now_us - self._began_us >= bounds.search_us_max
        if full or not position or late or self._steps >= bounds.steps_max:
            self._finish(full or position)
        else:
            self._after = position
            if self._filter.text is not None:
                self._adapt(jobs)
            scheduler.timers.arm(self, scheduler.now_us + STEP_US)

    def _adapt(self, jobs: list[Job]) -> None:
        """Look for a text in more jobs at once if their payloads are short, and in fewer if they are long."""
        looked_bytes = sum([min(len(job.payload), TEXT_LOOKED_BYTES) for job in jobs])
        ids_max = self._lists.bounds.ids_max
        if looked_bytes < TEXT_STEP_BYTES:
            self._ids_max = min(2 * self._ids_max, max(ids_max // 2, 1))
        else:
            self._ids_max = max(ids_max // TEXT_COST, 1)

    def _take(self, jobs: list[Job]) -> int:
        """Keep the jobs that match. If there are enough, the id of the last one; otherwise 0."""
        for job in jobs:
            if job.id > self._after and self._filter.matches(self._scheduler, job):
                self._matched += 1
                if self._count:
                    self._found.append(describing.listed_job(self._scheduler, job))
                    if self._matched >= self._count:
                        return job.id
        return 0

    def _finish(self, position: int) -> None:
        if self._count:
            self._lists.answer(self.ticket, self.number, self._found, position)
        else:
            self._lists.answer_count(self.ticket, self.number, self._matched, complete=not position)


def _id(job: Job) -> int:
    return job.id


def _jobs_with(scheduler: Scheduler, number: int, most: int) -> list[Job] | None:
    """The jobs of the worker with this number, and of those that stand in for it; None: they are too many."""
    jobs: list[Job] = []
    for worker in scheduler.workers:
        if worker.number == number:
            jobs += [lease.job for lease in worker.leases.values()]
            if worker.promise is not None:
                jobs.append(worker.promise.job)
    return jobs if len(jobs) <= most else None


def _jobs_of(queues: list[Queue], state: int, most: int) -> list[Job] | None:
    """The jobs of some queues in a state, if their lanes have all of them; None: look at all jobs."""
    if not queues:
        return []
    if state != QUEUED or sum([queue.ready + queue.parked for queue in queues]) > most:
        return None
    jobs: list[Job] = []
    for queue in queues:
        jobs += _ready_jobs(queue, most) or []
    return jobs


def _indexed_jobs(scheduler: Scheduler, queue: Queue, state: int, most: int) -> list[Job] | None:
    """The jobs of a queue, if its lanes and the workers have all that are wanted; None: look at all jobs."""
    if state == QUEUED:
        return _ready_jobs(queue, most)
    if state == LEASED:
        return _leased_jobs(scheduler, queue, most)
    if state >= 0 or queue.ready + queue.parked + queue.leased < queue.live:
        return None  # others wait for a time or for parents: no index has those of one queue
    ready = _ready_jobs(queue, most)
    leased = _leased_jobs(scheduler, queue, most)
    return ready + leased if ready is not None and leased is not None else None


def _ready_jobs(queue: Queue, most: int) -> list[Job] | None:
    if queue.ready + queue.parked > most:
        return None
    jobs = queue.parked_jobs()
    if queue.ready:
        for lanes in queue.all_lanes().values():
            for lane in lanes:
                jobs += lane.waiting()
    return jobs


def _leased_jobs(scheduler: Scheduler, queue: Queue, most: int) -> list[Job] | None:
    jobs: list[Job] = []
    looked = 0
    for worker in scheduler.workers:
        if len(jobs) == queue.leased:
            break
        looked += 1 + len(worker.leases)
        if looked > most:
            return None
        jobs += [lease.job for lease in worker.leases.values() if lease.job.queue is queue]
    return jobs if len(jobs) == queue.leased else None  # others were promised to a worker
