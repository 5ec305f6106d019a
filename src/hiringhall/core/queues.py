"""A queue: the jobs of one kind, and the workers who wait for them.

The law: a lane gives its jobs out first in, first out; a job that comes back goes to the front.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.jobs import PRIORITIES, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.workers import Worker

NO_BOUND: Final = -1
_SWEEP_MIN: Final = 64


class Lane:
    """The ready jobs of one queue and priority.

    A job that is cancelled, or has to wait for a parent again, stays in place as a ghost until it surfaces, or
    until ghosts outnumber the living. A ghost that is ready again lives on where it stands.
    """

    __slots__ = ("_jobs", "ready")

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self.ready = 0
        """Jobs in the lane that are QUEUED; the rest of the deque are ghosts."""

    def push(self, job: Job) -> None:
        self.ready += 1
        if not job.in_lane:
            job.in_lane = True
            self._jobs.append(job)

    def push_front(self, job: Job) -> None:
        self.ready += 1
        if not job.in_lane:
            job.in_lane = True
            self._jobs.appendleft(job)

    def head(self) -> Job | None:
        """The job that is next, left in place."""
        jobs = self._jobs
        while jobs:
            job = jobs[0]
            if job.state == QUEUED:
                return job
            jobs.popleft()
            job.in_lane = False
        return None

    def pop(self) -> Job:
        """Take the job that `head` showed."""
        self.ready -= 1
        job = self._jobs.popleft()
        job.in_lane = False
        return job

    def drop(self) -> None:
        """A job of this lane is QUEUED no more: it is a ghost from now on."""
        self.ready -= 1
        ghosts = len(self._jobs) - self.ready
        if ghosts > _SWEEP_MIN and ghosts > self.ready:
            for job in self._jobs:
                job.in_lane = job.state == QUEUED
            self._jobs = deque([job for job in self._jobs if job.in_lane])

    def waiting(self) -> list[Job]:
        """The ready jobs, next one first."""
        return [job for job in self._jobs if job.state == QUEUED]


class Queue:
    """One kind of work."""

    __slots__ = (
        "lanes",
        "leased",
        "live",
        "maxima",
        "name",
        "ready",
        "sleepers",
        "takers",
        "unsettled",
        "waking",
        "workers",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.lanes = [Lane() for _ in range(PRIORITIES)]
        self.live = 0
        """Jobs that have not ended."""
        self.ready = 0
        """Sum of the lanes' ready jobs."""
        self.leased = 0
        self.workers: dict[Worker, None] = {}
        """Who can do it, in the order in which they said so."""
        self.sleepers: dict[Worker, None] = {}
        """Who of them sleeps; the latest is woken first, so that few are kept warm and the rest sleep on."""
        self.takers: dict[Worker, None] = {}
        """Who of them has credit."""
        self.waking = 0
        """Workers woken for this queue who have not yet answered: so many jobs are as good as taken."""
        self.unsettled = False
        """It is on the scheduler's list to be matched at the end of the turn."""
        self.maxima = [NO_BOUND] * PRIORITIES
        """Live jobs allowed before a submit of each priority is refused."""

    def best(self) -> Job | None:
        """The ready job that goes first: priority, then age."""
        if self.ready:
            for lane in self.lanes:
                if lane.ready:
                    return lane.head()
        return None

    def put(self, job: Job, front: bool) -> None:
        lane = self.lanes[job.terms.priority]
        if front:
            lane.push_front(job)
        else:
            lane.push(job)
        self.ready += 1

    def pop(self, job: Job) -> None:
        """Take the job that `best` showed."""
        self.lanes[job.terms.priority].pop()
        self.ready -= 1

    def drop(self, job: Job) -> None:
        """A ready job is ready no more, where it stood."""
        self.lanes[job.terms.priority].drop()
        self.ready -= 1

    @property
    def idle(self) -> bool:
        """Nothing refers to it: it may be forgotten."""
        return not self.live and not self.workers and self.maxima == [NO_BOUND] * PRIORITIES

    def counts(self) -> tuple[int, int, int]:
        """Live jobs, leased jobs, capable workers."""
        return self.live, self.leased, len(self.workers)
