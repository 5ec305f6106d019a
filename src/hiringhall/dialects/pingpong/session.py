"""Sessions of a PING/PONG door: workers at the backend, clients at the frontend.

Invariant: a worker that was sent a job is sent no other one before it has answered. A result does not name its
job, so without this rule the result of one job could be taken for that of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, TOO_LARGE, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.states import DONE, FAILED, FAILURE
from hiringhall.dialects.collecting import NOT_WHOLE
from hiringhall.dialects.pingpong import wire
from hiringhall.dialects.pingpong.context import UNKNOWN_JOB
from hiringhall.dialects.session import REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.pingpong.context import PingPongContext, Sent
    from hiringhall.dialects.session import Caller

PAYLOAD_IS_PONG: Final = (
    "the payload PONG cannot be sent to a PING/PONG worker: it would be taken for a sign of life"
)


class WorkerSession(Session):
    """A worker at the backend."""

    def __init__(self, caller: Caller, context: PingPongContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._heard = False
        """It has sent something in this session."""
        self._unsent = False
        """The latest job that it was assigned was not sent, because its payload is PONG."""
        self._blocked_until_us = 0
        """A job was taken from it, and it has not answered since: it is sent no other job before this time,
        which is compared with `awake_us`; 0: it is not blocked."""
        self._sent: Sent | None = None
        """The job that it was sent and has not answered for: since then it has sent only PING."""
        self._messages = 0
        """Messages to it so far. `delivered` counts in the same way."""
        self._sent_number = 0
        """The number of the message with the job in `_sent`."""
        self._unread = False
        """Its socket may hold a job that it has not read: its next PING does not prove that it has none."""

    @property
    def dialect(self) -> str:
        return "pingpong"

    def receive(self, data: bytes) -> None:
        scheduler = self._scheduler
        worker = self.worker
        if worker is None:
            worker = scheduler.worker(self)
            scheduler.introduce(worker, wire.identity_name(self.caller.route[0]))
            scheduler.expect(worker, self._context.options.expire_us)
            if not self._heard:
                self._heard = True
                self._sent = self._context.take_unanswered(self.caller.route[0])
                self._unread = self._sent is not None
        scheduler.beat(worker)
        lease = self._lease(worker)
        if lease is not None and self._unsent:
            scheduler.fail(lease, FAILURE, PAYLOAD_IS_PONG.encode())
            lease = None
        if data == wire.PING:
            if self._unread:
                self._unread = False
            elif lease is None and scheduler.awake_us >= self._blocked_until_us:
                self._offer_slot(worker)
            self._messages += 1
            self.send(wire.PONG)
            return
        if data != wire.READY:
            self._take_result(worker, lease, data)
        elif lease is not None:
            # It was restarted: the job may have crashed it.
            scheduler.lose(lease)
        self._blocked_until_us = 0
        self._unread = False
        self._sent = None
        self._offer_slot(worker)

    def _lease(self, worker: Worker) -> Lease | None:
        """Its lease; it has at most one, since it offers one slot."""
        for lease in worker.leases.values():
            return lease
        return None

    def _offer_slot(self, worker: Worker) -> None:
        """The worker is ready for a job, until it is silent for too long."""
        scheduler = self._scheduler
        options = self._context.options
        scheduler.expect(worker, options.expire_us)
        worker.work_quietly()
        if not worker.abilities:
            try:
                scheduler.can_do(worker, options.queue)
            except Refusal:
                return  # there is no room for another queue; the next PING tries again
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
        """Give the worker back the job that it lost by silence; None: the job has ended. The first result
        counts; a failure does not end a job that another worker has begun.
        """
        scheduler = self._scheduler
        job_id, started_us = self._sent or UNKNOWN_JOB
        job = scheduler.jobs.get(job_id)
        try:
            if job is None or (failed and job.lease is not None):
                raise scheduler.leases.stale()
            return scheduler.reclaim(worker, job, started_us)
        except Refusal:
            return None

    # --- notices

    def assigned(self, lease: Lease) -> None:
        options = self._context.options
        if not lease.job.terms.lease_us:
            # The job's own door sets no lease: use ours, for a worker that hangs.
            lease.worker.bound_work(options.job_timeout_us + options.expire_us)
        # A notice must not call a verb: a job that cannot be sent fails with the worker's next message.
        self._unsent = lease.job.work == wire.PONG
        if not self._unsent:
            self._sent = lease.job.id, lease.started_us
            self._messages += 1
            self._sent_number = self._messages
            self.send(lease.job.work)

    def revoked(self, lease: Lease) -> None:  # noqa: ARG002 (it has at most one)
        if not self._unsent:
            self._blocked_until_us = self._scheduler.awake_us + self._context.options.job_timeout_us
            self._unread = True

    def undelivered(self) -> None:
        if self._sent is not None and self._sent_number > self.delivered:
            # It may have an earlier job, which it had not read when it sent READY.
            self._sent = UNKNOWN_JOB

    def disconnected(self) -> None:
        if self._sent is not None:
            self._context.remember_unanswered(self.caller.route[0], self._sent)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return refused(refusal)


class ClientSession(Session):
    """A client at the frontend, or one of its requests: everything with the same envelope."""

    def __init__(self, caller: Caller, context: PingPongContext) -> None:
        super().__init__(caller)
        self._context = context

    @property
    def dialect(self) -> str:
        return "pingpong"

    def receive(self, data: bytes) -> None:
        context = self._context
        try:
            if data == wire.PONG:
                raise Refusal(BAD_REQUEST, PAYLOAD_IS_PONG)
            context.scheduler.submit(JobSpec(context.options.queue, data, b"", context.terms), self)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, context.options.queue)
            self.send(refused(refusal))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        if not warning:
            self._context.ahead.add(self, job, data)

    def ended(self, job: Job) -> None:
        whole = self._context.ahead.whole(self, job)
        if whole is None and job.state == DONE:
            answer = wire.pack_error(TOO_LARGE.encode(), NOT_WHOLE.encode())
        elif job.state == DONE:
            assert whole is not None
            answer = whole
        elif job.state == FAILED:
            answer = wire.pack_error(b"%d" % job.code, job.result)
        else:
            answer = wire.pack_error(wire.CANCELLED, job.result)
        self.conclude(job, answer)

    def disconnected(self) -> None:
        self._context.ahead.drop(self)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return refused(refusal)


def refused(refusal: Refusal) -> bytes:
    """The answer for a refusal of the core."""
    return wire.pack_error(refusal.reason.encode(), refusal.text.encode())
