"""A queue: the jobs of one kind, and the workers who wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.lanes import Lane, first_of, head_of, ready_in
from hiringhall.core.terms import PLAIN, PRIORITIES

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.markets import Listing
    from hiringhall.core.terms import Shape
    from hiringhall.core.workers import Worker

NO_BOUND: Final = -1
SHAPES_SWEEP_MIN: Final = 256
"""With so many shapes, those of which no job is left are forgotten before another is added."""


class Queue:
    """One kind of work."""

    __slots__ = (
        "lanes",
        "leased",
        "listing",
        "live",
        "maxima",
        "name",
        "overdue",
        "ready",
        "shapes",
        "shapes_max",
        "sleepers",
        "takers",
        "typical_us",
        "unmatched",
        "unsettled",
        "waking",
        "woken",
        "workers",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.lanes = [Lane() for _ in range(PRIORITIES)]
        """For jobs that any worker can be given."""
        self.shapes: dict[Shape, list[Lane]] | None = None
        """For jobs that need a skill or a time: a lane for each priority, by shape; None: it had none yet."""
        self.shapes_max = SHAPES_SWEEP_MIN
        """With so many shapes those that are not used are forgotten."""
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
        """Workers woken for this queue who may be about to answer: so many jobs are as good as taken."""
        self.overdue: dict[Shape, int] = {}
        """How many were woken for a job of a shape, and have let the time for it pass. For each of them another
        is woken, beside those for the jobs: 1, 2, 4 and so on, until somebody answers."""
        self.woken: dict[Shape, int] = {}
        """How many of them stand for a job that needs something, by shape; the rest stand for those that any
        worker can be given."""
        self.unmatched: dict[Shape, None] = {}
        """Shapes for which no waiting worker fits: the workers are not looked at again for each new job. A
        worker that comes or changes is looked at by `reconsider`; time alone makes no worker fit."""
        self.unsettled = False
        """It is on the scheduler's list to be matched at the end of the turn."""
        self.maxima = [NO_BOUND] * PRIORITIES
        """Live jobs allowed before a submit of each priority is refused."""
        self.typical_us = 0
        """How long its jobs take, as far as it was seen; 0: never."""
        self.listing: Listing | None = None
        """What is announced of it to those who bid; None: its jobs are announced nowhere."""

    def best(self, worker: Worker, now_us: int) -> Job | None:
        """The ready job that goes first for this worker: priority, then age."""
        if not self.ready or (worker.until_us and worker.until_us <= now_us):
            return None
        best: Job | None = None
        for lane in self.lanes:
            if lane.ready:
                best = lane.head()
                break
        if self.shapes is not None:
            for shape, lanes in self.shapes.items():
                if worker.fits(self.name, shape, now_us):
                    best = first_of(best, head_of(lanes))
        return best

    def has_work_for(self, worker: Worker, now_us: int) -> bool:
        return self.best(worker, now_us) is not None

    def unclaimed(self) -> list[Shape]:
        """The shapes for which there are fewer workers about to answer a wake-up than there should be."""
        woken = self.woken
        overdue = self.overdue
        found: list[Shape] = []
        ready = ready_in(self.lanes)
        if ready and ready + overdue.get(PLAIN, 0) > self.waking - sum(woken.values()):
            found.append(PLAIN)
        if self.shapes is not None:
            for shape, lanes in self.shapes.items():
                ready = ready_in(lanes)
                if ready and ready + overdue.get(shape, 0) > woken.get(shape, 0):
                    found.append(shape)
        return found

    def wanted(self) -> int:
        """How many should be about to answer a wake-up, where all jobs are of one shape."""
        return self.ready + sum(self.overdue.values()) if self.ready else 0

    def candidates(self) -> list[Shape]:
        """The shapes of ready jobs for which a waiting worker may fit."""
        return [shape for shape in self.unclaimed() if shape not in self.unmatched]

    def reconsider(self, worker: Worker, now_us: int) -> None:
        """A worker waits from now on, or something else is known of it."""
        for shape in [shape for shape in self.unmatched if worker.fits(self.name, shape, now_us)]:
            del self.unmatched[shape]

    def claim(self, worker: Worker, unclaimed: list[Shape], now_us: int) -> Shape | None:
        """Of which of these shapes the job is that this worker would take; None: it is good for none."""
        if worker.until_us and worker.until_us <= now_us:
            return None
        best: Job | None = None
        for shape in unclaimed:
            if shape == PLAIN or worker.fits(self.name, shape, now_us):
                best = first_of(best, head_of(self._lanes(shape)))
        return (best.terms.shape or PLAIN) if best is not None else None

    def _lanes(self, shape: Shape) -> list[Lane]:
        if shape == PLAIN or self.shapes is None:
            return self.lanes
        return self.shapes[shape]

    def _shaped_lane(self, shape: Shape, priority: int) -> Lane:
        if self.shapes is None:
            self.shapes = {}
        lanes = self.shapes.get(shape)
        if lanes is None:
            if len(self.shapes) >= self.shapes_max:
                self._sweep_shapes()
            lanes = self.shapes[shape] = [Lane() for _ in range(PRIORITIES)]
        return lanes[priority]

    def _sweep_shapes(self) -> None:
        """Forget the shapes of which no job is left. Not over and over, when there are none."""
        assert self.shapes is not None
        for shape, lanes in list(self.shapes.items()):
            if not ready_in(lanes):
                for lane in lanes:
                    lane.clear()
                del self.shapes[shape]
                self.unmatched.pop(shape, None)
        self.shapes_max = max(SHAPES_SWEEP_MIN, 2 * len(self.shapes))

    def put(self, job: Job, front: bool) -> None:
        terms = job.terms
        shape = terms.shape
        lane = self.lanes[terms.priority] if shape is None else self._shaped_lane(shape, terms.priority)
        if front:
            lane.push_front(job)
        else:
            lane.push(job)
        self.ready += 1

    def remove(self, job: Job) -> None:
        """A ready job is ready no more."""
        terms = job.terms
        shape = terms.shape
        lane = self.lanes[terms.priority] if shape is None else self._shaped_lane(shape, terms.priority)
        lane.remove(job)
        self.ready -= 1

    @property
    def idle(self) -> bool:
        """Nothing refers to it: it may be forgotten."""
        return not self.live and not self.workers and not self.limited

    @property
    def limited(self) -> bool:
        """Somebody has set how many jobs it may have."""
        return self.maxima != [NO_BOUND] * PRIORITIES

    def counts(self) -> tuple[int, int, int]:
        """Live jobs, leased jobs, capable workers."""
        return self.live, self.leased, len(self.workers)

    def all_lanes(self) -> dict[Shape, list[Lane]]:
        """For each shape, those of its priorities."""
        return {PLAIN: self.lanes, **(self.shapes or {})}
