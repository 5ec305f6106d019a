"""The scheduler: where a job meets a worker.

Verbs return at once or raise a `Refusal`; what happens later reaches a peer as a notice. A verb only notes
that a queue has something to match; `settle`, at the end of the turn, pairs jobs with credit and wakes
sleepers, one for one job. The working verbs stand in `leasing`, the moves of a job in `floor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core import audit as auditor
from hiringhall.core.errors import (
    BAD_REQUEST,
    CLOSING,
    HALL_FULL,
    QUEUE_FULL,
    STORE_DOWN,
    TOO_LARGE,
    WRONG_STATE,
    Refusal,
)
from hiringhall.core.floor import EPOCH_SHIFT
from hiringhall.core.graph import name_of
from hiringhall.core.jobs import (
    DELAYED,
    DONE,
    FAIL_WITH_PARENT,
    FAILED,
    HELD,
    HOLD,
    LEASED,
    PARENT_FAILED,
    QUEUED,
    RUN_ANYWAY,
    STATE_NAMES,
    SUCCESS,
    WITHDRAWN,
    Job,
    Lease,
    Terms,
)
from hiringhall.core.leasing import Leasing
from hiringhall.core.queues import Queue
from hiringhall.core.timers import NEVER
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, Loaded
    from hiringhall.core.jobs import JobSpec, ParentRef
    from hiringhall.core.peer import Peer


class Scheduler(Leasing):
    """The submitting verbs, and what the engine calls: time, the end of a turn, and the store's answers."""

    def submit(self, spec: JobSpec, watcher: Peer | None) -> Job:
        """Take a job in, or join a live one with the same queue and key."""
        limits = self.limits
        if watcher is None and not spec.terms.detached:
            raise Refusal(BAD_REQUEST, "a job that nobody watches must be detached")
        if len(spec.payload) > limits.payload_bytes_max:
            raise Refusal(TOO_LARGE, f"a payload may have {limits.payload_bytes_max} bytes (payload_bytes_max)")
        if spec.terms.durable:
            if self.store_trouble:
                raise Refusal(STORE_DOWN, self.store_trouble)
        elif self.closing:
            raise Refusal(CLOSING, "the hall is closing; submit to another one, or in the background")
        queue = self.queues.get(spec.queue)
        if queue is None:
            queue = self.queue(spec.queue)
        key = spec.key
        if key:
            if len(key) > limits.key_bytes_max:
                raise Refusal(TOO_LARGE, f"a key may have {limits.key_bytes_max} bytes (key_bytes_max)")
            job = self.keys.find(queue, key)
            if job is not None:
                self._join(job, spec, watcher)
                return job
        if len(self.jobs) >= limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {limits.jobs_max} jobs (jobs_max)")
        maximum = queue.maxima[spec.terms.priority]
        if 0 <= maximum <= queue.live:
            raise Refusal(QUEUE_FULL, f"the queue holds {maximum} jobs, as many as maxqueue allows")
        parents: list[Job | ParentRef] | None = None
        if spec.parents:
            name = (queue.name, key) if key else None
            parents = self._resolve(spec.parents, name, spec.terms)
            if name is not None:
                waiting = self.graph.expected.get(name)
                self.graph.refuse_cycle(waiting, _live(parents), limits.graph_walk_max)

        self._last_id += 1
        job = Job(self._last_id, queue, key, spec.payload, spec.terms, self.now_us)
        job.extras = spec.extras
        self.jobs[job.id] = job
        queue.live += 1
        if key:
            self.keys.add(job)
        self.counters.submitted += 1
        if watcher is not None:
            self.watch(job, watcher)
        self.graph.adopt(job)
        if parents is not None:
            self._hold(job, parents)
        if job.parents is not None:
            job.state = HELD
            job.due_us = spec.due_us
        elif spec.due_us > self.now_us:
            job.state = DELAYED
            self.timers.arm(job, spec.due_us)
        else:
            self._enqueue(job, front=False)
        if spec.terms.durable:
            self.ledger.note(job)
        return job

    def _join(self, job: Job, spec: JobSpec, watcher: Peer | None) -> None:
        if watcher is not None:
            self.watch(job, watcher)
        if (spec.terms.durable and not job.terms.durable) or (spec.terms.detached and not job.terms.detached):
            if not job.terms.durable and spec.terms.durable:
                job.before = job.terms
            job.terms = _terms_with(
                job.terms,
                durable=job.terms.durable or spec.terms.durable,
                detached=job.terms.detached or spec.terms.detached,
            )
            if job.terms.durable:
                self.ledger.note(job)
        self.counters.joined += 1

    def retry(self, job: Job) -> None:
        """Give a dead letter another life, with its counts at nought."""
        if job.state != FAILED or not job.terms.durable or self.archive.find(job.id) is not job:
            raise Refusal(WRONG_STATE, "only a durable job that failed, and is still kept, can be retried")
        if self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)
        if len(self.jobs) >= self.limits.jobs_max:
            raise Refusal(HALL_FULL, f"the hall holds {self.limits.jobs_max} jobs (jobs_max)")
        queue = self.queue(job.queue.name)
        if job.key and self.keys.find(queue, job.key) is not None:
            raise Refusal(WRONG_STATE, "another job with its key is live; that one stands for it")
        self.archive.discard(job)
        if job.queue is not queue:
            job.in_lane = False
        job.failures = job.losses = job.ended_us = 0
        job.code = SUCCESS
        job.result = b""
        if not job.terms.detached:
            job.terms = _terms_with(job.terms, durable=True, detached=True)
        self.jobs[job.id] = job
        job.queue = queue
        queue.live += 1
        if job.key:
            self.keys.add(job)
        self._move(job, QUEUED)
        self._enqueue(job, front=False)
        self.graph.adopt(job)
        self.ledger.note(job)

    def depend(self, job: Job, parents: tuple[ParentRef, ...]) -> None:
        """A job that no worker has yet waits for further parents; one that a worker has may be told of parents
        that are met.
        """
        self._wait_for(job, self.check_depend(job, parents))

    def check_depend(self, job: Job, parents: tuple[ParentRef, ...]) -> list[Job | ParentRef]:
        """What `depend` would have the job wait for. Changes nothing."""
        further = self.check_parents(job, parents)
        if job.state >= DONE or (further and job.state == LEASED):
            raise Refusal(WRONG_STATE, f"it is {STATE_NAMES[job.state]} already, and waits for nothing more")
        return further

    def defer(self, lease: Lease, parents: tuple[ParentRef, ...]) -> None:
        """Given back, nobody's fault: the job is ready again once these parents are met."""
        self._check_live(lease)
        job = lease.job
        further = self.check_parents(job, parents)
        self.release(lease)
        if job.state == QUEUED:
            self._wait_for(job, further)

    def check_parents(self, job: Job, parents: tuple[ParentRef, ...]) -> list[Job | ParentRef]:
        """Which of these parents a job that exists would have to wait for. Changes nothing."""
        if job.terms.durable and self.store_trouble:
            raise Refusal(STORE_DOWN, self.store_trouble)
        name = (job.queue.name, job.key) if job.key else None
        known = len(job.parents) if job.parents is not None else 0
        found = self._resolve(parents, name, job.terms, known)
        self.graph.refuse_cycle({job.id: job}, _live(found), self.limits.graph_walk_max)
        return found

    def _wait_for(self, job: Job, parents: list[Job | ParentRef]) -> None:
        self._hold(job, parents)
        if job.parents is None:
            return
        before = job.state
        if before != HELD:
            self._move(job, HELD)
            job.ready_us = 0
            if before == QUEUED:
                job.queue.drop(job)
        self._note(job)

    def _resolve(
        self, refs: tuple[ParentRef, ...], name: ParentRef | None, terms: Terms, known: int = 0
    ) -> list[Job | ParentRef]:
        """The parents still to wait for: jobs that are known, or names. Changes nothing."""
        limits = self.limits
        if known + len(refs) > limits.parents_max:
            raise Refusal(TOO_LARGE, f"a job may have {limits.parents_max} parents (parents_max)")
        found: list[Job | ParentRef] = []
        for ref in refs:
            if isinstance(ref, int):
                job = self.jobs.get(ref) or self.archive.find(ref)
                if job is None:
                    raise Refusal(BAD_REQUEST, f"no job {ref} is known that could be a parent")
            else:
                if ref == name:
                    raise Refusal(BAD_REQUEST, "a job cannot be its own parent")
                job = self.find_key(ref[0], ref[1]) or self.archive.find_key(ref[0], ref[1])
            if job is not None and job.state > DONE and terms.on_parent_failure == HOLD and job.key:
                # It waits for whoever has the failed parent's name.
                if (job.queue.name, job.key) == name:
                    raise Refusal(BAD_REQUEST, "a job cannot wait for its own name")
                job = self.find_key(job.queue.name, job.key) or job
            if job is None:
                found.append(ref)
            elif job.state < DONE or (job.state > DONE and terms.on_parent_failure != RUN_ANYWAY):
                found.append(job)
        return found

    def _hold(self, job: Job, parents: list[Job | ParentRef]) -> None:
        policy = job.terms.on_parent_failure
        for parent in parents:
            if not isinstance(parent, Job):
                self.graph.expect(job, parent)
            elif parent.state < DONE:
                self.graph.link(job, parent)
            elif policy == HOLD:
                self.graph.expect(job, name_of(parent))
            elif policy == FAIL_WITH_PARENT:
                self.graph.link(job, parent)
                self._doomed.append(job)

    def advance(self, now_us: int) -> None:
        """It is `now_us`: act on every deadline that has passed."""
        self.now_us = now_us
        next_us = self.timers.next_us()
        if next_us == NEVER or next_us > now_us:
            return
        while True:
            thing = self.timers.pop_due(now_us)
            if thing is None:
                return
            if isinstance(thing, Job):
                if thing.state == DELAYED:
                    self._move(thing, QUEUED)
                    self._enqueue(thing, front=False)
                    self._note(thing)
            elif isinstance(thing, Lease):
                self._lease_due(thing)
            else:
                assert isinstance(thing, Worker)
                self._worker_due(thing)

    def next_deadline(self) -> int:
        """When `advance` has something to do; 0: never, as things stand."""
        return self.timers.next_us()

    def settle(self) -> None:
        """The end of a turn: failed parents take their children along, ready jobs meet workers."""
        while self._doomed:
            child = self._doomed.pop()
            if child.state == HELD and _has_failed_parent(child):
                self._end(child, FAILED, PARENT_FAILED, b"a parent did not succeed")
        if self.closing or not self._unsettled:
            return
        for queue in self._unsettled:
            queue.unsettled = False
            self._match(queue)
        self._unsettled.clear()

    def seal(self) -> Batch:
        """The net effect of all changes since the last seal. No other batch may be under way."""
        return self.ledger.seal()

    def committed(self, batch: Batch) -> None:
        """The batch is on disk, and the store works."""
        self.ledger.committed(batch)
        self.store_trouble = ""

    def withdraw(self, batch: Batch, trouble: str) -> dict[int, Job]:
        """The batch is not on disk: what nobody was promised is durable no more, the rest stays noted."""
        self.store_trouble = trouble
        unstored = self.ledger.reopen(batch) + self.ledger.newcomers()
        withdrawn: dict[int, Job] = {}
        for job in unstored:
            if job.id in withdrawn:
                continue
            withdrawn[job.id] = job
            self.ledger.forget(job)
            self.counters.withdrawn += 1
            job.terms = job.before or _terms_with(job.terms, durable=False, detached=False)
            job.before = None
            if job.state >= DONE:
                self.archive.discard(job)
        return withdrawn

    def drop_withdrawn(self, withdrawn: dict[int, Job]) -> None:
        """Once the submitters are refused: what nobody else waits for goes, the rest lives on in memory."""
        for job in withdrawn.values():
            if job.state < DONE and self._abandoned(job):
                if job.key:
                    self.graph.forget(job)
                else:
                    self._free_stored_children(job)
                self._cancel(job, WITHDRAWN, b"the store failed before the job was acknowledged")

    def _free_stored_children(self, parent: Job) -> None:
        """That they wait for it was promised to nobody, and they were promised long ago."""
        for child in list((parent.children or {}).values()):
            if child.stored or child.logged:
                if self.graph.unlink(child, parent):
                    self._release_child(child)
                self._note(child)

    def restore(self, loaded: Loaded) -> None:
        """Fill an empty hall with what the store kept."""
        self.epoch = loaded.epoch
        self._last_id = loaded.epoch << EPOCH_SHIFT
        for end in loaded.ended:
            job = Job(end.id, self._restore_queue(end.queue), end.key, end.payload, end.terms, end.created_us)
            job.state = end.state
            job.code = end.code
            job.attempts = end.attempts
            job.losses = end.losses
            job.started_us = end.started_us
            job.ended_us = end.ended_us
            job.worker_name = end.worker
            job.extras = end.extras
            job.ready_us = end.ready_us
            job.logged = True
            self.archive.add(job)
        held: list[tuple[Job, tuple[ParentRef, ...]]] = []
        for row in loaded.jobs:
            queue = self._restore_queue(row.queue)
            job = Job(row.id, queue, row.key, row.payload, row.terms, row.created_us)
            job.state = row.state
            job.attempts = row.attempts
            job.failures = row.failures
            job.losses = row.losses
            job.extras = row.extras
            job.ready_us = row.ready_us
            job.started_us = row.started_us
            job.stored = True
            self.jobs[job.id] = job
            queue.live += 1
            if row.key:
                self.keys.add(job)
            if row.state == HELD:
                job.due_us = row.due_us
                held.append((job, row.parents))
            elif row.state == DELAYED and row.due_us:
                self.timers.arm(job, row.due_us)
            elif row.holder:
                self._restore_lease(job, row.holder)
            else:
                job.state = QUEUED
                self._enqueue(job, front=False)
        for job, refs in held:
            for ref in refs:
                self._restore_edge(job, ref)
            if job.parents is None:
                self._release_child(job)
                self._note(job)

    def _restore_queue(self, name: bytes) -> Queue:
        """A queue that was there before, whatever the limits are today."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name)
        return queue

    def _restore_lease(self, job: Job, holder: bytes) -> None:
        """What a resident held is still its own; its silence counts from now."""
        worker = self.residents.get((job.queue.name, holder))
        if worker is None:
            worker = self._settle_in(job.queue, holder)
        job.state = LEASED
        job.worker_name = holder
        self._attach_lease(job, worker, job.terms.run_us)

    def _restore_edge(self, child: Job, ref: ParentRef) -> None:
        if isinstance(ref, int):
            parent = self.jobs.get(ref)
            policy = child.terms.on_parent_failure
            ended = self.archive.find(ref)
            if ended is not None and ended.state == DONE:
                return
            if parent is None and policy != HOLD:
                # It was only in memory, and is gone with the hall that knew it: as good as failed.
                if policy == FAIL_WITH_PARENT:
                    self.graph.expect(child, ref)
                    self._doomed.append(child)
                return
        else:
            parent = self.find_key(ref[0], ref[1])
        if parent is None:
            self.graph.expect(child, ref)
        else:
            self.graph.link(child, parent)

    def audit(self) -> None:
        """Check every cross-reference."""
        auditor.audit(self)


def _has_failed_parent(child: Job) -> bool:
    """A parent by number that is not known was only in memory, and is gone: as good as failed."""
    for ref, parent in (child.parents or {}).items():
        if parent.state > DONE if parent is not None else isinstance(ref, int):
            return True
    return False


def _live(parents: list[Job | ParentRef]) -> list[Job]:
    return [parent for parent in parents if isinstance(parent, Job)]


def _terms_with(terms: Terms, *, durable: bool, detached: bool) -> Terms:
    """The same terms for a job that another submit made durable, or that the store could not take."""
    return Terms(
        priority=terms.priority,
        durable=durable,
        detached=detached,
        failures_max=terms.failures_max,
        backoff_us=terms.backoff_us,
        backoff_max_us=terms.backoff_max_us,
        losses_max=terms.losses_max,
        lease_us=terms.lease_us,
        run_us=terms.run_us,
        on_parent_failure=terms.on_parent_failure,
    )
