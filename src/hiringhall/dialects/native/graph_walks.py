"""The live jobs that are connected with one job, through parents and children.

Invariant: a walk visits a bounded number of jobs in one turn, and a bounded number altogether.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import HALL_FULL, UNKNOWN_JOB, Refusal
from hiringhall.core.states import DONE, STATE_NAMES
from hiringhall.core.timers import Timed
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.searching import STEP_US

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.native.session import NativeSession

    Node = tuple[int, bytes, bytes, str, list[ParentRef]]
    """A job: its id, queue, key and state, and the parents that it waits for."""

JOBS_MAX: Final = 20_000
"""Jobs of one graph."""
STEP_EDGES: Final = 5000
"""Jobs and edges that are looked at in one turn."""
WALKS_MAX: Final = 4
"""Graphs of one connection that may be under way at once."""


class GraphWalks:
    """The graphs that one connection has asked for."""

    __slots__ = ("_services", "_session", "_under_way")

    def __init__(self, session: NativeSession, services: HallServices) -> None:
        self._session = session
        self._services = services
        self._under_way: dict[GraphWalk, None] = {}

    def begin(self, number: int, body: Raw) -> None:
        # [68719476737]
        (job_id,) = wire.decode(wire.ID_BODY, body)
        scheduler = self._services.scheduler
        job = scheduler.jobs.get(job_id)
        if job is None:
            raise Refusal(UNKNOWN_JOB, f"job {job_id} is not known, or has ended")
        if len(self._under_way) >= WALKS_MAX:
            raise Refusal(HALL_FULL, f"{WALKS_MAX} graphs of this connection are under way")
        walk = GraphWalk(self, number, job)
        self._under_way[walk] = None
        walk.ring(scheduler)

    def answer(self, walk: GraphWalk, number: int, nodes: list[Node], complete: bool) -> None:
        if walk in self._under_way:
            del self._under_way[walk]
            self._session.answer(number, (nodes, complete))

    def end(self) -> None:
        """The connection is closed."""
        for walk in self._under_way:
            self._services.scheduler.timers.disarm(walk)
        self._under_way.clear()


class GraphWalk(Timed):
    """A walk that is under way. Its timer is its next step."""

    __slots__ = ("_left", "_nodes", "_number", "_seen", "_walks")

    def __init__(self, walks: GraphWalks, number: int, job: Job) -> None:
        super().__init__()
        self._walks = walks
        self._number = number
        self._seen: set[int] = {job.id}
        self._left: list[Job] = [job]
        """Jobs that were seen, and whose neighbours were not."""
        self._nodes: list[Node] = []

    def ring(self, scheduler: Scheduler) -> None:
        work = 0
        while self._left and work < STEP_EDGES:
            job = self._left.pop()
            if job.state >= DONE:
                continue  # it has ended since it was seen
            parents = job.parents or {}
            self._nodes.append((job.id, job.queue.name, job.key, STATE_NAMES[job.state], list(parents)))
            work += 1 + len(parents) + len(job.children or ())
            for parent in parents.values():
                if parent is not None:
                    self._see(parent)
            for child in (job.children or {}).values():
                self._see(child)
        if self._left:
            scheduler.timers.arm(self, scheduler.now_us + STEP_US)
        else:
            self._walks.answer(self, self._number, self._nodes, len(self._seen) < JOBS_MAX)

    def _see(self, job: Job) -> None:
        if job.id not in self._seen and len(self._seen) < JOBS_MAX:
            self._seen.add(job.id)
            self._left.append(job)
