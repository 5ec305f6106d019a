"""A lane: the ready jobs of one queue, priority and requirement.

Invariant: a lane is first in, first out. A job that comes back goes to the front, or to the end if its worker
declined it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.states import LEASED, QUEUED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.bidding.markets import Auction
    from hiringhall.core.jobs import Job

_SWEEP_MIN: Final = 64
_OLDEST_LOOKS: Final = 16
"""Jobs at the front of a lane among which the oldest is looked for."""


class Lane:
    """The ready jobs of one queue and priority, linked from one to the next: compiled, a step is a pointer,
    where each call of a deque is looked up by name.

    A job that is cancelled, or has to wait for a parent again, stays in the lane as a ghost until it reaches
    the head, or until ghosts outnumber ready jobs. A ghost that becomes ready again keeps its place.
    """

    __slots__ = ("_entries", "_first", "_last", "ready")

    def __init__(self) -> None:
        self._first: Job | None = None
        self._last: Job | None = None
        self._entries = 0
        """Jobs in the lane, including ghosts."""
        self.ready = 0
        """Jobs in the lane that are QUEUED; the rest are ghosts."""

    def push(self, job: Job) -> None:
        """Add a ready job at the end. A ghost keeps its place."""
        self.ready += 1
        if not job.in_lane:
            self._append(job)

    def _append(self, job: Job) -> None:
        job.in_lane = True
        job.behind = None
        last = self._last
        if last is None:
            self._first = job
        else:
            last.behind = job
        self._last = job
        self._entries += 1

    def push_front(self, job: Job) -> None:
        """Add a ready job at the front. A ghost keeps its place."""
        self.ready += 1
        if not job.in_lane:
            job.in_lane = True
            job.behind = self._first
            self._first = job
            if self._last is None:
                self._last = job
            self._entries += 1

    def head(self) -> Job | None:
        """The next job, left in place."""
        job = self._first
        while job is not None:
            if job.state == QUEUED:
                return job
            self._drop_first(job)
            job = self._first
        return None

    def _drop_first(self, job: Job) -> None:
        self._first = job.behind
        if job.behind is None:
            self._last = None
        job.behind = None
        job.in_lane = False
        self._entries -= 1

    def remove(self, job: Job) -> None:
        """A job of this lane is no longer QUEUED: it becomes a ghost, unless a worker took it from the head."""
        self.ready -= 1
        if job.state == LEASED and self._first is job:
            self._drop_first(job)
            return
        ghosts = self._entries - self.ready
        if ghosts > _SWEEP_MIN and ghosts > self.ready:
            self._keep(self.waiting())

    def forget(self, job: Job) -> None:
        """Remove the ghost of a job."""
        before: Job | None = None
        other = self._first
        while other is not None and other is not job:
            before = other
            other = other.behind
        if before is None:
            self._drop_first(job)
            return
        before.behind = job.behind
        if job.behind is None:
            self._last = before
        job.behind = None
        job.in_lane = False
        self._entries -= 1

    def clear(self) -> None:
        """Empty a lane that holds only ghosts."""
        self._keep([])

    def _keep(self, kept: list[Job]) -> None:
        """Only these jobs stay in the lane."""
        for job in self._all():
            job.behind = None
            job.in_lane = False
        self._first = self._last = None
        self._entries = 0
        for job in kept:
            self._append(job)

    def _all(self) -> list[Job]:
        """The jobs of the lane, and ghosts."""
        jobs: list[Job] = []
        job = self._first
        while job is not None:
            jobs.append(job)
            job = job.behind
        return jobs

    def waiting(self) -> list[Job]:
        """The ready jobs, next one first."""
        return [job for job in self._all() if job.state == QUEUED]

    def first(self, count: int, known: dict[int, Auction]) -> list[Job]:
        """The first ready jobs without an auction in `known`, at most `count`."""
        found: list[Job] = []
        job = self.head()  # Drops the ghosts before it.
        while job is not None and len(found) < count:
            if job.state == QUEUED and job.id not in known:
                found.append(job)
            job = job.behind
        return found

    def oldest_us(self) -> int:
        """When the oldest of its first jobs became ready; 0: it has none. Jobs that came back are before older
        ones, and are few.
        """
        oldest_us = 0
        job = self.head()  # Drops the ghosts before it.
        for _ in range(_OLDEST_LOOKS):
            if job is None:
                break
            if job.state == QUEUED and (not oldest_us or job.queued_us < oldest_us):
                oldest_us = job.queued_us
            job = job.behind
        return oldest_us

    @property
    def entries(self) -> int:
        """Jobs in the lane, including ghosts."""
        return self._entries


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


def oldest_of(all_lanes: Iterable[list[Lane]]) -> int:
    """When the job of these lanes became ready that has been ready for longest; 0: none is ready."""
    oldest_us = 0
    for lanes in all_lanes:
        for lane in lanes:
            ready_us = lane.oldest_us() if lane.ready else 0
            if ready_us and (not oldest_us or ready_us < oldest_us):
                oldest_us = ready_us
    return oldest_us


def first_of(one: Job | None, other: Job | None) -> Job | None:
    """Which of two jobs goes first."""
    if one is None or other is None:
        return one or other
    if one.terms.priority != other.terms.priority:
        return one if one.terms.priority < other.terms.priority else other
    return one if one.id < other.id else other
