"""Leases: the reports of a worker on its job (progress, the end), and how a job goes back to the queue.

Invariant: a job has at most one live lease, and only that lease can report on it. Until a job has ended, the
first report of any worker that held it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import DATA, LOG, WARNING
from hiringhall.core.errors import STALE_LEASE, Refusal
from hiringhall.core.jobs import OUTPUT
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
from hiringhall.core.watching import NO_WATCHERS

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Engagement
    from hiringhall.core.table import JobTable
    from hiringhall.core.terms import Terms
    from hiringhall.core.workers import Worker

OVERRUN: Final = b"it exceeded its run limit"


class Leases:
    """The verbs of workers that have a job, and the deadlines of leases."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.last_number = 0
        """The number of the latest lease."""

    def find_lease(self, worker: Worker, job_id: int) -> Lease:
        """The live lease of this worker on that job. Any other report is stale, repeated or forged."""
        job = self._table.jobs.get(job_id)
        lease = worker.leases.get(job) if job is not None else None
        if lease is None:
            raise self.stale()
        return lease

    def progress(self, lease: Lease, numerator: int, denominator: int, remaining_us: int = 0) -> None:
        """The worker reports progress, and perhaps how long the job will still take."""
        self.check_live(lease)
        job = lease.job
        lease.worker.heard_us = self._table.now_us
        lease.expected_us = self._table.now_us + remaining_us if remaining_us > 0 else NEVER
        job.numerator = numerator
        job.denominator = denominator
        if job.watchers is not None:
            for peer in job.watchers:
                peer.progressed(job)

    def chunk(self, lease: Lease, data: bytes, warning: bool = False) -> None:
        """The worker sends data, or a warning, before the end."""
        self.check_live(lease)
        job = lease.job
        lease.worker.heard_us = self._table.now_us
        if job.watchers is not None:
            for peer in job.watchers:
                peer.chunked(job, data, warning)
        self._keep_output(job, WARNING if warning else DATA, data)

    def log(self, lease: Lease, data: bytes) -> None:
        """The worker writes a line to the log of the job."""
        self.check_live(lease)
        job = lease.job
        lease.worker.heard_us = self._table.now_us
        if job.watchers is not None:
            for peer in job.watchers:
                peer.logged(job, data)
        self._keep_output(job, LOG, data)

    def _keep_output(self, job: Job, kind: int, data: bytes) -> None:
        """Store what the worker of a durable job says, unless the store is in trouble."""
        table = self._table
        output = table.ledger.output
        if not job.terms.durable or not output.bytes_max or table.store_trouble:
            return
        output.add(job.id, table.now_us, kind, data)
        if job.extras is None or OUTPUT not in job.extras:
            table.keep_extra(job, OUTPUT, b"")
            table.ledger.note(job)

    def finish(self, lease: Lease, result: bytes) -> None:
        """The job succeeded."""
        table = self._table
        self.check_live(lease)
        queue = lease.job.queue
        took_us = table.now_us - lease.started_us
        average_us = queue.average_run_us
        queue.average_run_us = (average_us * 7 + took_us) >> 3 if average_us else took_us
        table.end(lease.job, DONE, SUCCESS, result)

    def fail(self, lease: Lease, code: int = FAILURE, data: bytes = b"", *, retry: bool = True) -> None:
        """The attempt failed: the job is retried after a backoff, or fails, as its terms say. Without `retry`
        it fails, whatever they say.
        """
        table = self._table
        self.check_live(lease)
        job = lease.job
        terms = job.terms
        job.failures += 1
        if job.failures > terms.failures_max or not retry or job.abandoned:
            table.end(job, FAILED, code, data)
            return
        table.counters.retried += 1
        job.queue.retried += 1
        table.remember_try(job, code, table.now_us)
        job.numerator = job.denominator = 0
        pause_us = min(terms.backoff_us << min(job.failures - 1, 40), terms.backoff_max_us)
        table.move(job, DELAYED, due_us=table.now_us + max(pause_us, 1))
        table.note(job)

    def release(self, lease: Lease, *, front: bool = True, delay_us: int = 0) -> None:
        """The worker gives the job back, without a loss: it goes to the front of its lane, or to the end; with
        a delay it is ready after that.
        """
        self.check_live(lease)
        self._table.counters.released += 1
        self.give_back(lease, GIVEN_BACK, front=front, delay_us=delay_us)

    def renew(self, lease: Lease, terms: Terms | None = None) -> None:
        """Restart the run limit of the lease, if it has one; its worker counts as heard. If terms are
        given, they replace those of the job. The deadline of a provider's job is not changed.
        """
        self.check_live(lease)
        now_us = self._table.now_us
        job = lease.job
        if terms is not None:
            if terms.durable and not job.terms.durable:
                self._table.check_store()
                job.terms_before = job.terms
            job.queue.change_terms(job, terms)
            self._table.note(job)
        lease.worker.heard_us = now_us
        if lease.provider is not None:
            return
        if lease.run_until_us != NEVER:
            limits_us = [us for us in (lease.worker.abilities.get(job.queue, 0), job.terms.run_us) if us]
            lease.run_until_us = now_us + min(limits_us) if limits_us else NEVER
            self._table.timers.disarm(lease)
        if lease.due_us == NEVER and (lease.run_until_us != NEVER or job.terms.lease_us):
            self._arm(lease)

    def recall(self, lease: Lease) -> None:
        """Take the job back because the hall closes. No loss is counted."""
        self.check_live(lease)
        self._table.revoke(lease)
        self._table.counters.released += 1
        self.give_back(lease, CUT_SHORT)

    def lose(self, lease: Lease, reason: bytes = b"") -> None:
        """The worker no longer has the job, because it restarted or its process died: a loss."""
        self.check_live(lease)
        self.count_loss(lease, reason=reason)

    def reclaim(self, worker: Worker, job: Job, started_us: int) -> Lease:
        """A worker reports on a job that was taken from it because it was silent: lease the job to it again.

        A worker that has begun with the job meanwhile is told to stop. Refused if the job has ended or waits
        for parents.
        """
        if job.lease is not None:
            self._table.revoke(job.lease)
            self.give_back(job.lease, CUT_SHORT)
        if job.state not in (QUEUED, DELAYED):
            raise self.stale()
        self._table.move(job, LEASED)
        job.worker_name = worker.name
        job.dialect = worker.dialect
        job.started_us = started_us
        if job.tries is not None:
            # The attempt continues: it is not an earlier one.
            kept = [attempt for attempt in job.tries if (attempt[0], attempt[2]) != (started_us, worker.name)]
            job.tries = kept or None
        lease = self.attach(job, worker, 0)
        lease.started_us = started_us
        return lease

    def lease(self, job: Job, worker: Worker) -> Lease:
        """Give a job to a worker: a new attempt."""
        table = self._table
        table.move(job, LEASED)
        job.attempts += 1
        job.started_us = table.now_us
        job.numerator = job.denominator = 0
        job.worker_name = worker.name
        job.dialect = worker.dialect
        table.counters.taken += 1
        if job.queue.limiter is not None:
            job.queue.limiter.spend(job)
        run_us = worker.abilities.get(job.queue, 0) or job.terms.run_us
        if job.terms.run_us and job.terms.run_us < run_us:
            run_us = job.terms.run_us
        if job.terms.durable:
            if worker.resident is not None:
                table.ledger.note_deferred(job)
            else:
                table.ledger.note_start(job)
        return self.attach(job, worker, run_us)

    def attach(self, job: Job, worker: Worker, run_us: int) -> Lease:
        """Make the lease of a job that is LEASED already."""
        table = self._table
        now_us = table.now_us
        job.queue.leased += 1
        self.last_number += 1
        lease = Lease(self.last_number, job, worker, now_us, now_us + run_us if run_us else NEVER)
        job.lease = lease
        worker.hold(lease)
        if worker.capacity is not None and job.terms.resources:
            worker.capacity.take(lease, job.terms.resources)
        if run_us or job.terms.lease_us:
            self._arm(lease)
        return lease

    def _arm(self, lease: Lease) -> None:
        due_us = lease.run_until_us
        lease_us = lease.job.terms.lease_us
        if lease_us:
            silent_us = max(lease.started_us, lease.worker.heard_us) + lease_us
            if due_us == NEVER or silent_us < due_us:
                due_us = silent_us
        self._table.timers.arm(lease, due_us)

    def lease_due(self, lease: Lease) -> None:
        """The run limit or the allowed silence may be over; otherwise set the timer again."""
        job = lease.job
        now_us = self._table.now_us
        lease_us = job.terms.lease_us
        overran = lease.run_until_us != NEVER and lease.run_until_us <= now_us
        silent = lease_us > 0 and max(lease.started_us, lease.worker.heard_us) + lease_us <= now_us
        if not overran and not silent:
            self._arm(lease)
            return
        self._table.counters.expired += 1
        self._table.revoke(lease)
        held_since_us = lease.worker.peer.speaker.held_since_us
        if 0 < held_since_us <= lease.started_us:
            # The worker does not know of the job: what it was told waits for a commit.
            self.give_back(lease, GIVEN_BACK)
        elif silent and not overran:
            self.count_loss(lease)
        elif lease.worker.requeues_overruns:
            self.count_loss(lease, TIMED_OUT)
        else:
            self.fail(lease, TIMED_OUT, OVERRUN)

    def count_loss(self, lease: Lease, code: int = LOST, reason: bytes = b"") -> None:
        """The worker is gone, silent or too slow: queue the job again, or let it fail after too many losses. If
        the worker had not begun, no loss is counted. The reason is for people.
        """
        if lease.promised:
            self.give_back(lease, GIVEN_BACK)
            return
        job = lease.job
        job.losses += 1
        if code == LOST:
            self._table.counters.lost += 1
            job.queue.lost += 1
            self._table.observer.worker_lost(lease.worker, job, reason)
        if job.terms.losses_max and job.losses >= job.terms.losses_max:
            text = b"its workers were lost %d times" % job.losses
            if reason:
                text += b"; the last time: " + reason
            self._table.end(job, FAILED, code, text if code == LOST else OVERRUN)
        else:
            # A job that exceeds the limit of every worker must not block its lane.
            self.give_back(lease, code, front=code == LOST)

    def give_back(self, lease: Lease, code: int, *, front: bool = True, delay_us: int = 0) -> None:
        """The attempt is over without a result: the job is ready again, or delayed, or ends if nobody waits."""
        job = lease.job
        if lease.provider is not None:
            # Its provider is told, and announces the job again if it still wants it.
            self._table.end(job, CANCELLED, CALLED_OFF, b"its worker does not do it")
            return
        if job.abandoned:
            self._table.end(job, CANCELLED, CALLED_OFF, NO_WATCHERS)
            return
        if not lease.promised:
            self._table.remember_try(job, code, self._table.now_us)
            job.numerator = job.denominator = 0
        if lease.promised and lease.begin_us > self._table.now_us:
            self._table.move(job, DELAYED, due_us=lease.begin_us)
        elif delay_us > 0:
            self._table.move(job, DELAYED, due_us=self._table.now_us + delay_us)
        else:
            self._table.move(job, QUEUED, front=front)
        self._table.note(job)

    def dismiss(self, engagement: Engagement) -> None:
        """Tell a hired worker that has not begun that it is not needed; the job is announced again."""
        self._table.counters.dismissed += 1
        self._table.revoke(engagement)
        self.give_back(engagement, GIVEN_BACK)

    def check_live(self, lease: Lease) -> None:
        """Refuse a report on a lease that has ended."""
        if lease.job.lease is not lease:
            raise self.stale()

    def stale(self) -> Refusal:
        """Count a report without a live lease, and make the refusal."""
        self._table.counters.stale += 1
        return Refusal(STALE_LEASE, "this worker does not hold that job, or no longer holds it")
