"""What all sessions of one dwork door share: its queue, the terms of its tasks, and what is told of them.

A task is a job of the door's queue. Its name is the key, and what a worker of another dialect is given; its
origin is the payload. The name of a job without a key, which another door handed in, is its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.errors import BAD_REQUEST, STORE_DOWN, TOO_LARGE, WRONG_STATE, Refusal
from hiringhall.core.graph import Plan
from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.states import CANCELLED, DONE
from hiringhall.core.terms import FAIL_WITH_PARENT, Terms
from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.leases import Lease
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.dwork.wire import Task

LOG: Final = "dwork_log"
"""The extra that keeps the log entries which clients and workers gave, as they stand in a TaskMsg."""
LOG_BYTES_MAX: Final = 4096
"""No further entries are kept beyond this."""
SHOWN_BYTES_MAX: Final = 80
NUMBER_MARK: Final = b"#"
_OF_WORKERS: Final = (wire.COPYING, wire.STARTED, wire.DONE)
"""What a worker can tell of a task; all else in its log is the hall's own, come back."""


@dataclass(frozen=True)
class DworkOptions:
    """How one door treats its tasks."""

    queue: bytes = b"dwork"
    durable: bool = True
    """Tasks, assignments and completions are on disk before they are answered."""
    lease_us: int = 0
    """Silence of a location after which its tasks are ready again; 0: only its Exit does that."""
    losses_max: int = 3
    quits_max: int = 0
    """Hired workers that may quit a job after they have begun; 0: any number."""
    failures_max: int = 0
    """How often a failure, which workers of other dialects can report, is followed by another attempt."""
    on_parent_failure: int = FAIL_WITH_PARENT
    complete_by_holder: bool = False
    """Only the location that holds a task can complete it; otherwise any location can."""
    keep_open: bool = False
    """Stealers hear NotFound, and not Exit, when all work is done: more is to come."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""


class DworkContext:
    """One door and its queue."""

    __slots__ = ("options", "queue", "scheduler", "terms")

    def __init__(self, scheduler: Scheduler, options: DworkOptions) -> None:
        self.scheduler = scheduler
        self.options = options
        self.queue = options.queue
        self.terms = Terms(
            durable=options.durable,
            detached=True,
            lease_us=options.lease_us,
            losses_max=options.losses_max,
            quits_max=options.quits_max,
            key_is_work=True,
            failures_max=options.failures_max,
            on_parent_failure=options.on_parent_failure,
            logged=options.log_all,
        )

    def counts(self) -> Queue:
        return self.scheduler.queue(self.queue)

    def find(self, name: bytes) -> Job | None:
        """The living task of a name."""
        scheduler = self.scheduler
        job = scheduler.find_key(self.queue, name)
        if job is None and name.startswith(NUMBER_MARK):
            job = scheduler.jobs.get(ids.parse(name[1:]))
            if job is not None and (job.named or job.queue.name != self.queue):
                return None
        return job

    def create(self, tasks: list[Task]) -> list[Job]:
        """Take tasks in, and have those that are alive wait for further tasks: all of it, or nothing. The jobs
        that were changed; a refusal names the task.
        """
        scheduler = self.scheduler
        created: list[Job] = []
        joined: list[tuple[Task, Job]] = []
        plan = Plan()
        task = tasks[0]
        try:
            for task in tasks:
                job = self.find(task.name)
                if job is None:
                    job = self._submit(task)
                    created.append(job)
                    if job.parents is not None:
                        _refuse_failed(job.parents.values())
                else:
                    joined.append((task, job))
            # Nothing is planned before all new tasks are there: an edge to one of them is found by its job.
            for task, job in joined:
                if self.terms.durable and scheduler.store_trouble:
                    raise Refusal(STORE_DOWN, scheduler.store_trouble)
                self._plan(plan, job, self._parents(task))
            for task in tasks:
                if task.succs is not None:
                    self._plan_successors(plan, task)
        except Refusal as refusal:
            for job in reversed(created):
                scheduler.submissions.take_back(job)
            rest = f"; none of these {len(tasks)} tasks was created" if len(tasks) > 1 else ""
            raise Refusal(refusal.reason, f"{show(task.name)}: {refusal.text}{rest}") from refusal
        if not plan.edges:
            return created
        scheduler.dependencies.carry_out(plan)
        for _, job in joined:
            if job.named:
                # It may be another door's: from now on it is as lasting as this door's own.
                scheduler.submit(JobSpec(self.queue, b"", job.key, self.terms), None)
        return created + [job for _, job in joined] + [job for job, _ in plan.edges]

    def transfer(self, tasks: list[Task], leases: list[Lease]) -> list[Job]:
        """Give tasks back as if they were created now: all of them, or none. The jobs that were changed; a
        refusal names the task.
        """
        scheduler = self.scheduler
        returned = {lease.job: lease for lease in leases}
        plan = Plan()
        task = tasks[0]
        try:
            for task, lease in zip(tasks, leases, strict=True):
                self._plan(plan, lease.job, self._parents(task), returned)
            for task in tasks:
                self._plan_successors(plan, task, returned)
        except Refusal as refusal:
            raise Refusal(refusal.reason, f"{show(task.name)}: {refusal.text}") from refusal
        for task, lease in zip(tasks, leases, strict=True):
            keep_log(scheduler, lease.job, task)
        for lease in returned.values():
            scheduler.release(lease, front=False)
        scheduler.dependencies.carry_out(plan)
        return list(returned) + [job for job, _ in plan.edges]

    def _submit(self, task: Task) -> Job:
        """Take in a task that is not alive."""
        limits = self.scheduler.limits
        if not task.name:
            raise Refusal(BAD_REQUEST, "a task has a name")
        if len(task.origin) > limits.payload_bytes_max:
            raise Refusal(TOO_LARGE, f"an origin may have {limits.payload_bytes_max} bytes (payload_bytes_max)")
        extras = {LOG: _encode_log(task.log)} if task.log is not None else None
        spec = JobSpec(self.queue, task.origin, task.name, self.terms, 0, self._parents(task), extras)
        return self.scheduler.submit(spec, None)

    def _plan(
        self, plan: Plan, job: Job, parents: tuple[ParentRef, ...], returned: dict[Job, Lease] | None = None
    ) -> None:
        """Plan that a living task waits for these; one that is `returned` with it is nobody's by then."""
        later = returned is not None and job in returned
        found = self.scheduler.dependencies.plan(plan, job, parents, returned=later)
        if job.terms.on_parent_failure == FAIL_WITH_PARENT:
            _refuse_failed(found)

    def _plan_successors(self, plan: Plan, task: Task, returned: dict[Job, Lease] | None = None) -> None:
        """Plan that those which a task names as its successors wait for it."""
        for name in task.succs or ():
            job = self.find(name)
            if job is None:
                text = f"successor {show(name)} is not known: create it first, or let it name its predecessor"
                raise Refusal(BAD_REQUEST, text)
            self._plan(plan, job, (self._ref(task.name),), returned)

    def _parents(self, task: Task) -> tuple[ParentRef, ...]:
        if task.preds is None:
            return ()
        return tuple([self._ref(name) for name in task.preds])

    def _ref(self, name: bytes) -> ParentRef:
        """How the core knows the task of a name, which may be yet to come."""
        if not 0 < len(name) <= self.scheduler.limits.key_bytes_max:
            raise Refusal(BAD_REQUEST, f"no task can be called {show(name)}")
        if name.startswith(NUMBER_MARK):
            job = self.find(name)
            if job is not None and not job.named:
                return job.id
        return (self.queue, name)

    def describe(self, job: Job) -> bytes:
        """The TaskMsg of a job, with all that its log can tell."""
        log = job.extras.get(LOG, b"") if job.extras is not None else b""
        log += wire.encode_log(wire.PENDING, job.created_us)
        ready_us = job.ready_us
        if ready_us or job.parents is not None:
            log += wire.encode_log(wire.WAITING, job.created_us)
        if job.parents is None:
            log += wire.encode_log(wire.READY, ready_us or job.created_us)
        if job.started_us:
            log += wire.encode_log(wire.STOLEN, job.started_us)
        if job.state == DONE:
            log += wire.encode_log(wire.RECORDED, job.ended_us)
        return wire.encode_task(job.key if job.named else name_of(job), job.payload, None, None, log)


def name_of(job: Job) -> bytes:
    """What a job is called that has no key, or one that is its provider's."""
    return b"%b%d" % (NUMBER_MARK, job.id)


def keep_log(scheduler: Scheduler, job: Job, task: Task) -> None:
    """Keep what a worker says of its work on a task."""
    if task.log is None:
        return
    log = job.extras.get(LOG, b"") if job.extras is not None else b""
    for state, time_us in task.log:
        if state in _OF_WORKERS and len(log) < LOG_BYTES_MAX:
            entry = wire.encode_log(state, time_us)
            # What was handed out with the task comes back with it.
            if entry not in log:
                log += entry
    if log:
        scheduler.table.keep_extra(job, LOG, log)


def show(name: bytes) -> str:
    """A name as people read it, or its beginning."""
    shown = repr(name[:SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace"))
    return shown if len(name) <= SHOWN_BYTES_MAX else f"{shown}..."


def _refuse_failed(parents: Iterable[Job | ParentRef | None]) -> None:
    """Refuse a task that would fail at once, because one that it waits for has failed."""
    for parent in parents:
        if isinstance(parent, Job) and parent.state > DONE:
            how = "was cancelled" if parent.state == CANCELLED else "has failed"
            name = show(parent.key if parent.named else name_of(parent))
            raise Refusal(WRONG_STATE, f"its predecessor {name} {how}: create that one again first")


def _encode_log(log: list[tuple[int, int]]) -> bytes:
    return b"".join([wire.encode_log(state, time_us) for state, time_us in log])
