"""The tap for dwork's clients, and the locations they speak for. Each request is answered once, in order.

A location, not a connection, has tasks. What it has is on disk soon after, and is its own after a crash from
then on.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from hiringhall.core import ids
from hiringhall.core.residents import OUTSIDE
from hiringhall.dialects.dwork import wire

from .sights import Submit, is_made_for
from .taps import Holder, Tap
from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.dialects.dwork.context import DworkOptions
    from hiringhall.dialects.session import Session

    from .laws import Laws

_ANSWERS = {
    wire.CREATE: (wire.OK,),
    wire.STEAL: (wire.TRANSFER, wire.NOT_FOUND, wire.EXIT),
    wire.COMPLETE: (wire.OK, wire.NOT_FOUND),
    wire.TRANSFER: (wire.OK, wire.NOT_FOUND),
    wire.LOOKUP: (wire.OK, wire.NOT_FOUND),
    wire.OK: (wire.OK,),
    wire.EXIT: (wire.OK, wire.NOT_FOUND),
}
_NONSENSE = wire.Query(wire.ERROR, [], None, None, None)


class LocationHolder(Holder):
    """A worker that is known by its name."""

    def __init__(self, number: int, laws: Laws, queue: bytes, name: bytes) -> None:
        super().__init__(number, laws)
        self.name = name
        self.able[queue] = 0
        self.told: dict[bytes, dict[bytes, None]] = {}
        """The payloads that it was sent under each name: which of them it answers for, the hall cannot know."""
        laws.world.note(f"c{number} is location {name!r}")

    def has(self, lease: Lease) -> bool:
        return lease.worker.resident is not None and lease.worker.name == self.name


class Asked(NamedTuple):
    """A request, and what its answer must be true to."""

    query: wire.Query
    asked_us: int
    all_done: bool
    """No task was alive when it was asked."""
    submits: list[Submit]
    """Of a Create: one for each task."""
    expected: int
    """The answer that it must get unless it is an Error; -1: any that fits."""
    job_ids: list[int]
    """The jobs that it is about, as far as they were its location's."""
    unknown: list[bytes]
    """Names of tasks that were not."""
    given: list[Lease]
    """Of a Steal: the leases that its location got by it."""


class DworkTap(Tap):
    """A producer or a consumer, or both."""

    def __init__(self, number: int, session: Session, laws: Laws, options: DworkOptions) -> None:
        super().__init__(number, session, laws)
        self._options = options
        self._queue = options.queue
        self._pending: deque[Asked] = deque()
        self._leases_before: list[Lease] = []
        """The leases that the location of the latest Steal had before it."""

    # --- what it asks

    def heard(self, data: bytes) -> None:
        super().heard(data)
        try:
            query = wire.parse(data)
        except wire.BadMessage:
            self.note(f"-> {data[:60]!r}")
            self._pending.append(Asked(_NONSENSE, self.laws.now_us, False, [], wire.ERROR, [], [], []))
            return
        tasks = [(task.name, task.origin[:20], task.preds, task.succs) for task in query.tasks]
        self.note(f"-> {query.type} {query.location!r} {tasks}")
        laws = self.laws
        location = None
        if query.location is not None:
            location = laws.location(self._queue, query.location)
            if query.type != wire.EXIT:
                location.heard_us = laws.now_us
        queue = laws.scheduler.queues.get(self._queue)
        asked = Asked(query, laws.now_us, queue is None or not queue.live, [], -1, [], [], [])
        if query.type == wire.CREATE:
            self._create(asked)
        elif query.type == wire.COMPLETE:
            assert location is not None
            asked = self._complete(asked, location)
        elif query.type == wire.TRANSFER:
            assert location is not None
            asked = self._transfer(asked, location)
        elif query.type == wire.EXIT:
            assert location is not None
            asked = self._exit(asked, location)
        elif query.type == wire.STEAL:
            self._leases_before = self._leases(query.location)
        self._pending.append(asked)

    def took(self) -> None:
        """A Create that was not refused: its names mean these jobs.

        What a Steal was given is noted before it can end.
        """
        asked = self._pending[-1]
        if asked.query.type == wire.STEAL:
            self.laws.take_census()
            leases = self._leases(asked.query.location)
            asked.given.extend(lease for lease in leases if lease not in self._leases_before)
        if asked.query.type == wire.CREATE:
            for task in asked.query.tasks:
                job = self._find(task.name)
                asked.job_ids.append(job.id if job is not None else 0)
                if job is not None and job.terms.key_is_work:
                    self.laws.origins.setdefault(job.id, job.payload)
                self._tangle(task)
            self._all_or_nothing(asked)

    def _all_or_nothing(self, asked: Asked) -> None:
        """Of a Create that is refused no task was taken in."""
        if not self.session.out or wire.parse(self.session.out[-1]).type != wire.ERROR:
            return
        for job in self.laws.scheduler.jobs.values():
            origin = self.laws.origins.get(job.id)
            if any(submit.payload == origin for submit in asked.submits):
                raise Violation("all or nothing", f"job {job.id} is of a Create that was refused")

    def _create(self, asked: Asked) -> None:
        options = self._options
        for task in asked.query.tasks:
            submit = Submit(
                self,
                self._queue,
                task.name,
                task.origin,
                watched=False,
                parents=tuple((self._queue, pred) for pred in task.preds or ()),
                durable=options.durable,
                detached=True,
                failures_max=options.failures_max,
                losses_max=options.losses_max,
                lease_us=options.lease_us,
                on_parent_failure=options.on_parent_failure,
            )
            self.laws.submitted(submit)
            asked.submits.append(submit)
        for task in asked.query.tasks:
            self._tangle(task)

    def _tangle(self, task: wire.Task) -> None:
        """From now on a living task, or a successor of it, may wait for others."""
        for name, pred in _edges(task):
            job = self._find(name)
            if job is not None:
                self.laws.order += 1
                self.laws.see(job.id).tangled[self._queue, pred] = self.laws.order

    def _complete(self, asked: Asked, location: LocationHolder) -> Asked:
        for task in asked.query.tasks:
            job = self._held(location, task.name, anybody=not self._options.complete_by_holder)
            if job is None or job.id in asked.job_ids:
                asked.unknown.append(task.name)
            else:
                asked.job_ids.append(job.id)
                assert job.lease is not None
                holder = self.laws.location(self._queue, job.lease.worker.name)
                if any(is_made_for(task.origin, payload) for payload in location.told.get(task.name, ())):
                    self.laws.see(job.id).mixed_up[task.origin] = None
                self.laws.finished_by_name(holder, job.id, task.origin)
        return asked._replace(expected=wire.NOT_FOUND if asked.unknown else wire.OK)

    def _transfer(self, asked: Asked, location: LocationHolder) -> Asked:
        tasks = asked.query.tasks
        held = [self._held(location, task.name) for task in tasks]
        if None in held:
            return asked._replace(expected=wire.NOT_FOUND)
        self.laws.disturbed = True
        plain = all(task.preds is None and task.succs is None for task in tasks)
        sure = plain and not self.laws.scheduler.store_trouble
        for task, job in zip(tasks, held, strict=True):
            assert job is not None
            if job.id in asked.job_ids:
                continue
            asked.job_ids.append(job.id)
            self._tangle(task)
            if sure:
                self.laws.released(location, job.id)
                self.laws.see(job.id).declined = True
            else:
                # It may be refused.
                self.laws.in_doubt(job.id)
        return asked._replace(expected=wire.OK)

    def _exit(self, asked: Asked, location: LocationHolder) -> Asked:
        scheduler = self.laws.scheduler
        worker = scheduler.residents.find(self._queue, location.name)
        if worker is None:
            return asked._replace(expected=wire.NOT_FOUND)
        asked.job_ids.extend(job.id for job in worker.leases)
        self.laws.disturbed = True
        for job in worker.leases:
            self.laws.released(location, job.id)
        return asked._replace(expected=wire.OK)

    def undelivered(self) -> None:
        """What it asked for and has never been told of was given back.

        Its location may keep what it had before it asked, such as a lease that was restored in the same turn.
        """
        for asked in self._pending:
            for lease in asked.given:
                if lease.job.lease is lease:
                    name = asked.query.location
                    raise Violation("undelivered", f"{name!r} has {lease.job.id}, and has never heard of it")

    # --- what it is told

    def said(self, data: bytes) -> None:
        told = wire.parse(data)
        self.note(f"<- {told.type} {[task.name for task in told.tasks]} {told.name!r} {told.n}")
        if not self._pending:
            raise Violation("order", f"c{self.number} is told {told.type} and asked for nothing")
        asked = self._pending.popleft()
        if told.type == wire.ERROR:
            return
        if asked.query is _NONSENSE:
            raise Violation("garbage", f"c{self.number} is told {told.type} for nonsense")
        kind = asked.query.type
        if told.type not in _ANSWERS[kind] or asked.expected not in (-1, told.type):
            raise Violation(
                "order", f"c{self.number} asked {kind}, {asked.expected} is right, and is told {told.type}"
            )
        if kind == wire.CREATE:
            for task, submit, job_id in zip(asked.query.tasks, asked.submits, asked.job_ids, strict=True):
                self.laws.created(submit, job_id)
                self._depends(task, job_id)
        elif kind == wire.STEAL:
            self._stolen(asked, told)
        elif kind == wire.COMPLETE:
            self._completed(asked, told)
        elif kind == wire.TRANSFER and told.type == wire.OK:
            for task, job_id in zip(asked.query.tasks, asked.job_ids, strict=False):
                self._depends(task, job_id)
        elif kind == wire.EXIT:
            self._exited(asked)

    def _depends(self, task: wire.Task, job_id: int) -> None:
        sight = self.laws.see(job_id)
        for pred in task.preds or ():
            sight.further_parents[self._queue, pred] = None

    def _stolen(self, asked: Asked, told: wire.Query) -> None:
        """A location was told that tasks are its own, unless it has let them go since it asked."""
        laws = self.laws
        assert asked.query.location is not None
        location = laws.location(self._queue, asked.query.location)
        if told.type == wire.EXIT and (self._options.keep_open or not asked.all_done):
            raise Violation("exit", f"c{self.number} is told that all work is done, and it is not")
        for task in told.tasks:
            location.told.setdefault(task.name, {})[task.origin] = None
            job_id = laws.id_of(task.origin)
            job = laws.scheduler.jobs.get(job_id)
            lease = job.lease if job is not None else None
            if job is not None and not job.terms.lease_us:
                location.silence_us = self._options.lease_us  # its own door sets no lease
            if job is None or lease is None or not location.has(lease) or lease.started_us != asked.asked_us:
                laws.disturbed = True
                continue
            if task.name != (job.key or b"#%d" % job_id):
                raise Violation("identity", f"job {job_id} is not called {task.name!r}")
            laws.assigned(location, job_id, self._queue, task.origin, lease.started_us)

    def _completed(self, asked: Asked, told: wire.Query) -> None:
        unknown = [task.name for task in told.tasks]
        if unknown != asked.unknown:
            raise Violation("order", f"c{self.number} is told {unknown}, and {asked.unknown} are unknown")
        for job_id in asked.job_ids:
            live = self.laws.mirror.live.get(job_id)
            if live is not None and not self.laws.see(job_id).retried:
                raise Violation("promise", f"the end of {job_id} was confirmed before it was on disk")

    def _exited(self, asked: Asked) -> None:
        for job_id in asked.job_ids:
            row = self.laws.mirror.live.get(job_id)
            job = self.laws.scheduler.jobs.get(job_id)
            untouched = job is not None and job.started_us < asked.asked_us
            if row is not None and row.holder == asked.query.location and untouched:
                raise Violation("promise", f"{job_id} is on disk as that of a location which is gone")

    def _leases(self, name: bytes | None) -> list[Lease]:
        """What a location has now."""
        worker = self.laws.scheduler.residents.find(self._queue, name) if name is not None else None
        return list(worker.leases.values()) if worker is not None else []

    # --- names

    def _find(self, name: bytes) -> Job | None:
        """The living task of a name."""
        scheduler = self.laws.scheduler
        job = scheduler.find_key(self._queue, name)
        if job is None and name.startswith(b"#"):
            job = scheduler.jobs.get(ids.parse(name[1:]))
            if job is not None and (job.key or job.queue.name != self._queue):
                return None
        return job

    def _held(self, location: LocationHolder, name: bytes, *, anybody: bool = False) -> Job | None:
        """The task of a name, if the location has it, or any location has."""
        job = self._find(name)
        lease = job.lease if job is not None else None
        if lease is None:
            return None
        anybodys = anybody and lease.worker.resident is not None and lease.worker.name != OUTSIDE
        return job if anybodys or location.has(lease) else None


def _edges(task: wire.Task) -> list[tuple[bytes, bytes]]:
    """Who waits for whom, by a task as it was sent."""
    edges = [(task.name, pred) for pred in task.preds or ()]
    return edges + [(succ, task.name) for succ in task.succs or ()]
