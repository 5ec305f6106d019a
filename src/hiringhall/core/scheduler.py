"""The scheduler: holds the parts of the core, and has the verbs that the engine and the sessions call.

Verbs return at once or raise a `Refusal`; what happens later reaches a peer as a notice. A verb only notes that
a queue has to be matched; `settle`, at the end of the turn, matches ready jobs to workers. Verbs that only some
dialects need are called on the part: `auctions`, `hiring`, `residents`, `reports`, `firings`, `flow_verbs`,
`needs`, `resources`, `draining`, `length_limits`, `ruled_queues`, `throttle_windows`, `watchers`, `retries` and
`dependencies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core import audit as auditor
from hiringhall.core import restoring
from hiringhall.core.bidding.auctions import Auctions
from hiringhall.core.bidding.hiring import Hiring
from hiringhall.core.depending import Dependencies
from hiringhall.core.draining import Draining
from hiringhall.core.firings import Firings
from hiringhall.core.flows.flow_verbs import FlowVerbs
from hiringhall.core.leasing import Leases
from hiringhall.core.length_limits import LengthLimits
from hiringhall.core.matching import Matching
from hiringhall.core.needs import Needs
from hiringhall.core.pausing import PausedQueues
from hiringhall.core.reports import Reports
from hiringhall.core.residents import Residents
from hiringhall.core.resources.reserving import Reservations
from hiringhall.core.resources.resourcing import Resources
from hiringhall.core.retrying import Retries
from hiringhall.core.rules.ruled_queues import RuledQueues
from hiringhall.core.rules.throttling import ThrottleWindows
from hiringhall.core.states import CALLED_OFF, CANCELLED, DELAYED, FAILURE, QUEUED
from hiringhall.core.submitting import Submissions
from hiringhall.core.table import JobTable
from hiringhall.core.timers import NEVER
from hiringhall.core.waking import Wakeups
from hiringhall.core.watching import Watchers
from hiringhall.core.workforce import Workforce

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, EndRow, Loaded
    from hiringhall.core.jobs import Job, JobSpec
    from hiringhall.core.leases import Lease
    from hiringhall.core.limits import Limits
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue
    from hiringhall.core.terms import Terms
    from hiringhall.core.workers import Worker


class Scheduler:
    """The facade of the core."""

    def __init__(self, limits: Limits, epoch: int = 1, now_us: int = 1) -> None:
        table = JobTable(limits, epoch, now_us)
        self.table = table
        self.dependencies = Dependencies(table)
        table.dependencies = self.dependencies
        self.watchers = Watchers(table)
        self.needs = Needs(table)
        self.wakeups = Wakeups(table)
        self.leases = Leases(table)
        self.hiring = Hiring(table, self.leases, self.needs, self.watchers)
        self.resources = Resources(table)
        self.workforce = Workforce(
            table, self.wakeups, self.leases, self.hiring, self.needs, self.resources, self.watchers
        )
        self.matching = Matching(table, self.wakeups, self.leases, self.hiring, Reservations(table))
        self.residents = Residents(table, self.workforce, self.leases, self.needs)
        self.throttle_windows = ThrottleWindows(table)
        self.submissions = Submissions(
            table, self.dependencies, self.needs, self.throttle_windows, self.watchers
        )
        self.retries = Retries(table, self.dependencies, self.submissions, self.watchers)
        self.reports = Reports(table, self.dependencies, self.leases, self.residents)
        self.firings = Firings(table, self.submissions)
        self.length_limits = LengthLimits(table)
        self.paused_queues = PausedQueues(table, self.leases)
        self.ruled_queues = RuledQueues(table)
        self.flow_verbs = FlowVerbs(table, self.dependencies, self.retries)
        self.draining = Draining(table, self.wakeups, self.leases, self.needs, self.resources)
        self.auctions = Auctions(self)
        # Read by sessions, used by the engine.
        self.limits = limits
        self.jobs = table.jobs
        self.queues = table.queues
        self.workers = table.workers
        self.keys = table.keys
        self.counters = table.counters
        self.flows = table.flows
        self.graph = table.graph
        self.archive = table.archive
        self.ledger = table.ledger
        self.timers = table.timers

    @property
    def now_us(self) -> int:
        """The date, the same for a whole turn."""
        return self.table.now_us

    @property
    def awake_us(self) -> int:
        """The date without the pauses of the hall."""
        return self.table.awake_us

    @property
    def epoch(self) -> int:
        return self.table.epoch

    @property
    def closing(self) -> bool:
        return self.table.closing

    @property
    def store_trouble(self) -> str:
        """Why durable jobs are refused; empty while the store works."""
        return self.table.store_trouble

    def close(self) -> None:
        """The hall is about to close: hand out no more jobs."""
        self.table.closing = self.table.withholding = True

    @property
    def withholding(self) -> bool:
        """No job is handed out."""
        return self.table.withholding

    def withhold(self, withholding: bool) -> None:
        """Stop handing out jobs, or hand them out again. What runs goes on. A closing hall stays as it is."""
        self.table.withholding = withholding or self.table.closing

    # --- time and turns

    def set_time(self, now_us: int) -> None:
        """Set the time of this turn."""
        self.table.now_us = now_us
        self.table.awake_us = now_us - self.table.paused_us

    def resume(self, paused_us: int) -> None:
        """The hall was paused until now: durations are extended by the pause, due dates are not."""
        self.table.paused_us += paused_us
        self.table.awake_us -= paused_us
        for worker in self.table.workers:
            for lease in worker.leases.values():
                # Silence counts from the start of the job, if that is later.
                worker.heard_us = max(worker.heard_us, lease.started_us)
                if lease.run_until_us != NEVER:
                    lease.run_until_us += paused_us
            worker.heard_us += paused_us
            worker.wake_until_us += paused_us
        for thing in self.table.timers.armed():
            if thing.counts_down:
                self.table.timers.arm(thing, thing.due_us + paused_us)

    def advance(self, now_us: int) -> None:
        """Set the time, and act on every deadline that has passed."""
        self.set_time(now_us)
        next_us = self.table.timers.next_us()
        if next_us == NEVER or next_us > now_us:
            return
        while True:
            thing = self.table.timers.pop_due(now_us)
            if thing is None:
                return
            thing.ring(self)

    def job_due(self, job: Job) -> None:
        """A delayed job is due, or a ready one has expired."""
        if job.state == DELAYED:
            self.table.move(job, QUEUED)
            self.table.note(job)
        elif job.state == QUEUED:
            self.table.end(job, CANCELLED, CALLED_OFF, b"no worker took it in time")

    def next_deadline(self) -> int:
        """When `advance` has to be called next; 0: there is no deadline."""
        return self.table.timers.next_us()

    def settle(self) -> None:
        """The end of a turn: fail the children of failed parents, and match ready jobs to workers."""
        if self.dependencies.to_fail:
            self.dependencies.fail_children()
        self.matching.settle()

    # --- the store

    def seal(self) -> Batch:
        """The net effect of all changes since the last seal. No other batch may be being committed."""
        return self.table.ledger.seal()

    def committed(self, batch: Batch) -> None:
        """The batch is on disk: the store works."""
        self.ledger.committed(batch)
        self.firings.committed(batch)
        self.table.store_trouble = ""

    def distrust_store(self, trouble: str) -> None:
        """Nobody knows whether the batch is on disk: until that is found out, durable jobs are refused."""
        self.table.store_trouble = trouble

    def withdraw(self, batch: Batch, trouble: str) -> dict[int, Job]:
        """The batch is not on disk: jobs that were not acknowledged become non-durable, the rest stays
        noted.
        """
        self.table.store_trouble = trouble
        self.firings.withdraw(batch)
        return self.submissions.withdraw_all(self.ledger.reopen(batch) + self.ledger.newcomers())

    def restore(self, loaded: Loaded) -> None:
        """Fill an empty hall with what the store kept."""
        restoring.restore(self, loaded)

    def audit(self) -> None:
        """Check every cross-reference."""
        auditor.audit(self)

    # --- jobs

    def find(self, job_id: int) -> Job | None:
        """A live job, or an ended one that is in the archive."""
        return self.table.find(job_id)

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        """The live job of a key."""
        return self.table.find_key(queue, key)

    def find_key_anywhere(self, key: bytes) -> Job | None:
        """The live job of a key in any queue; the oldest if there are several."""
        return self.table.find_key_anywhere(key)

    def issued(self, job_id: int) -> bool:
        """Whether this id was given to a job since the hall started."""
        return self.table.issued(job_id)

    def unwritten(self, job_id: int) -> Job | None:
        """An ended job whose end is not in the history yet."""
        return self.table.unwritten(job_id)

    def queue(self, name: bytes) -> Queue:
        """The queue of that name, made on first use."""
        return self.table.queue(name)

    def pause_queue(self, name: bytes) -> None:
        """Start no more jobs of a queue; those that run go on. Survives a restart of the hall."""
        self.paused_queues.pause(name)

    def resume_queue(self, name: bytes) -> None:
        """Start jobs of a queue again."""
        self.paused_queues.resume(name)

    def is_paused(self, name: bytes) -> bool:
        """Whether no job of this queue starts."""
        return name in self.paused_queues.queues

    def submit(self, spec: JobSpec, watcher: Peer | None) -> Job:
        """Add a job, or join a live one with the same queue and key."""
        return self.submissions.submit(spec, watcher)

    def retry(self, job: Job) -> None:
        """Queue a dead letter again, with its counts reset."""
        self.retries.retry(job)

    def retry_recorded(self, end: EndRow) -> Job:
        """Queue a dead letter again that the history has."""
        return self.retries.retry_recorded(end)

    def cancel(self, job: Job, reason: bytes = b"") -> None:
        """End a live job; a worker that has it is told to stop."""
        self.table.cancel(job, reason)

    def watch(self, job: Job, peer: Peer) -> None:
        """Add `peer` to the watchers of a live job."""
        self.watchers.watch(job, peer)

    def unwatch(self, job: Job, peer: Peer) -> None:
        """Remove `peer` from the watchers; may end a job that is not detached."""
        self.watchers.unwatch(job, peer)

    # --- workers that look for work

    def worker(self, peer: Peer) -> Worker:
        """The worker of a peer, made on first use."""
        return self.workforce.worker(peer)

    def find_worker(self, number: int) -> Worker | None:
        """The worker with this number; stand-ins have the number of the one that delegates."""
        return self.workforce.find(number)

    def introduce(self, worker: Worker, name: bytes) -> None:
        """Set the worker's name."""
        self.needs.introduce(worker, name)

    def can_do(self, worker: Worker, name: bytes, run_us: int = 0) -> None:
        """The worker can do a queue; its attempts fail after `run_us` (0: no limit)."""
        self.workforce.can_do(worker, name, run_us)

    def cant_do(self, worker: Worker, name: bytes) -> None:
        """The worker no longer does a queue."""
        self.workforce.cant_do(worker, name)

    def cant_do_any(self, worker: Worker) -> None:
        """The worker no longer does any queue."""
        self.workforce.cant_do_any(worker)

    def take_turns(self, worker: Worker) -> None:
        """The worker takes from its queues in round robin."""
        self.workforce.take_turns(worker)

    def requeue_overruns(self, worker: Worker) -> None:
        """A job that exceeds this worker's run limit goes to another worker, as if this one was lost."""
        self.workforce.requeue_overruns(worker)

    def take(self, worker: Worker, name: bytes | None = None) -> Lease | None:
        """Lease the job that goes first in the worker's queues, or in the named one."""
        return self.matching.take(worker, name)

    def take_job(self, worker: Worker, job: Job) -> Lease:
        """Lease this job, which is ready or delayed. The worker need not be able to do its queue."""
        return self.matching.take_job(worker, job)

    def offer(self, worker: Worker, slots: int) -> None:
        """Push up to `slots` jobs to the worker; replaces its earlier offer."""
        self.workforce.offer(worker, slots)

    def sleep(self, worker: Worker) -> None:
        """The worker waits for `woken`, which comes at the end of this turn if a job is ready for it."""
        self.workforce.sleep(worker)

    def spare(self, name: bytes) -> int:
        """How many more jobs of a queue could start now, beyond those that are ready."""
        return self.wakeups.spare(name)

    def cool_down(self, worker: Worker, name: bytes, pause_us: int) -> bool:
        """Give the worker no jobs of this queue, and no wake-ups for it, for `pause_us`."""
        return self.workforce.cool_down(worker, name, pause_us)

    def expect(self, worker: Worker, silence_us: int) -> None:
        """Count the worker as lost after this much silence; 0: never."""
        self.workforce.expect(worker, silence_us)

    def beat(self, worker: Worker) -> None:
        """The worker shows life: its allowed silence starts anew."""
        self.workforce.beat(worker)

    def leave(self, peer: Peer) -> None:
        """The peer is gone: its leases are lost, and it watches nothing."""
        self.workforce.leave(peer)

    # --- workers that have a job

    def find_lease(self, worker: Worker, job_id: int) -> Lease:
        """The live lease of this worker on that job. Any other report is stale, repeated or forged."""
        return self.leases.find_lease(worker, job_id)

    def progress(self, lease: Lease, numerator: int, denominator: int, remaining_us: int = 0) -> None:
        """The worker reports progress, and perhaps how long the job will still take."""
        self.leases.progress(lease, numerator, denominator, remaining_us)

    def chunk(self, lease: Lease, data: bytes, warning: bool = False) -> None:
        """The worker sends data, or a warning, before the end."""
        self.leases.chunk(lease, data, warning)

    def log(self, lease: Lease, data: bytes) -> None:
        """The worker writes a line to the log of the job."""
        self.leases.log(lease, data)

    def finish(self, lease: Lease, result: bytes) -> None:
        """The job succeeded."""
        self.leases.finish(lease, result)

    def fail(self, lease: Lease, code: int = FAILURE, data: bytes = b"", *, retry: bool = True) -> None:
        """The attempt failed: the job is retried after a backoff, or fails, as its terms and `retry` say."""
        self.leases.fail(lease, code, data, retry=retry)

    def release(self, lease: Lease, *, front: bool = True, delay_us: int = 0) -> None:
        """The worker gives the job back, without a loss: to the front of its lane, the end, or for later."""
        self.leases.release(lease, front=front, delay_us=delay_us)

    def renew(self, lease: Lease, terms: Terms | None = None) -> None:
        """Restart the run limit of the lease. If terms are given, they replace those of the job."""
        self.leases.renew(lease, terms)

    def recall(self, lease: Lease) -> None:
        """Take the job back because the hall closes. No loss is counted."""
        self.leases.recall(lease)

    def lose(self, lease: Lease, reason: bytes = b"") -> None:
        """The worker no longer has the job, because it restarted or its process died: a loss."""
        self.leases.lose(lease, reason)

    def reclaim(self, worker: Worker, job: Job, started_us: int) -> Lease:
        """A worker reports on a job that was taken from it because it was silent: lease it to it again."""
        return self.leases.reclaim(worker, job, started_us)
