"""A queue: the jobs of one kind, and the workers that wait for them."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from hiringhall.core.histograms import Histogram
from hiringhall.core.lanes import Lane, first_of, head_of, oldest_of, ready_in
from hiringhall.core.rules.fair_lanes import FairLane
from hiringhall.core.terms import NO_REQUIREMENT, PRIORITIES

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Listing
    from hiringhall.core.jobs import Job
    from hiringhall.core.resources.reserving import Reservation, ReservationTimer
    from hiringhall.core.rules.limiter import Limiter
    from hiringhall.core.terms import Requirement, Terms
    from hiringhall.core.workers import Worker

NO_BOUND: Final = -1
REQUIREMENTS_SWEEP_MIN: Final = 256
"""With this many requirements, those without a job are dropped before another is added."""


class Queue:
    """One kind of work."""

    __slots__ = (
        "average_run_us",
        "by_requirement",
        "cancelled",
        "closed",
        "done",
        "failed",
        "held",
        "lanes",
        "leased",
        "limiter",
        "listing",
        "live",
        "lost",
        "maxima",
        "name",
        "overdue",
        "paused_us",
        "ready",
        "requirements_max",
        "reservation",
        "reservation_timer",
        "resourced",
        "retried",
        "run",
        "sleepers",
        "submitted",
        "takers",
        "unmatched",
        "unsettled",
        "untried",
        "wait",
        "waking",
        "woken",
        "workers",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.lanes = [Lane() for _ in range(PRIORITIES)]
        """For jobs that any worker can do, by priority."""
        self.by_requirement: dict[Requirement, list[Lane]] | None = None
        """For jobs with a requirement: its lanes by priority. None: there was no such job yet."""
        self.requirements_max = REQUIREMENTS_SWEEP_MIN
        """With this many requirements, unused ones are dropped."""
        self.live = 0
        """Jobs that have not ended."""
        self.ready = 0
        """Sum of the ready jobs of all lanes."""
        self.leased = 0
        self.held = 0
        """Jobs that wait for parents."""
        self.done = 0
        """Jobs that have succeeded since the queue was made."""
        self.failed = 0
        """Jobs that have failed since then."""
        self.cancelled = 0
        """Jobs that were cancelled since then, or expired."""
        self.submitted = 0
        """Jobs that were made since then; joined submits and jobs of an earlier start do not count."""
        self.retried = 0
        """Failed attempts that were followed by another."""
        self.lost = 0
        """Attempts that ended because their worker was lost."""
        self.wait: Histogram | None = None
        """For jobs that ended with a worker: how long the latest attempt had been ready before it started.
        None: no job has."""
        self.run: Histogram | None = None
        """For the same jobs: how long the latest attempt took. Set together with `wait`."""
        self.workers: dict[Worker, None] = {}
        """Workers that can do it, in the order in which they said so."""
        self.sleepers: dict[Worker, None] = {}
        """Those of them that sleep. The latest is woken first: few workers stay warm, the rest sleep on."""
        self.takers: dict[Worker, None] = {}
        """Those of them that have credit."""
        self.waking = 0
        """Workers that were woken for this queue and have not answered: one ready job is reserved for each."""
        self.overdue: dict[Requirement, int] = {}
        """Woken workers that have let `wake_step_us` pass, by requirement. For each of them one more is woken,
        so that 1, 2, 4 and so on are awake until one answers."""
        self.woken: dict[Requirement, int] = {}
        """How many of `waking` have a job with this requirement reserved; the rest have one without."""
        self.unmatched: dict[Requirement, None] = {}
        """Requirements that no waiting worker meets: the workers are not searched again for each new job. When
        a worker comes or changes, `reconsider` looks at it; time alone makes no worker fit."""
        self.untried: dict[Requirement, None] = {}
        """All requirements with a ready job that are not in `unmatched`, and perhaps some without a ready job.
        So what no worker meets costs nothing when something else is matched."""
        self.unsettled = False
        """It is on the table's list of queues to match at the end of the turn."""
        self.maxima = [NO_BOUND] * PRIORITIES
        """By priority: with this many live jobs a submit is refused."""
        self.average_run_us = 0
        """How long its jobs take: a moving average of those that succeeded; 0: none has yet."""
        self.paused_us = 0
        """When it was paused: no job of it starts; 0: it is not paused."""
        self.limiter: Limiter | None = None
        """Keeps its rules; None: it has none."""
        self.closed = False
        """No job of it starts: it is paused, or a limit for the whole queue is reached."""
        self.listing: Listing | None = None
        """Its announcements to workers that bid; None: its jobs are not announced."""
        self.resourced = False
        """There was a job that needs resources: its jobs are matched in their order, each with the worker that
        it fits best."""
        self.reservation: Reservation | None = None
        """The worker that is kept for its first job; None: it has none."""
        self.reservation_timer: ReservationTimer | None = None
        """The timer of the next reservation; None: there was none yet."""

    def best(self, worker: Worker, now_us: int) -> Job | None:
        """The ready job that goes first for this worker: priority, then age."""
        if not self.ready or self.closed or (worker.until_us and worker.until_us <= now_us):
            return None
        best: Job | None = None
        for lane in self.lanes:
            if lane.ready:
                best = lane.head()
                break
        if self.by_requirement is not None:
            for requirement, lanes in self.by_requirement.items():
                if worker.fits(self.name, requirement, now_us):
                    best = self._first_of(best, head_of(lanes))
        return best

    def measure(self, wait_us: int, run_us: int) -> None:
        """A job has ended that a worker had."""
        wait, run = self.wait, self.run
        if wait is None or run is None:
            wait = self.wait = Histogram()
            run = self.run = Histogram()
        wait.add(wait_us)
        run.add(run_us)

    def unclaimed(self) -> list[Requirement]:
        """The requirements of ready jobs for which too few workers are about to answer a wake-up."""
        if self.limiter is not None and self.wanted() <= self.waking:
            return []
        return [requirement for requirement in self.all_lanes() if self._is_unclaimed(requirement)]

    def _is_unclaimed(self, requirement: Requirement) -> bool:
        ready = ready_in(self._lanes(requirement))
        plain = requirement == NO_REQUIREMENT
        claimed = self.waking - sum(self.woken.values()) if plain else self.woken.get(requirement, 0)
        return ready > 0 and ready + self.overdue.get(requirement, 0) > claimed

    def wanted(self) -> int:
        """How many workers should be about to answer a wake-up, if no job has a requirement."""
        ready = self.ready if self.limiter is None else self.limiter.room()
        return ready + sum(self.overdue.values()) if ready else 0

    def matchable(self) -> list[Requirement]:
        """The requirements of ready jobs that a worker with an empty slot may meet. It does not matter here who
        was woken: an empty slot is filled at once.
        """
        found: list[Requirement] = []
        if ready_in(self.lanes) and NO_REQUIREMENT not in self.unmatched:
            found.append(NO_REQUIREMENT)
        for requirement in list(self.untried):
            if ready_in(self._lanes(requirement)):
                found.append(requirement)
            else:
                del self.untried[requirement]
        return found

    def head(self, requirement: Requirement) -> Job | None:
        """The ready job that goes first of those with this requirement."""
        return head_of(self._lanes(requirement))

    def rank(self, job: Job) -> tuple[int, int, int, int]:
        """The place of a ready job among those of the queue: lower goes first. It grows while others start, and
        never falls.
        """
        if self.limiter is None or not self.limiter.orders:
            return job.terms.priority, 0, 0, job.id
        return self.limiter.rank(job)

    def candidates(self) -> list[Requirement]:
        """The requirements of ready jobs that a waiting worker may meet, and for which too few are about to
        answer a wake-up.
        """
        if self.limiter is not None and self.wanted() <= self.waking:
            return []
        plain = () if NO_REQUIREMENT in self.unmatched else (NO_REQUIREMENT,)
        return [requirement for requirement in (*plain, *self.untried) if self._is_unclaimed(requirement)]

    def set_unmatched(self, requirements: list[Requirement]) -> None:
        """No waiting worker meets these requirements."""
        for requirement in requirements:
            self.unmatched[requirement] = None
            self.untried.pop(requirement, None)

    def reconsider(self, worker: Worker, now_us: int) -> None:
        """A worker has begun to wait, or its skills or its time have changed."""
        for requirement in [
            requirement for requirement in self.unmatched if worker.fits(self.name, requirement, now_us)
        ]:
            del self.unmatched[requirement]
            if requirement != NO_REQUIREMENT:
                self.untried[requirement] = None

    def claim(self, worker: Worker, unclaimed: list[Requirement], now_us: int) -> Requirement | None:
        """The requirement of the job that this worker would take, out of these; None: it fits none."""
        if worker.until_us and worker.until_us <= now_us:
            return None
        best: Job | None = None
        for requirement in unclaimed:
            if requirement == NO_REQUIREMENT or worker.fits(self.name, requirement, now_us):
                best = self._first_of(best, head_of(self._lanes(requirement)))
        return (best.terms.requirement or NO_REQUIREMENT) if best is not None else None

    def _lanes(self, requirement: Requirement) -> list[Lane]:
        if requirement == NO_REQUIREMENT:
            return self.lanes
        return self.by_requirement.get(requirement, []) if self.by_requirement is not None else []

    def _lane_of(self, requirement: Requirement, priority: int) -> Lane:
        if self.by_requirement is None:
            self.by_requirement = {}
        lanes = self.by_requirement.get(requirement)
        if lanes is None:
            if len(self.by_requirement) >= self.requirements_max:
                self._sweep_requirements()
            lanes = self.by_requirement[requirement] = self._new_lanes()
            if requirement[2]:
                self.resourced = True
        if requirement not in self.unmatched:
            self.untried[requirement] = None
        return lanes[priority]

    def _sweep_requirements(self) -> None:
        """Drop the requirements without a ready job. If few are dropped, the next sweep comes later."""
        assert self.by_requirement is not None
        for requirement, lanes in list(self.by_requirement.items()):
            if not ready_in(lanes):
                for lane in lanes:
                    lane.clear()
                del self.by_requirement[requirement]
                self.unmatched.pop(requirement, None)
                self.untried.pop(requirement, None)
        self.requirements_max = max(REQUIREMENTS_SWEEP_MIN, 2 * len(self.by_requirement))

    def _new_lanes(self) -> list[Lane]:
        if self.limiter is not None and self.limiter.orders:
            return [FairLane() for _ in range(PRIORITIES)]
        return [Lane() for _ in range(PRIORITIES)]

    def _first_of(self, one: Job | None, other: Job | None) -> Job | None:
        return first_of(one, other) if self.limiter is None else self.limiter.first_of(one, other)

    def lane_of(self, job: Job) -> Lane:
        """The lane where it is, or would be, while it is ready."""
        terms = job.terms
        requirement = terms.requirement
        return self.lanes[terms.priority] if requirement is None else self._lane_of(requirement, terms.priority)

    def put(self, job: Job, front: bool) -> None:
        """Add a ready job to its lane."""
        if self.limiter is not None and self.limiter.orders:
            self.limiter.put(job, front)
            return
        terms = job.terms
        requirement = terms.requirement
        lane = self.lanes[terms.priority] if requirement is None else self._lane_of(requirement, terms.priority)
        if front:
            lane.push_front(job)
        else:
            lane.push(job)
        self.ready += 1

    def remove(self, job: Job) -> None:
        """Remove a job that is no longer ready."""
        if self.limiter is not None and self.limiter.orders:
            self.limiter.remove(job)
            if job.terms.requirement is not None:
                self._unreserve(job)
            return
        terms = job.terms
        requirement = terms.requirement
        if requirement is None:
            lane = self.lanes[terms.priority]
        else:
            lane = self._lane_of(requirement, terms.priority)
            self._unreserve(job)
        lane.remove(job)
        self.ready -= 1

    def _unreserve(self, job: Job) -> None:
        if self.reservation is not None and self.reservation.job is job:
            self.reservation.end()

    def change_terms(self, job: Job, terms: Terms) -> None:
        """Replace the terms of a job that is not ready. Its ghost is removed: it may return to another lane."""
        if job.in_lane:
            lane = self._lanes(job.terms.requirement or NO_REQUIREMENT)[job.terms.priority]
            lane.forget(job)
        job.terms = terms

    @property
    def idle(self) -> bool:
        """Nothing refers to it: it can be dropped."""
        used = self.live or self.workers or self.limited or self.paused_us
        return not used and self.limiter is None

    @property
    def limited(self) -> bool:
        """A limit was set for the number of its jobs."""
        return self.maxima != [NO_BOUND] * PRIORITIES

    @property
    def delayed(self) -> int:
        """Jobs that are due later."""
        return self.live - self.ready - self.parked - self.leased - self.held

    @property
    def parked(self) -> int:
        """Ready jobs that are in no lane, because their key has as many running as it may."""
        return sum(self.limiter.parked) if self.limiter is not None else 0

    def parked_of(self, priority: int) -> int:
        """Parked jobs of a priority."""
        return self.limiter.parked[priority] if self.limiter is not None else 0

    def parked_jobs(self) -> list[Job]:
        """The parked jobs, the oldest first."""
        if self.limiter is None or not self.parked:
            return []
        return [entry.job for entry in self.limiter.waiting() if entry.parked]

    def take_out_all(self) -> list[Job]:
        """Remove all ready jobs from the lanes, in the order of their age, and drop the lanes: the rules of the
        queue are about to change.
        """
        if self.limiter is not None and self.limiter.orders:
            jobs = [entry.job for entry in self.limiter.waiting()]
        else:
            waiting = [lane.waiting() for lanes in self.all_lanes().values() for lane in lanes]
            jobs = list(merge(*waiting, key=_id))
        for lanes in self.all_lanes().values():
            for lane in lanes:
                lane.clear()
        for job in jobs:
            job.in_lane = False
        self.by_requirement = None
        self.untried.clear()
        self.ready = 0
        return jobs

    def set_limiter(self, limiter: Limiter | None) -> None:
        """Use other rules, while the lanes are empty."""
        self.limiter = limiter
        self.lanes = self._new_lanes()
        self.closed = self.paused_us > 0

    def oldest_us(self) -> int:
        """When the job became ready that has been ready for longest; 0: none is ready. Of very many
        requirements it looks at some.
        """
        return oldest_of(islice(self.all_lanes().values(), REQUIREMENTS_SWEEP_MIN))

    def counts(self) -> tuple[int, int, int]:
        """Live jobs, leased jobs, capable workers."""
        return self.live, self.leased, len(self.workers)

    def all_lanes(self) -> dict[Requirement, list[Lane]]:
        """The lanes of each requirement, by priority."""
        return {NO_REQUIREMENT: self.lanes, **(self.by_requirement or {})}


def _id(job: Job) -> int:
    return job.id
