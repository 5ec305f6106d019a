"""One connection of the native protocol: a client, a worker, or both.

Invariant: whatever arrives, `receive` never raises. Each request with a number is answered once, with `ok` or
with `error`, and answers may come in any order. An `ok` that promises something is sent after the commit that
makes it true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.errors import BAD_REQUEST, TOO_LARGE, Refusal
from hiringhall.core.states import STATE_NAMES
from hiringhall.core.timers import NEVER
from hiringhall.dialects.hall import Actor
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.audits import (
    ADDRESS_BYTES_MAX,
    AUDITED,
    PERSON_BYTES_MAX,
    Audits,
    stated_text,
)
from hiringhall.dialects.native.desk import Desk
from hiringhall.dialects.native.inquiring import Inquiries
from hiringhall.dialects.native.outputs import OutputRequests
from hiringhall.dialects.native.roles import ADMIN, NEEDED, OPERATOR, needed, role_name
from hiringhall.dialects.native.submitting import ENDS, Submits
from hiringhall.dialects.session import BAD_INPUT, FORBIDDEN, UNAUTHORIZED, Session

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
    "unless_done",
    "output",
    "subscribe",
    "schedule",
    "pause",
    "metrics",
    "overview",
    "flow",
    "drain",
    "schedule_control",
    "auctions",
    "settings",
    "tokens",
    "audit",
    "limit",
    "debounce",
    "resources",
)
"""What a hall of this version can do; a later one names more."""
LOCAL: Final = Actor("local", ADMIN, "")


class NativeSession(Session):
    """One peer's conversation."""

    def __init__(self, caller: Caller, context: NativeContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._reader = wire.Reader(context.options.frame_bytes_max)
        self._greeted = False
        self._turned_away = False
        """It may not come in, and is about to be told so. Nothing is read from it."""
        self.actor = LOCAL
        self._role = ADMIN
        """That of the actor."""
        self.audits: Audits | None = None
        """Notes the changes of a peer that said who it is; None: it did not."""
        self._submits = Submits(context)
        self._outputs = OutputRequests(context)
        self.streamed: set[int] = set()
        """Watched jobs whose progress, chunks and log lines the peer wants."""
        self._inquiries = Inquiries(self, context)
        self._slots = 0
        """Jobs that the worker takes at once."""
        self._leaves = False
        """The worker has said how long it stays."""
        self._leases: dict[int, Lease] = {}
        """Its jobs, by the number of the lease."""
        self._desk: Desk | None = None
        """Answers requests about the hall as a whole; None: there was none yet."""
        self._freed = False
        """A job of the worker has ended in this piece of input."""

    @property
    def dialect(self) -> str:
        return "native"

    # --- input

    def receive(self, data: bytes) -> None:
        if self.closing or self._turned_away:
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
        return not self.closing and not self._turned_away

    def _dispatch(self, kind: str, number: int, body: Raw) -> None:
        """The frequent kinds, the most frequent first; all others are the desk's, which checks their roles."""
        if not self._greeted:
            self._hello(kind, number, body)
        elif self._role < OPERATOR and kind not in AUDITED and NEEDED.get(kind, 0) > self._role:
            self.require_role(kind)
        elif kind == wire.FINISH:
            self._finish_job(number, body)
        elif kind == wire.SUBMIT:
            self._submits.submit(self, number, body)
        elif kind == wire.JOB:
            self._inquiries.tell(number, wire.decode(wire.ID_BODY, body)[0], 0)
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
        elif kind == wire.UNWATCH:
            self._unwatch(number, body)
        elif kind == wire.OUTPUT:
            self._outputs.ask(self, number, body)
        elif not self._open_desk().serve(kind, number, body):
            self.refuse(number, wire.UNKNOWN_KIND, f"{kind[:40]!r} is not a kind of request")

    def _open_desk(self) -> Desk:
        if self._desk is None:
            self._desk = Desk(self, self._inquiries, self._context)
        return self._desk

    def searched(self, number: int, page: HistoryPage | None, trouble: str) -> None:
        if self._desk is not None and not self.closing:
            self._desk.searched(number, page, trouble)

    def disconnected(self) -> None:
        if self._desk is not None:
            self._desk.close()
        if self.audits is not None:
            self.audits.close()
        access = self._context.services.access
        if access is not None and self.actor.key:
            access.left(self, self.actor)

    def _hello(self, kind: str, number: int, body: Raw) -> None:
        if kind != wire.HELLO:
            self.break_off("the first frame must be hello", wire.NO_HELLO, number)
            return
        hello = wire.decode(wire.HELLO_BODY, body)
        stated = hello.get("version")
        if stated is None or wire.decode(wire.VERSION_BODY, stated) != wire.VERSION:
            self.break_off(f"this hall speaks version {wire.VERSION}", BAD_REQUEST, number)
            return
        if not self._come_in(number, hello):
            return
        self._greeted = True
        options = self._context.options
        welcome: dict[str, Any] = {
            "version": wire.VERSION,
            "hall": options.hall,
            "features": FEATURES,
            "frame_bytes_max": options.frame_bytes_max,
            "payload_bytes_max": self._scheduler.limits.payload_bytes_max,
            "actor": self.actor.name,
            "role": role_name(self._role),
        }
        self.answer(number, welcome)

    def _come_in(self, number: int, hello: dict[str, Raw]) -> bool:
        """Find out who the peer is; False: it may not come in."""
        token, person = stated_text(hello, "token"), stated_text(hello, "person")
        if person is not None and len(person.encode()) > PERSON_BYTES_MAX:
            raise Refusal(TOO_LARGE, f"person: may have {PERSON_BYTES_MAX} bytes")
        address = stated_text(hello, "address") or ""
        if len(address.encode()) > ADDRESS_BYTES_MAX:
            raise Refusal(TOO_LARGE, f"address: may have {ADDRESS_BYTES_MAX} bytes")
        services = self._context.services
        access = services.access
        if access is not None:
            try:
                self.actor = access.admit(self, self.caller, token, self._context.options.tokens)
            except Refusal as refusal:
                text = refusal.text
                self._turned_away = True
                self.report(UNAUTHORIZED, text)
                access.turned_away(self.caller, lambda: self._close_with(wire.UNAUTHORIZED, text, number))
                return False
        self._role = self.actor.role
        if services.audit is not None and (self.actor.key or person):
            self.audits = Audits(self, services.audit, self._scheduler, person or "", address)
        return True

    def require_role(self, kind: str) -> None:
        """Raises Refusal if the peer may not send this kind of request."""
        role = needed(kind)
        if role > self._role:
            mine = role_name(self._role)
            text = f"{kind}: {self.actor.name} has the role {mine}; this needs the role {role_name(role)}"
            self.report(FORBIDDEN, text)
            raise Refusal(wire.FORBIDDEN, text)

    def expel(self, code: str, text: str) -> None:
        self.report(UNAUTHORIZED, text)
        self._close_with(code, text, 0)

    def _close_with(self, code: str, text: str, number: int) -> None:
        if self.link is not None:
            self.refuse(number, code, text)
            self.finish()

    # --- a client's requests

    def _watch(self, number: int, body: Raw) -> None:
        job_id, level = wire.decode(wire.WATCH_BODY, body)
        job = self._scheduler.jobs.get(job_id)
        if job is None:
            self._inquiries.tell(number, job_id, level)
        else:
            self.watch_live(number, job, level)

    def watch_live(self, number: int, job: Job, level: int) -> None:
        """Watch a job that has not ended, and describe it. The answer acknowledges the job: if it is withdrawn
        before it is on disk, or refused with another of its submit, the watch is refused.
        """
        begins = job not in self.watching
        if begins:
            self._scheduler.watch(job, self)
        if level > ENDS:
            self.streamed.add(job.id)
        else:
            self.streamed.discard(job.id)
        if number:
            described = describing.live_job(self._scheduler, job)
            self.acknowledge_watch(job, wire.encode(wire.OK, number, described), watching=begins)

    def _unwatch(self, number: int, body: Raw) -> None:
        job_id = wire.decode(wire.ID_BODY, body)[0]
        self.streamed.discard(job_id)
        job = self._scheduler.jobs.get(job_id)
        if job is not None:
            self._scheduler.unwatch(job, self)
        self._confirm(number)

    def output_looked_up(self, job_id: int, page: OutputPage, trouble: str) -> None:  # noqa: ARG002 (in order)
        self._outputs.answered(self, page, trouble)

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:
        self._inquiries.looked_up(job_id, line, trouble)
        self._submits.end_looked_up(self, job_id, line, trouble)

    def keys_looked_up(self, ticket: int, found: dict[ParentRef, EndRow], trouble: str) -> None:
        if ticket < 0:
            if self._desk is not None and not self.closing:
                self._desk.found(-ticket, found, trouble)
        elif not self.closing:
            self._submits.keys_looked_up(self, ticket, found, trouble)
            self.input_bytes = self._reader.kept + self._submits.waiting_bytes

    def tell_end(self, job_id: int, state: int, code: int, result: bytes, truncated: bool) -> None:
        """Tell a watcher of an end that is in the history."""
        body = describing.end_body(job_id, STATE_NAMES[state], code, result, truncated)
        self.send(wire.encode(wire.ENDED, 0, body))

    # --- a worker's requests

    def _work(self, number: int, body: Raw) -> None:
        # ["host 4711", 4, [["resize", 0, 0]], -1, 30000000, ["cpus=8 gpus=2", ""]]
        name, slots, queues, stays_us, silence_us, (resources, machine) = wire.decode_work(body)
        scheduler = self._scheduler
        limits = scheduler.limits
        if len(queues) > limits.abilities_max:
            raise Refusal(TOO_LARGE, f"a worker may have {limits.abilities_max} queues (abilities_max)")
        if len(name) > limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a worker's name may have {limits.key_bytes_max} bytes (key_bytes_max)")
        if self.worker is None:
            self._leaves = False
        if len(machine) > limits.key_bytes_max:
            raise Refusal(TOO_LARGE, f"a machine's name may have {limits.key_bytes_max} bytes (key_bytes_max)")
        worker = scheduler.worker(self)
        scheduler.introduce(worker, name)
        if resources or worker.capacity is not None:
            scheduler.resources.equip(worker, resources.encode(), machine)
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
        if stays_us >= 0 or self._leaves:
            self._leaves = stays_us >= 0
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
        job, durable = lease.job, lease.job.terms.durable
        self._scheduler.finish(lease, result)
        self._let_go(lease_number, number, job, durable=durable)

    def _fail_job(self, number: int, body: Raw) -> None:
        lease_number, code, data, retry = wire.decode(wire.FAIL_BODY, body)
        lease = self._find_lease(lease_number)
        job, durable = lease.job, lease.job.terms.durable
        self._scheduler.fail(lease, code, data, retry=retry)
        self._let_go(lease_number, number, job, durable=durable)

    def _release(self, number: int, body: Raw) -> None:
        lease_number, front = wire.decode(wire.RELEASE_BODY, body)
        lease = self._find_lease(lease_number)
        job, durable = lease.job, lease.job.terms.durable
        self._scheduler.release(lease, front=front)
        self._let_go(lease_number, number, job, durable=durable)

    def _lose(self, number: int, body: Raw) -> None:
        # [17, "the worker's process was ended by signal 6"]
        lease_number, reason = wire.decode(wire.FINISH_BODY, body)
        lease = self._find_lease(lease_number)
        job, durable = lease.job, lease.job.terms.durable
        self._scheduler.lose(lease, reason)
        self._let_go(lease_number, number, job, durable=durable)

    def _let_go(self, lease_number: int, number: int, job: Job, *, durable: bool) -> None:
        """A job is off the worker's hands; the answer waits for the commit if it promises something."""
        del self._leases[lease_number]
        self._freed = True
        if number and durable:
            self.confirm_report(job, wire.encode(wire.OK, number, None))
        else:
            self._confirm(number)

    # --- notices

    def assigned(self, lease: Lease) -> None:
        job = lease.job
        self._leases[lease.number] = lease
        run_us = lease.run_until_us - lease.started_us if lease.run_until_us != NEVER else 0
        body = (lease.number, job.id, job.queue.name, job.work, job.key, job.attempts, run_us)
        if lease.worker.capacity is not None and (given := lease.worker.capacity.given(lease)):
            self.send(wire.encode(wire.ASSIGN, 0, (*body, given)))
            return
        self.send(wire.encode(wire.ASSIGN, 0, body))

    def revoked(self, lease: Lease) -> None:
        if self._leases.pop(lease.number, None) is not None:
            self._freed = True
            self.send(wire.encode(wire.REVOKE, 0, (lease.number,)))

    def drained(self, draining: bool) -> None:
        self.send(wire.encode(wire.DRAIN, 0, draining))

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

    def send(self, data: bytes) -> bool:
        if self.audits is not None:
            self.audits.hear(data)
        return super().send(data)

    def answer(self, number: int, body: Any) -> None:
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
