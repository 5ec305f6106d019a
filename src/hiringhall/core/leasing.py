"""Workers, what they are given, and what becomes of it.

The law: a job has at most one live lease, and only that lease can report on it. Pull, push and sleep are
three ways to say one thing, credit: this worker will take so many more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STALE_LEASE, Refusal
from hiringhall.core.leases import Lease
from hiringhall.core.states import (
    CALLED_OFF,
    CANCELLED,
    CUT_SHORT,
    DELAYED,
    DONE,
    FAILED,
    FAILURE,
    GIVEN_BACK,
    LEASED,
    LOST,
    QUEUED,
    SUCCESS,
    TIMED_OUT,
)
from hiringhall.core.timers import NEVER
from hiringhall.core.waking import Waking
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer
    from hiringhall.core.queues import Queue

OVERRUN: Final = b"it ran longer than its worker may"


class Leasing(Waking):
    """The working verbs, matching, and the deadlines of leases and workers."""

    def worker(self, peer: Peer) -> Worker:
        """The peer as a worker, from its first working word on."""
        worker = peer.worker
        if worker is None:
            self._last_worker += 1
            worker = Worker(self._last_worker, peer, self.now_us)
            peer.worker = worker
            self.workers[worker] = None
            if self.ratings is not None:
                self._rate_by_name(worker)
        return worker

    def can_do(self, worker: Worker, name: bytes, run_us: int = 0) -> None:
        """The worker can do a queue; an attempt of it fails after `run_us` (0: no limit)."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queue(name)
        if queue not in worker.abilities:
            if len(worker.abilities) >= self.limits.abilities_max:
                raise Refusal(HALL_FULL, f"a worker may do {self.limits.abilities_max} queues (abilities_max)")
            queue.workers[worker] = None
            if worker.asleep:
                queue.sleepers[worker] = None
            if worker.credit:
                queue.takers[worker] = None
            if queue.vain:
                queue.reconsider(worker, self.now_us)
            if queue.ready:
                self.unsettle(queue)
            if worker.rotation is not None:
                worker.rotation[queue] = None
                worker.rotation.move_to_end(queue, last=False)
        worker.abilities[queue] = run_us

    def cant_do(self, worker: Worker, name: bytes) -> None:
        queue = self.queues.get(name)
        if queue is None or queue not in worker.abilities:
            return
        if worker.waking is queue:
            self._answer_wake(worker)
        del worker.abilities[queue]
        if worker.rotation is not None:
            del worker.rotation[queue]
        del queue.workers[worker]
        queue.sleepers.pop(worker, None)
        queue.takers.pop(worker, None)

    def cant_do_any(self, worker: Worker) -> None:
        for queue in list(worker.abilities):
            self.cant_do(worker, queue.name)

    def take_turns(self, worker: Worker) -> None:
        """The worker takes from its queues in turn, whatever the priorities in the others."""
        worker.take_turns()

    def requeue_overruns(self, worker: Worker) -> None:
        """A job that this worker does not finish within its run limit goes to another, as if it was lost."""
        worker.requeues_overruns = True

    def take(self, worker: Worker, name: bytes | None = None) -> Lease | None:
        """Pull the one job that goes first among all the worker's queues, or in the one that is named."""
        if worker.waking is not None:
            self._answer_wake(worker)
        elif worker.asleep:
            self._rouse(worker)
        if self.closing:
            return None
        if name is None:
            job = worker.pick(self.now_us)
        else:
            queue = self.queues.get(name)
            job = queue.best(worker, self.now_us) if queue is not None and queue in worker.abilities else None
        return self._lease(job, worker) if job is not None else None

    def offer(self, worker: Worker, slots: int) -> None:
        """The worker takes `slots` jobs pushed to it, from now on; a new offer replaces the one before."""
        if slots < 0:
            raise Refusal(BAD_REQUEST, "a worker offers no slots, or some")
        worker.credit = slots
        for queue in worker.abilities:
            if slots:
                queue.takers[worker] = None
                if queue.vain:
                    queue.reconsider(worker, self.now_us)
                if queue.ready:
                    self.unsettle(queue)
            else:
                queue.takers.pop(worker, None)

    def expect(self, worker: Worker, silence_us: int) -> None:
        """Count the worker as lost after so much silence; 0: never."""
        worker.silence_us = silence_us
        worker.heard_us = self.now_us
        self._arm_worker(worker)

    def beat(self, worker: Worker) -> None:
        """The worker shows life: none of its leases, nor itself, ends by silence for a while."""
        worker.heard_us = self.now_us

    def find_lease(self, worker: Worker, job_id: int) -> Lease:
        """The live lease of this worker on that job: whatever else it reports is stale, repeated or forged."""
        lease = worker.leases.get(job_id)
        if lease is None:
            raise self._stale()
        return lease

    def progress(self, lease: Lease, numerator: int, denominator: int, remaining_us: int = 0) -> None:
        """The work is so far; perhaps its worker knows how long it will still take."""
        self._check_live(lease)
        job = lease.job
        lease.worker.heard_us = self.now_us
        lease.expected_us = self.now_us + remaining_us if remaining_us > 0 else NEVER
        job.numerator = numerator
        job.denominator = denominator
        if job.watchers is not None:
            for peer in job.watchers:
                peer.progressed(job)

    def chunk(self, lease: Lease, data: bytes, warning: bool = False) -> None:
        self._check_live(lease)
        job = lease.job
        lease.worker.heard_us = self.now_us
        if job.watchers is not None:
            for peer in job.watchers:
                peer.chunked(job, data, warning)

    def finish(self, lease: Lease, result: bytes) -> None:
        """The work is done."""
        self._check_live(lease)
        queue = lease.job.queue
        took_us = self.now_us - lease.started_us
        queue.typical_us = (queue.typical_us * 7 + took_us) >> 3 if queue.typical_us else took_us
        self._end(lease.job, DONE, SUCCESS, result)

    def fail(self, lease: Lease, code: int = FAILURE, data: bytes = b"") -> None:
        """The worker could not do it: another attempt after a pause, or the end, as the job's terms say."""
        self._check_live(lease)
        job = lease.job
        terms = job.terms
        job.failures += 1
        if job.failures > terms.failures_max or self._abandoned(job):
            self._end(job, FAILED, code, data)
            return
        self.counters.retried += 1
        self._remember_try(job, code, self.now_us)
        job.numerator = job.denominator = 0
        pause_us = min(terms.backoff_us << min(job.failures - 1, 40), terms.backoff_max_us)
        self.move(job, DELAYED, due_us=self.now_us + max(pause_us, 1))
        self._note(job)

    def release(self, lease: Lease, *, front: bool = True) -> None:
        """Given back, nobody's fault: the job is next again, or comes after all that are ready."""
        self._check_live(lease)
        self.counters.released += 1
        self._give_back(lease, GIVEN_BACK, front=front)

    def recall(self, lease: Lease) -> None:
        """Taken back because the hall closes: the worker may stop, nobody is blamed."""
        self._check_live(lease)
        self._revoke(lease)
        self.counters.released += 1
        self._give_back(lease, CUT_SHORT)

    def leave(self, peer: Peer) -> None:
        """The peer is gone: its leases are lost, and it watches nothing any more."""
        worker = peer.worker
        if worker is not None:
            self._drop_worker(worker)
        for job in list(peer.watching.values()):
            self.unwatch(job, peer)

    def _match(self, queue: Queue) -> None:
        """Ready jobs meet workers who wait; what is left is announced to those who bid."""
        self._match_waiting(queue)
        if queue.listing is not None:
            assert self.announcer is not None
            self.announcer.match(queue, queue.listing)

    def _match_waiting(self, queue: Queue) -> None:
        while queue.ready and queue.takers:
            worker = next(iter(queue.takers))
            job = worker.pick(self.now_us)
            if job is None:
                self._match_choosily(queue)
                return
            self._push(job, worker)
        if queue.shapes is not None:
            self._wake_choosily(queue)
            return
        wanted = queue.wanted() if queue.overdue else queue.ready
        while wanted > queue.waking and queue.sleepers:
            worker, _ = queue.sleepers.popitem()
            if worker.until_us and worker.until_us <= self.now_us:
                queue.sleepers[worker] = None
                self._wake_choosily(queue)
                return
            self._wake(worker, queue)

    def _push(self, job: Job, worker: Worker) -> None:
        self._spend(worker)
        lease = self._lease(job, worker)
        worker.peer.assigned(lease)

    def _match_choosily(self, queue: Queue) -> None:
        """Not every worker is good for every job: look at each of them."""
        for worker in list(queue.takers) if queue.hopes() else ():
            while queue.ready and worker.credit:
                job = worker.pick(self.now_us)
                if job is None:
                    break
                self._push(job, worker)
        self._wake_choosily(queue)

    def _spend(self, worker: Worker) -> None:
        """One slot is used; with slots left, the worker goes behind the others."""
        worker.credit -= 1
        for queue in worker.abilities:
            del queue.takers[worker]
            if worker.credit:
                queue.takers[worker] = None

    def _lease(self, job: Job, worker: Worker) -> Lease:
        self.move(job, LEASED)
        job.attempts += 1
        job.started_us = self.now_us
        job.numerator = job.denominator = 0
        job.worker_name = worker.name
        self.counters.taken += 1
        run_us = worker.abilities[job.queue] or job.terms.run_us
        if job.terms.run_us and job.terms.run_us < run_us:
            run_us = job.terms.run_us
        if job.terms.durable:
            if worker.resident is not None:
                self.ledger.note_soon(job)
            else:
                self.ledger.note_start(job)
        return self._attach_lease(job, worker, run_us)

    def _attach_lease(self, job: Job, worker: Worker, run_us: int) -> Lease:
        now_us = self.now_us
        job.queue.leased += 1
        self._last_lease += 1
        lease = Lease(self._last_lease, job, worker, now_us, now_us + run_us if run_us else NEVER)
        job.lease = lease
        worker.leases[job.id] = lease
        if run_us or job.terms.lease_us:
            self._arm_lease(lease)
        return lease

    def _arm_lease(self, lease: Lease) -> None:
        due_us = lease.run_until_us
        lease_us = lease.job.terms.lease_us
        if lease_us:
            silent_us = max(lease.started_us, lease.worker.heard_us) + lease_us
            if due_us == NEVER or silent_us < due_us:
                due_us = silent_us
        self.timers.arm(lease, due_us)

    def lease_due(self, lease: Lease) -> None:
        job = lease.job
        now_us = self.now_us
        lease_us = job.terms.lease_us
        if lease.run_until_us != NEVER and lease.run_until_us <= now_us:
            self.counters.expired += 1
            self._revoke(lease)
            if lease.worker.requeues_overruns:
                self._lose(lease, TIMED_OUT)
            else:
                self.fail(lease, TIMED_OUT, OVERRUN)
        elif lease_us and max(lease.started_us, lease.worker.heard_us) + lease_us <= now_us:
            self.counters.expired += 1
            self._revoke(lease)
            self._lose(lease)
        else:
            self._arm_lease(lease)

    def _lose(self, lease: Lease, code: int = LOST) -> None:
        """The worker is gone, silent or too slow: the job waits for another, unless it has cost too many. One
        that it has not begun costs nothing.
        """
        if lease.promised:
            self._give_back(lease, GIVEN_BACK)
            return
        job = lease.job
        job.losses += 1
        if code == LOST:
            self.counters.lost += 1
            self.observer.worker_lost(lease.worker, job)
        if job.terms.losses_max and job.losses >= job.terms.losses_max:
            text = b"its workers were lost %d times" % job.losses
            self._end(job, FAILED, code, text if code == LOST else OVERRUN)
        else:
            # One that takes too long for everybody must not stand before all others.
            self._give_back(lease, code, front=code == LOST)

    def _give_back(self, lease: Lease, code: int, *, front: bool = True) -> None:
        job = lease.job
        if lease.provider is not None:
            # Its provider hears of it, and announces it again if it still wants it.
            self._end(job, CANCELLED, CALLED_OFF, b"its worker does not do it")
            return
        if self._abandoned(job):
            self._end(job, CANCELLED, CALLED_OFF, b"nobody waits for it any more")
            return
        if not lease.promised:
            self._remember_try(job, code, self.now_us)
            job.numerator = job.denominator = 0
        if lease.promised and lease.begin_us > self.now_us:
            self.move(job, DELAYED, due_us=lease.begin_us)
        else:
            self.move(job, QUEUED, front=front)
        self._note(job)

    def _check_live(self, lease: Lease) -> None:
        if lease.job.lease is not lease:
            raise self._stale()

    def _stale(self) -> Refusal:
        self.counters.stale += 1
        return Refusal(STALE_LEASE, "this worker does not hold that job (any more)")

    def worker_due(self, worker: Worker) -> None:
        now_us = self.now_us
        at_work = worker.quiet_at_work and len(worker.leases) > 0
        if worker.silence_us and worker.heard_us + worker.silence_us <= now_us and not at_work:
            for lease in list(worker.leases.values()):
                self._revoke(lease)
            if worker.promise is not None:
                self._revoke(worker.promise)
            if not worker.leases:
                self.observer.worker_lost(worker, None)
            self._drop_worker(worker)
            worker.peer.lost()
            return
        if worker.waking is not None and worker.wake_until_us <= now_us:
            if worker.wake_step_us and not worker.overdue:
                self._pass_by(worker)
            else:
                self._answer_wake(worker)
        self._arm_worker(worker)

    def _drop_worker(self, worker: Worker) -> None:
        self.cant_do_any(worker)
        worker.asleep = False
        worker.credit = 0
        # The last one first: each goes to the front of its queue, and the oldest shall stand before the others.
        if worker.promise is not None:
            self._lose(worker.promise)
        for lease in reversed(list(worker.leases.values())):
            self._lose(lease)
        self.timers.disarm(worker)
        del self.workers[worker]
        if worker.resident is not None:
            del self.residents[worker.resident.name, worker.name]
        worker.peer.worker = None
