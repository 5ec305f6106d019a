"""The job table: all jobs, queues and workers, the one place where a job changes its state, and the one place
where it ends.

Invariant: all indexes of a job change together, so that a job is never in two of them, or in none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.archive import Archive
from hiringhall.core.counters import Counters, Tally
from hiringhall.core.errors import (
    BAD_REQUEST,
    HALL_FULL,
    STORE_DOWN,
    TOO_LARGE,
    WRONG_STATE,
    Refusal,
    invariant,
)
from hiringhall.core.flows.flows import Flows
from hiringhall.core.graph import Graph
from hiringhall.core.id_blocks import IdBlocks
from hiringhall.core.jobs import TRIES_KEPT, Job
from hiringhall.core.keys import Keys
from hiringhall.core.ledger import Ledger
from hiringhall.core.observer import Observer
from hiringhall.core.queues import Queue
from hiringhall.core.rules.spacing import DEBOUNCED, holds_key
from hiringhall.core.states import (
    CALLED_OFF,
    CANCELLED,
    DELAYED,
    DONE,
    FAILED,
    FIRST_STATES,
    HELD,
    LEASED,
    MOVES,
    QUEUED,
    STATE_NAMES,
)
from hiringhall.core.timers import NEVER, Timers

if TYPE_CHECKING:
    from hiringhall.core.bidding.auctions import Auctions
    from hiringhall.core.depending import Dependencies
    from hiringhall.core.jobs import JobSpec, ParentRef
    from hiringhall.core.leases import Lease
    from hiringhall.core.limits import Limits
    from hiringhall.core.resources.capacity import Capacity
    from hiringhall.core.workers import Worker

SWEEP_PAUSE_US: Final = 1_000_000

_LEGAL: Final = [
    sum(1 << target for target in targets) for targets in (*(targets for _, targets in MOVES), FIRST_STATES)
]
"""For each state, a bit for each state that it may move to; NEW is -1, the last."""


class JobTable:
    """All jobs, queues and workers, and the moves of a job."""

    def __init__(self, limits: Limits, epoch: int = 1, now_us: int = 1) -> None:
        self.limits = limits
        self.now_us = now_us
        """The date. Due times of jobs and schedules go by it."""
        self.paused_us = 0
        """How long the hall was paused in total: its process stopped, or its machine asleep."""
        self.awake_us = now_us
        """The date without the pauses. Silence and run times go by it."""
        self.closing = False
        """The hall is about to close."""
        self.withholding = False
        """No job is handed out: the hall closes, or does not know whether another has taken its place."""
        self.store_trouble = ""
        """Why durable jobs are refused; empty while the store works."""
        self.jobs: dict[int, Job] = {}
        self.id_blocks = IdBlocks()
        self.queues: dict[bytes, Queue] = {}
        self.dropped = Tally()
        """What queues had counted that were dropped."""
        self.workers: dict[Worker, None] = {}
        self.residents: dict[tuple[bytes, bytes], Worker] = {}
        """Workers that are known by queue and name, in the order in which they came."""
        self.keys = Keys()
        self.counters = Counters()
        self.observer = Observer()
        self.graph = Graph()
        self.archive = Archive(limits)
        self.ledger = Ledger()
        self.flows = Flows(limits, self.ledger)
        self.timers = Timers()
        self.epoch = epoch
        """The number of this boot: 1 for a hall that was never open before."""
        self.last_id = ids.make(epoch, 0)
        self._swept_us = 0
        self.announcer: Auctions | None = None
        """Is told of every move, and announces jobs to workers that bid; None: no door announces jobs."""
        self.unsettled: list[Queue] = []
        """Queues to match at the end of the turn."""
        self.dependencies: Dependencies | None = None
        """Is told when a job ends that others wait for."""
        self.scales: dict[bytes, int] = {}
        """The largest amount of each resource that a worker has stated."""

    def queue(self, name: bytes) -> Queue:
        """The queue of that name, made on first use."""
        queue = self.queues.get(name)
        if queue is not None:
            return queue
        limits = self.limits
        if not name:
            raise Refusal(BAD_REQUEST, "the name of the queue is empty")
        if len(name) > limits.queue_name_bytes_max:
            text = f"a queue name may have {limits.queue_name_bytes_max} bytes (queue_name_bytes_max)"
            raise Refusal(TOO_LARGE, text)
        if len(self.queues) >= limits.queues_max:
            self._sweep_queues()
            if len(self.queues) >= limits.queues_max:
                raise Refusal(HALL_FULL, f"the hall has {limits.queues_max} queues in use (queues_max)")
        return self.add_queue(name)

    def add_queue(self, name: bytes) -> Queue:
        """Make a queue, whatever the limits say."""
        queue = self.queues[name] = Queue(name)
        if self.announcer is not None:
            self.announcer.queue_added(queue)
        return queue

    def _sweep_queues(self) -> None:
        """Drop the queues that nothing refers to; at most once a second, since there may be none."""
        if self.now_us - self._swept_us < SWEEP_PAUSE_US:
            return
        self._swept_us = self.now_us
        for idle in [queue for queue in self.queues.values() if queue.idle]:
            self.remove_queue(idle)

    def remove_queue(self, queue: Queue) -> None:
        """Forget a queue. What it has counted is kept, so that sums over all queues never fall."""
        self.dropped.include(queue)
        del self.queues[queue.name]

    def find(self, job_id: int) -> Job | None:
        """A live job, or an ended one that is still kept."""
        return self.jobs.get(job_id) or self.archive.find(job_id)

    def issued(self, job_id: int) -> bool:
        """Whether this id was given to a job since the hall started."""
        return ids.make(self.epoch, 0) < job_id <= self.last_id

    def unwritten(self, job_id: int) -> Job | None:
        """An ended job whose end is not in the history yet."""
        job = self.ledger.find(job_id)
        return job if job is not None and job.state >= DONE else None

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        """The live job of a key."""
        found = self.queues.get(queue)
        return self.keys.find(found, key) if found is not None else None

    def find_live(self, ref: ParentRef) -> Job | None:
        """The live job that a child names as its parent."""
        return self.jobs.get(ref) if isinstance(ref, int) else self.find_key(ref[0], ref[1])

    def find_key_anywhere(self, key: bytes) -> Job | None:
        """The live job of a key in any queue; the oldest if there are several."""
        return self.keys.find_any(key)

    def unsettle(self, queue: Queue) -> None:
        """Match the queue at the end of the turn."""
        if not queue.unsettled:
            queue.unsettled = True
            self.unsettled.append(queue)

    def look_again(self, capacity: Capacity) -> None:
        """Some resources of a worker are free: match its queues again."""
        for worker in capacity.workers:
            for queue in worker.abilities:
                if queue.unmatched:
                    queue.reconsider(worker, self.now_us)
                if queue.ready:
                    self.unsettle(queue)

    def check_room(self) -> None:
        """Refuse a new job if the hall holds as many as it may."""
        if len(self.jobs) >= self.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self.limits.jobs_max} jobs (jobs_max)")

    def check_key(self, key: bytes) -> None:
        """Refuse a key that is too long."""
        if len(key) > self.limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a key may have {self.limits.key_bytes_max} bytes (key_bytes_max)")

    def check_store(self) -> None:
        """Refuse a durable change while the store is in trouble."""
        if self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)

    def admit(self, spec: JobSpec, queue: Queue, created_us: int) -> Job:
        """Enter a new job under its id and its key. It is in no state yet."""
        self.last_id += 1
        job = Job(self.last_id, queue, spec.key, spec.payload, spec.terms, created_us)
        job.extras = spec.extras
        if spec.flow:
            self.flows.enter(job, spec.flow, self.now_us)
            job.all_parents = spec.parents
        self.enter(job)
        if spec.key:
            self.keys.add(job)
        self.counters.submitted += 1
        queue.submitted += 1
        return job

    def enter(self, job: Job) -> None:
        """Enter a job under its id: it is live."""
        self.jobs[job.id] = job
        self.id_blocks.enter(job)
        job.queue.live += 1

    def move(self, job: Job, state: int, *, due_us: int = NEVER, front: bool = False) -> None:
        """Change a job's state: the only place that does. The job leaves the indexes of its old state and
        enters those of the new one. If it becomes DELAYED it is due at `due_us`; if QUEUED, it goes to the
        front or to the end of its lane.
        """
        before = job.state
        invariant(_LEGAL[before] >> state & 1 == 1, "a job moves only along MOVES")
        job.state = state
        queue = job.queue
        if job.flow is not None:
            counts = job.flow.counts
            counts[before] -= 1
            counts[state] += 1
        if before == QUEUED:
            queue.remove(job)
            if job.due_us != NEVER:
                self.timers.disarm(job)
        elif before == LEASED:
            self._end_lease(job)
        elif before == HELD:
            if state >= DONE:
                self.graph.detach(job)
            queue.held -= 1
            self.timers.disarm(job)
        elif state != HELD and job.due_us != NEVER:
            self.timers.disarm(job)
        if state == QUEUED:
            job.queued_us = self.now_us
            queue.put(job, front)
            if job.terms.expire_us:
                self.timers.arm(job, self.now_us + job.terms.expire_us)
            if not queue.unsettled:
                queue.unsettled = True
                self.unsettled.append(queue)
        elif state == DELAYED:
            job.queued_us = due_us
            self.timers.arm(job, due_us)
        elif state == HELD:
            queue.held += 1
        elif state == LEASED and job.extras is not None and DEBOUNCED in job.extras:
            self.release_key(job)
        if queue.limiter is not None:
            queue.limiter.moved(job, before)
        if self.announcer is not None:
            self.announcer.moved(job)

    def postpone(self, job: Job, due_us: int) -> None:
        """A job that has not started is due at another time: it is submitted again, and was debounced."""
        if job.state == QUEUED:
            self.move(job, DELAYED, due_us=due_us)
            return
        self.timers.arm(job, due_us)
        if job.state == DELAYED:
            job.queued_us = due_us
            if self.announcer is not None:
                self.announcer.moved(job)

    def release_key(self, job: Job) -> None:
        """A debounced job has started: what is submitted with its key from now on is another job."""
        if holds_key(job):
            self.keys.remove(job)
            self.keep_extra(job, DEBOUNCED, b"")

    def _end_lease(self, job: Job) -> None:
        lease = job.lease
        assert lease is not None
        job.lease = None
        worker = lease.worker
        if lease.promised:
            worker.promise = None
        else:
            del worker.leases[job]
        if worker.quiet_at_work and not worker.leases:
            worker.heard_us = self.now_us
        job.queue.leased -= 1
        if lease.due_us != NEVER:
            self.timers.disarm(lease)
        if worker.capacity is not None and worker.capacity.give_back(lease):
            self.look_again(worker.capacity)
        if self.announcer is not None and lease.promised:
            self.announcer.worker_free(worker)

    def remember_try(self, job: Job, code: int, ended_us: int) -> None:
        """Keep the latest attempt, which did not end the job."""
        tries = job.tries
        if tries is None:
            tries = job.tries = []
        elif len(tries) >= TRIES_KEPT:
            del tries[0]
        tries.append((job.started_us, ended_us, job.worker_name, code, job.dialect))

    def revoke(self, lease: Lease) -> None:
        """Tell a worker to stop, if it was told of the job."""
        if not lease.booked:
            lease.worker.peer.revoked(lease)

    def note(self, job: Job) -> None:
        """If the job is durable, store it with the next commit."""
        if job.terms.durable:
            self.ledger.note(job)

    def keep_extra(self, job: Job, name: str, data: bytes) -> None:
        """Store a named value of the dialect with the job."""
        job.extras = {**(job.extras or {}), name: data}

    def cancel(self, job: Job, reason: bytes = b"") -> None:
        """End a live job; a worker that has it is told to stop."""
        if job.state >= DONE:
            raise Refusal(WRONG_STATE, f"the job is already {STATE_NAMES[job.state]}")
        self.cancel_as(job, CALLED_OFF, reason)

    def cancel_as(self, job: Job, code: int, reason: bytes) -> None:
        """Cancel a live job with this code."""
        lease = job.lease
        self.end(job, CANCELLED, code, reason)
        if lease is not None:
            self.revoke(lease)

    def end(self, job: Job, state: int, code: int, result: bytes, ended_us: int = NEVER) -> None:
        """End a job: the only place that does. `ended_us` is given if it ended earlier, outside the hall."""
        queue = job.queue
        lease = job.lease
        self.move(job, state)
        job.code = code
        job.result = result
        job.ended_us = ended_us or self.now_us
        if lease is not None and not lease.promised:
            ready_us = job.queued_us or job.created_us
            queue.measure(job.started_us - ready_us, job.ended_us - job.started_us)
        queue.live -= 1
        self.id_blocks.leave(job)
        del self.jobs[job.id]
        if job.key:
            self.keys.remove(job)
        if state == DONE:
            self.counters.done += 1
            queue.done += 1
        elif state == FAILED:
            self.counters.failed += 1
            queue.failed += 1
            if job.terms.durable:
                self.observer.dead_letter(job, lease.worker if lease is not None else None)
        else:
            self.counters.cancelled += 1
            queue.cancelled += 1
        if job.flow is not None:
            self.flows.ended(job, self.now_us)
        watchers = job.watchers
        if watchers is not None:
            job.watchers = None
            for peer in watchers:
                if job in peer.watching:
                    del peer.watching[job]
                peer.ended(job)
        # A detached job may be asked for, and named as a parent, after its end.
        terms = job.terms
        findable = terms.detached and (len(job.key) > 0 or terms.logged)
        kept = terms.durable or job.children is not None or findable
        if job.children is not None:
            assert self.dependencies is not None
            self.dependencies.parent_ended(job)
        if terms.durable or (terms.logged and not self.store_trouble):
            self.ledger.note(job)
        elif kept:
            job.payload = job.result = b""
        if kept:
            self.archive.add(job)
        elif terms.logged:
            self.archive.complete = False
