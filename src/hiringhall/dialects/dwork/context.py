"""What all sessions of one dwork door share: its queue, the terms of its tasks, and how tasks are described.

A task is a job of the door's queue. Its name is the key of the job; workers of other dialects receive the name
as the payload. Its origin is the payload of the job. A job without a key, which came through another door, is
named by its number.
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
"""The extra of a job with the log entries of clients and workers, encoded as in a TaskMsg."""
LOG_BYTES_MAX: Final = 4096
"""A longer log gets no further entries."""
SHOWN_BYTES_MAX: Final = 80
NUMBER_MARK: Final = b"#"
_WORKER_STATES: Final = (wire.COPYING, wire.STARTED, wire.DONE)
"""The states that a worker reports. All others in its log were written by the hall."""


@dataclass(frozen=True)
class DworkOptions:
    """The settings of one dwork door."""

    queue: bytes = b"dwork"
    durable: bool = True
    """Tasks, assignments and completions are stored on disk before they are answered."""
    lease_us: int = 0
    """If a location is silent for this long, its tasks are ready again; 0: only its Exit does that."""
    losses_max: int = 3
    quits_max: int = 0
    """After this many hired workers have quit a job that they had begun, it has failed; 0: never."""
    failures_max: int = 0
    """How often a task is retried after a failure. Only workers of other dialects can report one."""
    on_parent_failure: int = FAIL_WITH_PARENT
    complete_by_holder: bool = False
    """Only the location that holds a task can complete it; otherwise any location can."""
    keep_open: bool = False
    """Answer Steal with NotFound, not with Exit, when all tasks are done: more will come."""
    flow: bytes = b""
    """The flow that its tasks belong to; empty: none. Only for durable tasks."""
    log_all: bool = False
    """Whether the end of every job goes to the history, not only that of durable ones."""


class DworkContext:
    """One for each door."""

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
        """The live task with a name."""
        scheduler = self.scheduler
        job = scheduler.find_key(self.queue, name)
        if job is None and name.startswith(NUMBER_MARK):
            job = scheduler.jobs.get(ids.parse(name[1:]))
            if job is not None and (job.named or job.queue.name != self.queue):
                return None
        return job

    def create(self, tasks: list[Task]) -> list[Job]:
        """Create tasks; those that are alive get further predecessors. All or nothing. Returns the jobs that
        were changed; a refusal names the task.
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
            # Edges are planned when all new tasks exist, so that an edge to one of them finds its job.
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
                # It may come from another door: from now on it is as durable as the tasks of this one.
                scheduler.submit(JobSpec(self.queue, b"", job.key, self.terms), None)
        return created + [job for _, job in joined] + [job for job, _ in plan.edges]

    def transfer(self, tasks: list[Task], leases: list[Lease]) -> list[Job]:
        """Give tasks back as if they were created now: all of them, or none. Returns the jobs that were
        changed; a refusal names the task.
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
        """Submit a task that is not alive."""
        limits = self.scheduler.limits
        if not task.name:
            raise Refusal(BAD_REQUEST, "the name of the task is empty")
        if len(task.origin) > limits.payload_bytes_max:
            raise Refusal(TOO_LARGE, f"an origin may have {limits.payload_bytes_max} bytes (payload_bytes_max)")
        extras = {LOG: _encode_log(task.log)} if task.log is not None else None
        parents, flow = self._parents(task), self.options.flow
        spec = JobSpec(self.queue, task.origin, task.name, self.terms, 0, parents, extras, flow)
        return self.scheduler.submit(spec, None)

    def _plan(
        self, plan: Plan, job: Job, parents: tuple[ParentRef, ...], returned: dict[Job, Lease] | None = None
    ) -> None:
        """Plan that a live task waits for these parents. Tasks in `returned` will be given back by then."""
        later = returned is not None and job in returned
        found = self.scheduler.dependencies.plan(plan, job, parents, returned=later)
        if job.terms.on_parent_failure == FAIL_WITH_PARENT:
            _refuse_failed(found)

    def _plan_successors(self, plan: Plan, task: Task, returned: dict[Job, Lease] | None = None) -> None:
        """Plan that the successors of a task wait for it."""
        for name in task.succs or ():
            job = self.find(name)
            if job is None:
                text = f"successor {show(name)} is not known: create it first, or name this task as its pred"
                raise Refusal(BAD_REQUEST, text)
            self._plan(plan, job, (self._ref(task.name),), returned)

    def _parents(self, task: Task) -> tuple[ParentRef, ...]:
        if task.preds is None:
            return ()
        return tuple([self._ref(name) for name in task.preds])

    def _ref(self, name: bytes) -> ParentRef:
        """The core's reference to a task by its name; the task need not exist yet."""
        if not 0 < len(name) <= self.scheduler.limits.key_bytes_max:
            raise Refusal(BAD_REQUEST, f"{show(name)} is not a valid name of a task")
        if name.startswith(NUMBER_MARK):
            job = self.find(name)
            if job is not None and not job.named:
                return job.id
        return (self.queue, name)

    def describe(self, job: Job) -> bytes:
        """The TaskMsg of a job, with its whole log."""
        log = job.extras.get(LOG, b"") if job.extras is not None else b""
        # Compiled, + costs a quarter of +=.
        log = log + wire.encode_log(wire.PENDING, job.created_us)
        ready_us = job.ready_us
        if ready_us or job.parents is not None:
            log = log + wire.encode_log(wire.WAITING, job.created_us)
        if job.parents is None:
            log = log + wire.encode_log(wire.READY, ready_us or job.created_us)
        if job.started_us:
            log = log + wire.encode_log(wire.STOLEN, job.started_us)
        if job.state == DONE:
            log = log + wire.encode_log(wire.RECORDED, job.ended_us)
        return wire.encode_task(job.key if job.named else name_of(job), job.payload, None, None, log)


def name_of(job: Job) -> bytes:
    """The name of a job that has no key, or only a provider's."""
    return b"%b%d" % (NUMBER_MARK, job.id)


def keep_log(scheduler: Scheduler, job: Job, task: Task) -> None:
    """Store what a worker logged about a task."""
    if task.log is None:
        return
    log = job.extras.get(LOG, b"") if job.extras is not None else b""
    for state, time_us in task.log:
        if state in _WORKER_STATES and len(log) < LOG_BYTES_MAX:
            entry = wire.encode_log(state, time_us)
            # The worker also returns the entries that it was given with the task.
            if entry not in log:
                log += entry
    if log:
        scheduler.table.keep_extra(job, LOG, log)


def show(name: bytes) -> str:
    """A name for people, shortened if it is long."""
    shown = repr(name[:SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace"))
    return shown if len(name) <= SHOWN_BYTES_MAX else f"{shown}..."


def _refuse_failed(parents: Iterable[Job | ParentRef | None]) -> None:
    """Refuse a task that would fail at once because a predecessor has failed."""
    for parent in parents:
        if isinstance(parent, Job) and parent.state > DONE:
            how = "was cancelled" if parent.state == CANCELLED else "has failed"
            name = show(parent.key if parent.named else name_of(parent))
            raise Refusal(WRONG_STATE, f"its predecessor {name} {how}: create that one again first")


def _encode_log(log: list[tuple[int, int]]) -> bytes:
    return b"".join([wire.encode_log(state, time_us) for state, time_us in log])
