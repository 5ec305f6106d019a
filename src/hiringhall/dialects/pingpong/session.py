"""What is said at a PING/PONG door, and what it means: workers at the backend, clients at the frontend.

The law: an identity that was sent a job is sent no other before it has answered for that one. A result carries
no name, so this alone keeps one job's result from being taken for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.states import DONE, FAILED, FAILURE
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import NOTHING_KNOWN
from hiringhall.dialects.session import REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.pingpong.context import PingPongContext, Sent
    from hiringhall.dialects.session import Caller

UNSAYABLE: Final = "the payload PONG cannot be sent to a PING/PONG worker: it would be taken for a sign of life"
_NO_JOB: Final = 0


class WorkerSession(Session):
    """A worker at the backend."""

    def __init__(self, caller: Caller, context: PingPongContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._heard = False
        """It has said something at this door."""
        self._unsent = False
        """The latest job it was given was not sent to it, because there is no way to say it."""
        self._owes_until_us = 0
        """A job it was sent was taken from it, and it has not answered since: till then it gets no other.
        By the time that the hall was awake; 0: it owes nothing."""
        self._sent: Sent | None = None
        """The latest job that it was sent, and has not answered for: since then it has said only PING."""
        self._doubtful = False
        """A job may lie unread in its socket: its next PING does not prove that it has none."""

    def receive(self, data: bytes) -> None:
        scheduler = self._scheduler
        worker = self.worker
        if worker is None:
            worker = scheduler.worker(self)
            scheduler.introduce(worker, wire.identity_name(self.caller.route[0]))
            scheduler.expect(worker, self._context.options.expire_us)
            if not self._heard:
                self._heard = True
                self._sent = self._context.recall(self.caller.route[0])
                self._doubtful = self._sent is not None
        scheduler.beat(worker)
        lease = self._lease(worker)
        if lease is not None and self._unsent:
            scheduler.fail(lease, FAILURE, UNSAYABLE.encode())
            lease = None
        if data == wire.PING:
            if self._doubtful:
                self._doubtful = False
            elif lease is None and scheduler.awake_us >= self._owes_until_us:
                self._stand_ready(worker)
            self.send(wire.PONG)
            return
        if data != wire.READY:
            self._take_result(worker, lease, data)
        elif lease is not None:
            # It was started again: the job may be what ended it.
            scheduler.lose(lease)
        self._owes_until_us = 0
        self._doubtful = False
        self._sent = None
        self._stand_ready(worker)

    def _lease(self, worker: Worker) -> Lease | None:
        """What it works on: it offers one slot, so it is one job at most."""
        for lease in worker.leases.values():
            return lease
        return None

    def _stand_ready(self, worker: Worker) -> None:
        """It is in the ready queue, and stays there as long as it shows life."""
        scheduler = self._scheduler
        options = self._context.options
        scheduler.expect(worker, options.expire_us)
        worker.work_quietly()
        if not worker.abilities:
            try:
                scheduler.can_do(worker, options.queue)
            except Refusal:
                return  # no room for another queue, and no word for that: the next PING asks again
        scheduler.offer(worker, 1)

    def _take_result(self, worker: Worker, lease: Lease | None, data: bytes) -> None:
        scheduler = self._scheduler
        error = wire.parse_error(data)
        number = wire.failure_number(error[0]) if error is not None else 0
        if lease is None:
            lease = self._reclaim(worker, failed=number > 0)
        if lease is None:
            return
        if error is not None and number:
            scheduler.fail(lease, number, error[1])
        else:
            scheduler.finish(lease, data)

    def _reclaim(self, worker: Worker, *, failed: bool) -> Lease | None:
        """The job that was taken from it because it was silent, unless that has ended since. The first result
        counts; a failure does not end what another worker has begun.
        """
        scheduler = self._scheduler
        job_id, started_us = self._sent or NOTHING_KNOWN
        job = scheduler.jobs.get(job_id)
        try:
            if job is None or (failed and job.lease is not None):
                return scheduler.find_lease(worker, _NO_JOB)  # counts it as stale
            return scheduler.reclaim(worker, job, started_us)
        except Refusal:
            return None

    # --- notices

    def assigned(self, lease: Lease) -> None:
        options = self._context.options
        if not lease.job.terms.lease_us:
            # A job of another door that sets no time: ours holds, since nobody tells us of a worker's end.
            lease.worker.bound_work(options.job_timeout_us + options.expire_us)
        # A notice calls no verb: a job that cannot be said is failed at the worker's next word.
        self._unsent = lease.job.work == wire.PONG
        if not self._unsent:
            self._sent = lease.job.id, lease.started_us
            self.send(lease.job.work)

    def revoked(self, lease: Lease) -> None:  # noqa: ARG002 (there is but one)
        if not self._unsent:
            self._owes_until_us = self._scheduler.awake_us + self._context.options.job_timeout_us
            self._doubtful = True

    def disconnected(self) -> None:
        if self._sent is not None:
            # What it held until now may not have reached it.
            self._context.doubt(self.caller.route[0], self._sent if self._owes_until_us else NOTHING_KNOWN)

    def withdrawn(self, job: Job, refusal: Refusal) -> bytes:  # noqa: ARG002 (a worker submits nothing)
        return refused(refusal)


class ClientSession(Session):
    """A client at the frontend, or one request of it: whatever has the same envelope."""

    def __init__(self, caller: Caller, context: PingPongContext) -> None:
        super().__init__(caller)
        self._context = context

    def receive(self, data: bytes) -> None:
        context = self._context
        try:
            if data == wire.PONG:
                raise Refusal(BAD_REQUEST, UNSAYABLE)
            context.scheduler.submit(JobSpec(context.options.queue, data, b"", context.terms), self)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, context.options.queue)
            self.send(refused(refusal))

    def ended(self, job: Job) -> None:
        if job.state == DONE:
            answer = job.result
        elif job.state == FAILED:
            answer = wire.pack_error(b"%d" % job.code, job.result)
        else:
            answer = wire.pack_error(wire.CANCELLED, job.result)
        self.conclude(job, answer)

    def withdrawn(self, job: Job, refusal: Refusal) -> bytes:  # noqa: ARG002 (the client knows no job by name)
        return refused(refusal)


def refused(refusal: Refusal) -> bytes:
    """The core's "no"."""
    return wire.pack_error(refusal.reason.encode(), refusal.text.encode())
