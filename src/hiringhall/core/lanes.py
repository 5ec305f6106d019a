"""A lane: the ready jobs of one queue, priority and requirement.

Invariant: a lane is first in, first out. A job that comes back goes to the front, or to the end if its worker
declined it.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.core.states import LEASED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Auction

_SWEEP_MIN: Final = 64
_OLDEST_LOOKS: Final = 16
"""Jobs at the front of a lane among which the oldest is looked for."""


class Lane:
    """The ready jobs of one queue and priority.

    A job that is cancelled, or has to wait for a parent again, stays in the deque as a ghost until it reaches
    the head, or until ghosts outnumber ready jobs. A ghost that becomes ready again keeps its place.
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
        """The next job, left in place."""
        jobs = self._jobs
        while jobs:
            job = jobs[0]
            if job.state == QUEUED:
                return job
            jobs.popleft()
            job.in_lane = False
        return None

    def remove(self, job: Job) -> None:
        """A job of this lane is no longer QUEUED: it becomes a ghost, unless a worker took it from the head."""
        self.ready -= 1
        if job.state == LEASED and self._jobs[0] is job:
            self._jobs.popleft()
            job.in_lane = False
            return
        ghosts = len(self._jobs) - self.ready
        if ghosts > _SWEEP_MIN and ghosts > self.ready:
            for other in self._jobs:
                other.in_lane = other.state == QUEUED
            self._jobs = deque([other for other in self._jobs if other.in_lane])

    def forget(self, job: Job) -> None:
        """Remove the ghost of a job."""
        self._jobs.remove(job)
        job.in_lane = False

    def clear(self) -> None:
        """Empty a lane that holds only ghosts."""
        for job in self._jobs:
            job.in_lane = False
        self._jobs.clear()

    def waiting(self) -> list[Job]:
        """The ready jobs, next one first."""
        return [job for job in self._jobs if job.state == QUEUED]

    def first(self, count: int, known: dict[int, Auction]) -> list[Job]:
        """The first ready jobs without an auction in `known`, at most `count`."""
        self.head()  # Drops the ghosts before it.
        found: list[Job] = []
        for job in self._jobs:
            if len(found) >= count:
                break
            if job.state == QUEUED and job.id not in known:
                found.append(job)
        return found

    def oldest_us(self) -> int:
        """When the oldest of its first jobs became ready; 0: it has none. Jobs that came back are before older
        ones, and are few.
        """
        self.head()  # Drops the ghosts before it.
        oldest_us = 0
        for job in islice(self._jobs, _OLDEST_LOOKS):
            if job.state == QUEUED and (not oldest_us or job.queued_us < oldest_us):
                oldest_us = job.queued_us
        return oldest_us

    @property
    def entries(self) -> int:
        """Jobs in the lane, including ghosts."""
        return len(self._jobs)


def head_of(lanes: list[Lane]) -> Job | None:
    """The job that goes first in the lanes of one requirement."""
    for lane in lanes:
        if lane.ready:
            return lane.head()
    return None


def ready_in(lanes: list[Lane]) -> int:
    ready = 0
    for lane in lanes:
        ready += lane.ready
    return ready


def first_of(one: Job | None, other: Job | None) -> Job | None:
    """Which of two jobs goes first."""
    if one is None or other is None:
        return one or other
    if one.terms.priority != other.terms.priority:
        return one if one.terms.priority < other.terms.priority else other
    return one if one.id < other.id else other
