"""One connection of the native protocol: a client, a worker, or both.

Invariant: whatever arrives, `receive` never raises. Each request with a number is answered once, with `ok` or
with `error`, and answers may come in any order. An `ok` that promises something is sent after the commit that
makes it true.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from hiringhall.core import ids
from hiringhall.core.errors import (
    BAD_REQUEST,
    HALL_FULL,
    STORE_DOWN,
    TOO_LARGE,
    UNKNOWN_JOB,
    WRONG_STATE,
    Refusal,
)
from hiringhall.core.states import FAILED, STATE_NAMES
from hiringhall.core.timers import NEVER
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.desk import Desk
from hiringhall.dialects.native.outputs import OutputRequests
from hiringhall.dialects.native.submitting import ENDS, ENDS_BYTES_MAX, Submits
from hiringhall.dialects.session import BAD_INPUT, Session

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import EndRow, HistoryPage, OutputPage
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.leases import Lease
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.session import Caller

FEATURES: Final = (
    "submit",
    "watch",
    "job",
    "cancel",
    "retry",
    "list",
    "work",
    "again",
    "output",
    "subscribe",
    "schedule",
    "pause",
)
"""What a hall of this version can do; a later one names more."""


class NativeSession(Session):
    """One peer's conversation."""

    def __init__(self, caller: Caller, context: NativeContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._reader = wire.Reader(context.options.frame_bytes_max)
        self._greeted = False
        self._submits = Submits(context)
        self._outputs = OutputRequests(context)
        self.streamed: set[int] = set()
        """Watched jobs whose progress, chunks and log lines the peer wants."""
        self._asked: dict[int, list[tuple[int, int]]] = {}
        """Requests that wait for the history, by job: their numbers, and the levels of those that watch."""
        self._lookups = 0
        """How many of them there are."""
        self._slots = 0
        """Jobs that the worker takes at once."""
        self._leases: dict[int, Lease] = {}
        """Its jobs, by the number of the lease."""
        self._desk: Desk | None = None
        """Answers requests about the hall as a whole; None: there was none yet."""
        self._freed = False
        """A job of the worker has ended in this piece of input."""

    # --- input

    def receive(self, data: bytes) -> None:
        if self.closing:
            return
        worker = self.worker
        if worker is not None:
            self._scheduler.beat(worker)
        reader = self._reader
        for frame in reader.feed(data):
            if not self._take_in(frame):
                return
        self.input_bytes = reader.kept + self._submits.waiting_bytes
        if reader.error:
            self.break_off(reader.error)
        if self._freed:
            self._freed = False
            self._offer()

    def _take_in(self, frame: bytes) -> bool:
        """False: the connection closes, and nothing more is read from it."""
        try:
            kind, number, body = wire.decode_frame(frame)
        except wire.BadFrame as bad_frame:
            self.break_off(str(bad_frame))
            return False
        try:
            self._dispatch(kind, number, body)
        except wire.BadBody as bad_body:
            self.refuse(number, BAD_REQUEST, f"{kind}: {bad_body}")
        except Refusal as refusal:
            self.refuse(number, refusal.reason, refusal.text)
        return not self.closing

    def _dispatch(self, kind: str, number: int, body: Raw) -> None:
        """The most frequent kinds come first."""
        if not self._greeted:
            self._hello(kind, number, body)
        elif kind == wire.FINISH:
            self._finish_job(number, body)
        elif kind == wire.SUBMIT:
            self._submits.submit(self, number, body)
        elif kind == wire.JOB:
            self._tell(number, wire.decode(wire.ID_BODY, body)[0], 0)
        elif kind == wire.WATCH:
            self._watch(number, body)
        elif kind == wire.PROGRESS:
            self._progress(number, body)
        elif kind == wire.CHUNK:
            self._chunk(number, body)
        elif kind == wire.LOG:
            lease, data = wire.decode(wire.LOG_BODY, body)
            self._scheduler.log(self._find_lease(lease), data)
            self._confirm(number)
        elif kind == wire.FAIL:
            self._fail_job(number, body)
        elif kind == wire.RELEASE:
            self._release(number, body)
        elif kind == wire.RENEW:
            self._scheduler.renew(self._find_lease(wire.decode(wire.ID_BODY, body)[0]))
            self._confirm(number)
        elif kind == wire.LOSE:
            self._lose(number, body)
        elif kind == wire.BEAT:
            self._confirm(number)
        elif kind == wire.SLOTS:
            self._slots = wire.decode(wire.SLOTS_BODY, body)[0]
            self._offer()
            self._confirm(number)
        elif kind == wire.WORK:
            self._work(number, body)
        elif kind == wire.CANCEL:
            self._cancel(number, body)
        elif kind == wire.RETRY:
            self._retry(number, body)
        elif kind == wire.UNWATCH:
            self._unwatch(number, body)
        elif kind == wire.OUTPUT:
            self._outputs.ask(self, number, body)
        elif kind == wire.QUEUES:
            position, count = _page(body)
            queues = islice(self._scheduler.queues.values(), position, position + count)
            self._answer(number, [describing.queue(self._scheduler, queue) for queue in queues])
        elif kind == wire.WORKERS:
            position, count = _page(body)
            workers = islice(self._scheduler.workers, position, position + count)
            self._answer(number, [describing.worker(worker) for worker in workers])
        elif not self._open_desk().serve(kind, number, body):
            self.refuse(number, wire.UNKNOWN_KIND, f"{kind[:40]!r} is not a kind of request")

    def _open_desk(self) -> Desk:
        if self._desk is None:
            self._desk = Desk(self, self._context.services)
        return self._desk

    def searched(self, number: int, page: HistoryPage | None, trouble: str) -> None:
        if self._desk is not None and not self.closing:
            self._desk.searched(number, page, trouble)

    def disconnected(self) -> None:
        if self._desk is not None:
            self._desk.close()

    def _hello(self, kind: str, number: int, body: Raw) -> None:
        if kind != wire.HELLO:
            self.break_off("the first frame must be hello", wire.NO_HELLO, number)
            return
        hello = wire.decode(wire.HELLO_BODY, body)
        stated = hello.get("version")
        if stated is None or wire.decode(wire.VERSION_BODY, stated) != wire.VERSION:
            self.break_off(f"this hall speaks version {wire.VERSION}", BAD_REQUEST, number)
            return
        self._greeted = True
        options = self._context.options
        welcome: dict[str, Any] = {
            "version": wire.VERSION,
            "hall": options.hall,
            "features": FEATURES,
            "frame_bytes_max": options.frame_bytes_max,
            "payload_bytes_max": self._scheduler.limits.payload_bytes_max,
        }
        self._answer(number, welcome)

    # --- a client's requests

    def _watch(self, number: int, body: Raw) -> None:
        job_id, level = wire.decode(wire.WATCH_BODY, body)
        job = self._scheduler.jobs.get(job_id)
        if job is None:
            self._tell(number, job_id, level)
        else:
            self._watch_live(number, job, level)

    def _watch_live(self, number: int, job: Job, level: int) -> None:
        if job.id not in self.watching:
            self._scheduler.watch(job, self)
        if level > ENDS:
            self.streamed.add(job.id)
        else:
            self.streamed.discard(job.id)
        self._answer(number, describing.live_job(self._scheduler, job))

    def _unwatch(self, number: int, body: Raw) -> None:
        job_id = wire.decode(wire.ID_BODY, body)[0]
        self.streamed.discard(job_id)
        job = self.watching.get(job_id)
        if job is not None:
            self._scheduler.unwatch(job, self)
        self._confirm(number)

    def _cancel(self, number: int, body: Raw) -> None:
        job_id, reason = wire.decode(wire.CANCEL_BODY, body)
        job = self._get(job_id)
        durable = job.terms.durable
        self._scheduler.cancel(job, reason)
        if number and durable:
            self.pledge(wire.encode(wire.OK, number, None))
        else:
            self._confirm(number)

    def _retry(self, number: int, body: Raw) -> None:
        job_id = wire.decode(wire.ID_BODY, body)[0]
        job = self._scheduler.find(job_id)
        if job is None:
            raise Refusal(UNKNOWN_JOB, f"job {job_id} is not a dead letter that is kept in memory")
        if job.state != FAILED:
            raise Refusal(WRONG_STATE, f"job {job_id} is {STATE_NAMES[job.state]}, not failed")
        self._scheduler.retry(job)
        if number:
            self.pledge(wire.encode(wire.OK, number, None))

    def _get(self, job_id: int) -> Job:
        job = self._scheduler.find(job_id)
        if job is None:
            raise Refusal(UNKNOWN_JOB, f"job {job_id} is not known, or ended long ago")
        return job

    def _tell(self, number: int, job_id: int, level: int) -> None:
        """Describe a job: a live one, one that has just ended, or one in the history. A watcher of some level
        is also told the end.
        """
        scheduler = self._scheduler
        unwritten = scheduler.unwritten(job_id)
        job = unwritten if unwritten is not None else scheduler.find(job_id)
        if job is not None and not job.ended:
            self._answer(number, describing.live_job(scheduler, job))
        elif unwritten is not None:
            # Its end is about to be stored: until then it could be lost with the hall.
            told = self._told_end(number, job_id, describing.ended_job(unwritten), level)
            if told:
                self.pledge(told)
        elif job is not None and not job.logged:
            # It was never durable: its result is not kept.
            self._send_end(number, job.id, describing.unkept_job(job), level)
        elif job is None and ids.epoch_of(job_id) > scheduler.epoch:
            raise Refusal(UNKNOWN_JOB, f"no job has the id {job_id}")
        elif self._lookups >= self._context.options.lookups_max:
            raise Refusal(
                HALL_FULL, f"{self._lookups} requests of this connection wait for the history (lookups_max)"
            )
        else:
            self._lookups += 1
            waiting = self._asked.setdefault(job_id, [])
            waiting.append((number, level))
            if len(waiting) == 1:
                self._context.look_up(self, job_id)

    def output_looked_up(self, job_id: int, page: OutputPage, trouble: str) -> None:  # noqa: ARG002 (in order)
        self._outputs.answered(self, page, trouble)

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:
        waiting = self._asked.pop(job_id, [])
        for place, (number, level) in enumerate(waiting):
            if place and self.out_bytes > ENDS_BYTES_MAX:
                self._asked[job_id] = waiting[place:]
                self._context.look_up(self, job_id)
                break
            self._lookups -= 1
            if trouble:
                self.refuse(number, STORE_DOWN, trouble)
            elif line is not None:
                self._send_end(number, job_id, describing.history_row(line), level)
            else:
                self._tell_unrecorded(number, job_id, level)
        self._submits.end_looked_up(self, job_id, line, trouble)

    def keys_looked_up(self, ticket: int, found: dict[ParentRef, EndRow], trouble: str) -> None:
        if not self.closing:
            self._submits.keys_looked_up(self, ticket, found, trouble)
            self.input_bytes = self._reader.kept + self._submits.waiting_bytes

    def _tell_unrecorded(self, number: int, job_id: int, level: int) -> None:
        """The history does not know the job."""
        job = self._scheduler.jobs.get(job_id)
        if job is not None and level:
            # A dead letter that was retried while the history was asked.
            self._watch_live(number, job, level)
        elif job is not None:
            self._answer(number, describing.live_job(self._scheduler, job))
        elif self._scheduler.issued(job_id):
            self.refuse(number, wire.NOT_KEPT, f"job {job_id} has ended, and nothing of it is kept")
        else:
            self.refuse(number, UNKNOWN_JOB, f"no job has the id {job_id}, or the history no longer has it")

    def _send_end(self, number: int, job_id: int, described: describing.Described, level: int) -> None:
        told = self._told_end(number, job_id, described, level)
        if told:
            self.send(told)

    def _told_end(self, number: int, job_id: int, described: describing.Described, level: int) -> bytes:
        """The answer to a request for an ended job; for a watcher, `ended` follows."""
        told = wire.encode(wire.OK, number, described) if number else b""
        if level:
            state, code, result = described["state"], described["code"], described["result"]
            body = describing.end_body(job_id, state, code, result, "truncated" in described)
            told += wire.encode(wire.ENDED, 0, body)
        return told

    def tell_end(self, job_id: int, state: int, code: int, result: bytes, truncated: bool) -> None:
        """Tell a watcher of an end that is in the history."""
        body = describing.end_body(job_id, STATE_NAMES[state], code, result, truncated)
        self.send(wire.encode(wire.ENDED, 0, body))

    # --- a worker's requests

    def _work(self, number: int, body: Raw) -> None:
        # ["host 4711", 4, [["resize", 0, 0]], -1, 30000000]
        name, slots, queues, stays_us, silence_us = wire.decode(wire.WORK_BODY, body)
        scheduler = self._scheduler
        limits = scheduler.limits
        if len(queues) > limits.abilities_max:
            raise Refusal(TOO_LARGE, f"a worker may have {limits.abilities_max} queues (abilities_max)")
        if len(name) > limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a worker's name may have {limits.key_bytes_max} bytes (key_bytes_max)")
        worker = scheduler.worker(self)
        scheduler.introduce(worker, name)
        scheduler.needs.rate_all(worker, {queue: skill for queue, _, skill in queues if skill})
        wanted = {queue for queue, _, _ in queues}
        try:
            for queue, run_us, _ in queues:
                scheduler.can_do(worker, queue, run_us)
        except Refusal:
            # All or nothing: a worker that can do only some of its queues would never know.
            self._slots = 0
            scheduler.cant_do_any(worker)
            self._offer()
            raise
        for able in list(worker.abilities):
            if able.name not in wanted:
                scheduler.cant_do(worker, able.name)
        scheduler.needs.stay(worker, stays_us)
        scheduler.expect(worker, silence_us)
        self._slots = slots
        self._offer()
        self._confirm(number)

    def _offer(self) -> None:
        """Tell the scheduler how many slots are free."""
        worker = self.worker
        if worker is not None:
            self._scheduler.offer(worker, max(self._slots - len(worker.leases), 0))

    def _find_lease(self, lease_number: int) -> Lease:
        lease = self._leases.get(lease_number)
        if lease is None:
            raise self._scheduler.leases.stale()
        return lease

    def _progress(self, number: int, body: Raw) -> None:
        lease, numerator, denominator, remaining_us = wire.decode(wire.PROGRESS_BODY, body)
        self._scheduler.progress(self._find_lease(lease), numerator, denominator, remaining_us)
        self._confirm(number)

    def _chunk(self, number: int, body: Raw) -> None:
        lease, data, warning = wire.decode(wire.CHUNK_BODY, body)
        self._scheduler.chunk(self._find_lease(lease), data, warning)
        self._confirm(number)

    def _finish_job(self, number: int, body: Raw) -> None:
        lease_number, result = wire.decode(wire.FINISH_BODY, body)
        lease = self._find_lease(lease_number)
        durable = lease.job.terms.durable
        self._scheduler.finish(lease, result)
        self._let_go(lease_number, number, durable=durable)

    def _fail_job(self, number: int, body: Raw) -> None:
        lease_number, code, data, retry = wire.decode(wire.FAIL_BODY, body)
        lease = self._find_lease(lease_number)
        durable = lease.job.terms.durable
        self._scheduler.fail(lease, code, data, retry=retry)
        self._let_go(lease_number, number, durable=durable)

    def _release(self, number: int, body: Raw) -> None:
        lease_number, front = wire.decode(wire.RELEASE_BODY, body)
        lease = self._find_lease(lease_number)
        durable = lease.job.terms.durable
        self._scheduler.release(lease, front=front)
        self._let_go(lease_number, number, durable=durable)

    def _lose(self, number: int, body: Raw) -> None:
        # [17, "the worker's process was ended by signal 6"]
        lease_number, reason = wire.decode(wire.FINISH_BODY, body)
        lease = self._find_lease(lease_number)
        durable = lease.job.terms.durable
        self._scheduler.lose(lease, reason)
        self._let_go(lease_number, number, durable=durable)

    def _let_go(self, lease_number: int, number: int, *, durable: bool) -> None:
        """A job is off the worker's hands; the answer waits for the commit if it promises something."""
        del self._leases[lease_number]
        self._freed = True
        if number and durable:
            self.pledge(wire.encode(wire.OK, number, None))
        else:
            self._confirm(number)

    # --- notices

    def assigned(self, lease: Lease) -> None:
        job = lease.job
        self._leases[lease.number] = lease
        run_us = lease.run_until_us - lease.started_us if lease.run_until_us != NEVER else 0
        body = (lease.number, job.id, job.queue.name, job.work, job.key, job.attempts, run_us)
        self.send(wire.encode(wire.ASSIGN, 0, body))

    def revoked(self, lease: Lease) -> None:
        if self._leases.pop(lease.number, None) is not None:
            self._freed = True
            self.send(wire.encode(wire.REVOKE, 0, (lease.number,)))

    def lost(self) -> None:
        self._leases.clear()
        self.send(wire.encode(wire.LOST, 0, None))

    def progressed(self, job: Job) -> None:
        if job.id in self.streamed:
            self.send(wire.encode(wire.PROGRESS, 0, (job.id, job.numerator, job.denominator)))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        if job.id in self.streamed:
            self.send(wire.encode(wire.CHUNK, 0, (job.id, data, warning)))

    def logged(self, job: Job, data: bytes) -> None:
        if job.id in self.streamed:
            self.send(wire.encode(wire.LOG, 0, (job.id, data)))

    def ended(self, job: Job) -> None:
        self.streamed.discard(job.id)
        body = (job.id, STATE_NAMES[job.state], job.code, job.result)
        self.conclude(job, wire.encode(wire.ENDED, 0, body))

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (see `said`)
        _, number, _ = wire.decode_frame(said[wire.HEADER_BYTES :])
        return wire.encode(wire.ERROR, number, (refusal.reason, refusal.text))

    # --- answers

    def _answer(self, number: int, body: Any) -> None:
        if number:
            self.send(wire.encode(wire.OK, number, body))

    def _confirm(self, number: int) -> None:
        if number:
            self.send(wire.encode(wire.OK, number, None))

    def refuse(self, number: int, code: str, text: str) -> None:
        self.send(wire.encode(wire.ERROR, number, (code, text)))

    def break_off(self, text: str, code: str = wire.BAD_FRAME, number: int = 0) -> None:
        self.report(BAD_INPUT, text)
        self.refuse(number, code, text)
        self.finish()


def _page(body: Raw) -> tuple[int, int]:
    position, count = wire.decode(wire.LIST_BODY, body)
    return position, min(count, wire.LIST_MAX)
