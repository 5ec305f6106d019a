"""What all sessions of one dwork door share: its queue, the terms of its tasks, and what is told of them.

A task is a job of the door's queue: its name is the key, its origin the payload. A job that another door
handed in without a key is called by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.jobs import DONE, FAIL_WITH_PARENT, JobSpec, Terms
from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef
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
    keep_open: bool = False
    """Stealers hear NotFound, and not Exit, when all work is done: more is to come."""
    log_all: bool = False
    """The end of every job goes to the history, and not only that of durable ones."""


class DworkDoor:
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

    def create(self, task: Task) -> Job:
        """Take a task in, or have a living one wait for further tasks."""
        parents = self.parents(task)
        job = self.find(task.name)
        if job is None:
            if not task.name:
                raise Refusal(BAD_REQUEST, "a task has a name")
            extras = {LOG: _encode_log(task.log)} if task.log is not None else None
            spec = JobSpec(self.queue, task.origin, task.name, self.terms, 0, parents, extras)
            return self.scheduler.submit(spec, None)
        if job.named:
            # It may be another door's: from now on it is as lasting as this door's own.
            self.scheduler.submit(JobSpec(self.queue, task.origin, task.name, self.terms), None)
        if parents:
            self.scheduler.depend(job, parents)
        return job

    def successors(self, task: Task, returned: list[Job] | None = None) -> list[Job]:
        """The tasks that a task names as its successors, all of which can wait for it: now, or once those that
        are `returned` are.
        """
        found: list[Job] = []
        for name in task.succs or ():
            job = self.find(name)
            if job is None:
                text = f"successor {show(name)} is not known: create it first, or let it name its predecessor"
                raise Refusal(BAD_REQUEST, text)
            ref = self._ref(task.name)
            if returned is not None and job in returned:
                self.scheduler.check_parents(job, (ref,))
            else:
                self.scheduler.check_depend(job, (ref,))
            found.append(job)
        return found

    def precede(self, task: Task) -> list[Job]:
        """The tasks that a task names as its successors wait for it from now on."""
        successors = self.successors(task)
        for successor in successors:
            self.scheduler.depend(successor, (self._ref(task.name),))
        return successors

    def parents(self, task: Task) -> tuple[ParentRef, ...]:
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
        log = b""
        if job.extras is not None:
            log = job.extras.get(LOG, b"")
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


def keep_log(job: Job, task: Task) -> None:
    """Keep what a worker says of its work on a task."""
    if task.log is None:
        return
    extras = dict(job.extras) if job.extras is not None else {}
    log = extras.get(LOG, b"")
    for state, time_us in task.log:
        if state in _OF_WORKERS and len(log) < LOG_BYTES_MAX:
            entry = wire.encode_log(state, time_us)
            # What was handed out with the task comes back with it.
            if entry not in log:
                log += entry
    if log:
        extras[LOG] = log
        job.extras = extras


def show(name: bytes) -> str:
    """A name as people read it, or its beginning."""
    shown = repr(name[:SHOWN_BYTES_MAX].decode("utf-8", "backslashreplace"))
    return shown if len(name) <= SHOWN_BYTES_MAX else f"{shown}..."


def _encode_log(log: list[tuple[int, int]]) -> bytes:
    return b"".join([wire.encode_log(state, time_us) for state, time_us in log])
