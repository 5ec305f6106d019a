"""One connection of the beanstalkd protocol: a producer, a worker, or both.

Invariant: each request is answered once, in order. While a reserve waits for a job, later requests wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import WRONG_STATE, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DELAYED, FAILED, FAILURE
from hiringhall.core.timers import NEVER, Timed
from hiringhall.dialects.beanstalkd import replies, stats, wire
from hiringhall.dialects.beanstalkd.context import DEFAULT_TUBE
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.beanstalkd.context import BeanstalkdContext
    from hiringhall.dialects.beanstalkd.wire import Request
    from hiringhall.dialects.session import Caller

MARGIN_US: Final = SECOND_US
"""The last part of a time to run, in which its worker is not kept waiting for another job."""
HELD_BYTES_MAX: Final = 1 << 20
"""A peer that sends more than this behind a reserve that waits is disconnected. Reading must go on: otherwise
nobody would see that the peer is gone, and jobs would be given to it."""
KICK_MAX: Final = 10_000
"""Jobs moved by one kick, however many it asks for."""


class Alarm(Timed):
    """The next deadline of a session."""

    __slots__ = ("_session",)

    def __init__(self, session: BeanstalkdSession) -> None:
        super().__init__()
        self._session: BeanstalkdSession | None = session

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (the session knows it)
        if self._session is not None:
            self._session.alarmed()

    def forget(self) -> None:
        """The session has closed. An entry in the heap of timers must not keep it, nor what it has read."""
        self._session = None


class BeanstalkdSession(Session):
    """One peer's conversation. The watch list is the list of queues that its worker can do."""

    def __init__(self, caller: Caller, context: BeanstalkdContext) -> None:
        super().__init__(caller)
        self.tube = DEFAULT_TUBE
        """The tube in use: where its jobs go, and where it looks for jobs to peek at or to kick."""
        self.waiting = False
        """A reserve waits for a job."""
        self._until_us = NEVER
        """When that reserve times out, by the time that the hall was awake; 0: never."""
        self._alarm = Alarm(self)
        self._context = context
        self._scheduler = context.scheduler
        self._reader = wire.Reader(context.options.job_bytes_max)
        context.connections += 1
        context.sessions[self] = None

    @property
    def dialect(self) -> str:
        return "beanstalkd"

    def disconnected(self) -> None:
        self._scheduler.timers.disarm(self._alarm)
        self._alarm.forget()
        self._context.sessions.pop(self, None)

    def receive(self, data: bytes) -> None:
        if self.worker is not None:
            self._scheduler.beat(self.worker)
        self._reader.receive(data)
        self._go_on()

    def _go_on(self) -> None:
        """Answer what has come, up to a reserve that has to wait."""
        while not self.waiting and not self.closing:
            request = self._reader.next_request()
            if request is None:
                break
            try:
                self._answer(request)
            except Refusal as refusal:
                self.send(replies.refused(refusal))
        self.input_bytes = self._reader.kept_bytes
        if self.waiting and self.input_bytes > HELD_BYTES_MAX:
            self.report(BAD_INPUT, f"more than {HELD_BYTES_MAX} bytes behind a reserve that waits")
            self.finish()

    def _answer(self, request: Request) -> None:
        """The most frequent commands stand first."""
        command = request.command
        numbers = request.numbers
        if request.fault:
            self.report(BAD_INPUT, replies.fault_text(request))
            self.send(request.fault)
            return
        self._context.commands[command] += 1
        if command == wire.PUT:
            self._put(request)
        elif command == wire.RESERVE:
            self._reserve(-1)
        elif command == wire.RESERVE_WITH_TIMEOUT:
            self._reserve(numbers[0] * SECOND_US)
        elif command == wire.DELETE:
            self._delete(stats.find_job(self._scheduler, numbers[0]))
        elif command == wire.RELEASE:
            lease = self._scheduler.find_lease(self._as_worker(), numbers[0])
            self._change_terms(lease, numbers[1], durable=lease.job.terms.durable)
            self._scheduler.release(lease, delay_us=numbers[2] * SECOND_US)
            self._confirm(lease.job, wire.RELEASED)
        elif command == wire.BURY:
            lease = self._scheduler.find_lease(self._as_worker(), numbers[0])
            # Only what is on disk can be kept as a dead letter.
            self._change_terms(lease, numbers[1], durable=lease.job.terms.durable or lease.job.terms.detached)
            self._scheduler.fail(lease, FAILURE, b"buried")
            self._confirm(lease.job, wire.BURIED)
        elif command == wire.TOUCH:
            self._scheduler.renew(self._scheduler.find_lease(self._as_worker(), numbers[0]))
            self.send(wire.TOUCHED)
        elif command == wire.USE:
            self.tube = self._scheduler.queue(request.tube).name
            self.send(b"USING %b\r\n" % self.tube)
        elif command == wire.WATCH:
            self._scheduler.can_do(self._as_worker(), request.tube)
            self.send(b"WATCHING %d\r\n" % len(self._as_worker().abilities))
        elif command == wire.IGNORE:
            self._ignore(request.tube)
        elif command == wire.RESERVE_JOB:
            job = stats.find_job(self._scheduler, numbers[0])
            stopped = self._scheduler.closing or self._scheduler.is_paused(job.queue.name)
            if job.state == FAILED and not stopped:
                self._scheduler.retry(job)
            self._send_job(b"RESERVED", self._scheduler.take_job(self._as_worker(), job).job)
        elif command == wire.KICK:
            self.pledge(b"KICKED %d\r\n" % self._kick(min(numbers[0], KICK_MAX)))
        elif command == wire.KICK_JOB:
            job = stats.find_job(self._scheduler, numbers[0])
            self._make_ready(job)
            self._confirm(job, wire.KICKED)
        elif command in (wire.PEEK, wire.PEEK_READY, wire.PEEK_DELAYED, wire.PEEK_BURIED):
            self._send_job(b"FOUND", stats.peek(self._scheduler, self.tube, request))
        elif command == wire.LIST_TUBES_WATCHED:
            self.send(wire.pack_list([queue.name for queue in self._as_worker().abilities]))
        elif command == wire.QUIT:
            self.finish()
        else:
            self.send(stats.tell(self._context, self.tube, request))

    # --- a producer's commands

    def _put(self, request: Request) -> None:
        # put 1024 0 60 5\r\nhello\r\n
        priority, delay_s, run_s, _ = request.numbers
        terms = self._context.terms(priority, run_s)
        due_us = self._scheduler.now_us + delay_s * SECOND_US if delay_s else NEVER
        try:
            job = self._scheduler.submit(JobSpec(self.tube, request.body, b"", terms, due_us), None)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, self.tube)
            raise
        self.acknowledge(job, b"INSERTED %d\r\n" % job.id)

    # --- a worker's commands

    def _as_worker(self) -> Worker:
        worker = self.worker
        if worker is None:
            self._scheduler.queue(DEFAULT_TUBE)
            worker = self._scheduler.worker(self)
            self._scheduler.introduce(worker, self.caller.name.encode())
            self._scheduler.requeue_overruns(worker)
            self._scheduler.can_do(worker, DEFAULT_TUBE)
        return worker

    def _ignore(self, tube: bytes) -> None:
        abilities = self._as_worker().abilities
        if [queue.name for queue in abilities] == [tube]:
            self.send(wire.NOT_IGNORED)
            return
        self._scheduler.cant_do(self._as_worker(), tube)
        self.send(b"WATCHING %d\r\n" % len(abilities))

    def _reserve(self, timeout_us: int) -> None:
        """Below 0: wait for as long as it takes."""
        worker = self._as_worker()
        lease = self._scheduler.take(worker)
        if lease is not None:
            self._send_job(b"RESERVED", lease.job)
            return
        self._until_us = self._scheduler.awake_us + timeout_us if timeout_us >= 0 else NEVER
        self.waiting = True
        self._wait(worker)
        if self.waiting:
            self._scheduler.offer(worker, 1)

    def _wait(self, worker: Worker) -> None:
        """Set the alarm to the next deadline of the reserve that waits; or answer it, if one has passed."""
        now_us = self._scheduler.now_us
        margins_us = [lease.run_until_us - MARGIN_US for lease in worker.leases.values() if lease.run_until_us]
        deadlines_us = margins_us
        if self._until_us != NEVER:
            deadlines_us = [*margins_us, now_us + self._until_us - self._scheduler.awake_us]
        next_us = min(deadlines_us, default=NEVER)
        if not deadlines_us or next_us > now_us:
            if deadlines_us:
                self._scheduler.timers.arm(self._alarm, next_us)
            return
        self.waiting = False
        self._scheduler.offer(worker, 0)
        self.send(wire.DEADLINE_SOON if min(margins_us, default=now_us + 1) <= now_us else wire.TIMED_OUT)

    def alarmed(self) -> None:
        """A deadline of the reserve has passed, or there are requests behind one that was answered."""
        if self.waiting and self.worker is not None:
            self._wait(self.worker)
        self._go_on()

    def assigned(self, lease: Lease) -> None:
        """The job that a reserve waited for. A notice calls no verb: the next turn reads the rest."""
        self.waiting = False
        self._send_job(b"RESERVED", lease.job)
        if self._reader.kept_bytes:
            self._scheduler.timers.arm(self._alarm, self._scheduler.now_us + 1)
        else:
            self._scheduler.timers.disarm(self._alarm)

    def _change_terms(self, lease: Lease, priority: int, *, durable: bool) -> None:
        terms = self._context.changed(lease.job.terms, priority, durable=durable)
        if terms is not lease.job.terms:
            self._scheduler.renew(lease, terms)

    # --- commands for any job

    def _delete(self, job: Job) -> None:
        lease = job.lease
        if lease is not None and lease.worker is self.worker and not lease.promised:
            self._scheduler.finish(lease, b"")
        elif lease is not None:
            raise Refusal(WRONG_STATE, "another worker has the job")
        else:
            if job.state == FAILED:
                self._scheduler.retry(job)
            self._scheduler.cancel(job, b"deleted")
        self._confirm(job, wire.DELETED)

    def _make_ready(self, job: Job) -> None:
        if job.state == FAILED:
            self._scheduler.retry(job)
        elif job.state == DELAYED:
            self._scheduler.job_due(job)
        else:
            raise Refusal(WRONG_STATE, "the job is neither buried nor delayed")

    def _kick(self, bound: int) -> int:
        """Buried jobs of the tube in use, or delayed ones if none is buried: how many were moved."""
        kicked = self._make_all_ready(self._scheduler.archive.dead_letters(self.tube, KICK_MAX), bound)
        return kicked or self._make_all_ready(stats.delayed_jobs(self._scheduler, self.tube), bound)

    def _make_all_ready(self, jobs: list[Job], bound: int) -> int:
        done = 0
        for job in jobs:
            if done >= bound:
                break
            try:
                self._make_ready(job)
                done += 1
            except Refusal as refusal:
                # A dead letter whose key another job has by now stays where it is.
                if refusal.reason != WRONG_STATE:
                    if done:
                        break  # The answer says how many were moved.
                    raise
        return done

    # --- replies

    def _send_job(self, word: bytes, job: Job) -> None:
        self.send(wire.pack_job(word, job.id, job.work))

    def _confirm(self, job: Job, reply: bytes) -> None:
        """Say that a job was changed, once that is on disk if the job is."""
        if job.stored and job.terms.durable:
            self.pledge(reply)
        else:
            self.acknowledge(job, reply)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return replies.refused(refusal)
