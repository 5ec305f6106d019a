"""One connection of the Gearman protocol: a client, a worker, both at once, or a person at the text protocol.

Invariants: `receive` never raises, whatever arrives; everything before a bad packet counts; after a mistake
reading continues, unless the start of the next packet is unknown.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import TOO_LARGE, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.states import DONE, FAILED, FAILURE, LEASED
from hiringhall.core.timers import NEVER
from hiringhall.dialects.gearman import admin, replies, wire
from hiringhall.dialects.gearman.context import GearmanContext, GearmanOptions, ProcessInfo
from hiringhall.dialects.gearman.schedule import next_due_us
from hiringhall.dialects.packets import BAD_MAGIC, SEPARATE_BYTES_MIN, conclude_with_packet, send_packet
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.terms import Terms
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Caller

__all__ = ["GearmanContext", "GearmanOptions", "GearmanSession", "ProcessInfo"]

CLIENT_ID_BYTES_MAX: Final = 128
DATA_KEY_PREFIX: Final = b"\0data:"
"""Starts the key of a job with the unique "-"; a digest follows. No unique of a client contains a NUL."""
UNIQUE_BYTES_MAX: Final = 512
"""Other dialects allow longer keys."""
SECONDS_DIGITS_MAX: Final = 10
OVERRUNS_MAX: Final = 1000
"""For each worker, the latest jobs whose late reports are ignored. A report on an older one is an error."""


class GearmanSession(Session):
    """One peer."""

    def __init__(self, caller: Caller, context: GearmanContext) -> None:
        super().__init__(caller)
        self.client_id = b""
        """Set by SET_CLIENT_ID."""
        self._context = context
        self._scheduler = context.scheduler
        self._reader = wire.Reader(wire.REQUEST, context.options.packet_bytes_max)
        self._lines: admin.LineReader | None = None
        """Set while a text command is incomplete."""
        self._exceptions = context.options.exceptions_by_default
        """Whether the peer is sent WORK_EXCEPTION."""
        self._leased: Lease | None = None
        """The latest lease, and its handle: most reports are about it."""
        self._leased_handle = b""
        self._exception_job = 0
        """The job of the latest WORK_EXCEPTION: some workers send a WORK_FAIL after it."""
        self._overruns: dict[int, None] = {}
        """The latest jobs that this worker did not finish within its CAN_DO_TIMEOUT."""
        context.sessions[self] = None

    @property
    def dialect(self) -> str:
        return "gearman"

    def disconnected(self) -> None:
        self._context.sessions.pop(self, None)

    # --- receiving

    def receive(self, data: bytes) -> None:
        worker = self.worker
        if worker is not None:
            self._scheduler.beat(worker)
        reader = self._reader
        reader.at = 0
        if self._lines is not None:
            reader.at = self._receive_text(data, 0)
        while not self.closing:
            body = reader.next(data)
            if body is not None:
                self._process(reader.type, body)
                continue
            error = reader.error
            if error is None:
                self.input_bytes = reader.kept_bytes
                return
            at = reader.error_at
            if at < 0 or data[at] == 0:
                code = replies.INVALID_MAGIC if error.code == BAD_MAGIC else replies.ARGUMENT_TOO_LARGE
                self.report(BAD_INPUT, error.text)
                self.send(replies.error(code, error.text))
                self.finish()
                return
            reader.resume()
            reader.at = self._receive_text(data, at)

    def _receive_text(self, data: bytes, at: int) -> int:
        """Process text commands. Returns where in `data` the next packet starts."""
        lines = self._lines or admin.LineReader()
        end = len(data)
        while at < end and not self.closing and (lines.partial or data[at] != 0):
            at = lines.feed(data, at)
            line = lines.take()
            if line is not None:
                admin.answer(self, self._context, line)
            elif lines.overlong:
                self.report(BAD_INPUT, f"a text command is longer than {admin.LINE_BYTES_MAX} bytes")
                self.send(admin.OVERLONG)
                self.finish()
        self._lines = lines if lines.partial else None
        return at

    def _process(self, packet_type: int, body: bytes) -> None:
        """The most frequent types come first."""
        if packet_type == wire.SUBMIT_JOB:
            self._submit(packet_type, body, self)
        elif packet_type == wire.WORK_COMPLETE:
            self._report(packet_type, body)
        elif packet_type == wire.GRAB_JOB:
            self._grab(packet_type)
        elif packet_type == wire.PRE_SLEEP:
            self._scheduler.sleep(self._as_worker())
        elif packet_type in (wire.SUBMIT_JOB_BG, wire.SUBMIT_JOB_HIGH_BG, wire.SUBMIT_JOB_LOW_BG):
            self._submit(packet_type, body, None)
        elif packet_type in (wire.SUBMIT_JOB_HIGH, wire.SUBMIT_JOB_LOW):
            self._submit(packet_type, body, self)
        elif packet_type in (wire.GRAB_JOB_UNIQ, wire.GRAB_JOB_ALL):
            self._grab(packet_type)
        elif packet_type in (wire.WORK_DATA, wire.WORK_WARNING, wire.WORK_EXCEPTION):
            self._report(packet_type, body)
        elif packet_type == wire.WORK_FAIL:
            self._report_failure(body)
        elif packet_type == wire.WORK_STATUS:
            self._report_progress(body)
        elif packet_type in (wire.CAN_DO, wire.CAN_DO_TIMEOUT, wire.CANT_DO, wire.RESET_ABILITIES):
            self._change_abilities(packet_type, body)
        elif packet_type == wire.GET_STATUS:
            self._send_status(body)
        elif packet_type == wire.GET_STATUS_UNIQUE:
            self._send_status_unique(body)
        elif packet_type == wire.SUBMIT_JOB_EPOCH:
            self._submit_at(body)
        elif packet_type == wire.SUBMIT_JOB_SCHED:
            self._submit_scheduled(body)
        elif packet_type in (wire.SUBMIT_REDUCE_JOB, wire.SUBMIT_REDUCE_JOB_BACKGROUND):
            self._submit_reduce(packet_type, body)
        elif packet_type == wire.ECHO_REQ:
            self.send(wire.pack_response(wire.ECHO_RES, body))
        elif packet_type == wire.OPTION_REQ:
            self._set_option(body)
        elif packet_type == wire.SET_CLIENT_ID:
            self._set_client_id(body)
        elif packet_type != wire.ALL_YOURS:
            self.report(BAD_INPUT, f"a peer cannot send packet type {packet_type}")
            self.send(replies.unexpected(packet_type))

    # --- from a client

    def _submit(self, packet_type: int, body: bytes, watcher: Session | None) -> None:
        # reverse 00 some-unique 00 payload
        args = wire.split(body, 3)
        if args is None:
            self.send(replies.missing_arguments(packet_type))
            return
        queue, key, payload = args
        if key == b"-":
            key = data_key(payload)
        self._submit_spec(JobSpec(queue, payload, key, self._context.terms[packet_type]), watcher)

    def _submit_spec(self, spec: JobSpec, watcher: Session | None) -> None:
        try:
            if len(spec.key) > UNIQUE_BYTES_MAX:
                raise Refusal(TOO_LARGE, f"a unique may have {UNIQUE_BYTES_MAX} bytes")
            job = self._scheduler.submit(spec, watcher)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, spec.queue, shown_unique(spec.key))
            self.send(replies.refused(refusal))
            return
        created = replies.created(self._context.handle(job.id))
        if watcher is None:
            self.acknowledge(job, created)
        else:
            self.send(created)

    def _submit_at(self, body: bytes) -> None:
        # reverse 00 some-unique 00 1767225600 00 payload
        args = wire.split(body, 4)
        if args is None:
            self.send(replies.missing_arguments(wire.SUBMIT_JOB_EPOCH))
            return
        seconds = args[2]
        if not seconds.isdigit() or len(seconds) > SECONDS_DIGITS_MAX:
            text = f"the epoch must be a number of seconds since 1970, with at most {SECONDS_DIGITS_MAX} digits"
            self.send(replies.error(replies.INVALID_ARGUMENT, text))
            return
        terms = self._context.terms[wire.SUBMIT_JOB_EPOCH]
        self._submit_special(args[0], args[1], args[3], terms, due_us=int(seconds) * 1_000_000)

    def _submit_scheduled(self, body: bytes) -> None:
        # reverse 00 some-unique 00 30 00 * 00 * 00 * 00 0 00 payload: the next Monday, 30 minutes past any hour
        args = wire.split(body, 8)
        if args is None:
            self.send(replies.missing_arguments(wire.SUBMIT_JOB_SCHED))
            return
        try:
            due_us = next_due_us(args[2:7], self._scheduler.now_us, self._context.zone)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, args[0], args[1])
            self.send(replies.refused(refusal))
            return
        terms = self._context.terms[wire.SUBMIT_JOB_SCHED]
        self._submit_special(args[0], args[1], args[7], terms, due_us=due_us)

    def _submit_reduce(self, packet_type: int, body: bytes) -> None:
        # map 00 some-unique 00 reduce 00 payload; libgearman sends one more empty argument before the payload
        args = wire.split(body, 4)
        if args is None:
            self.send(replies.missing_arguments(packet_type))
            return
        args[3] = args[3].removeprefix(b"\0")
        extras = {"reducer": args[2]} if args[2] else None
        watcher = self if packet_type == wire.SUBMIT_REDUCE_JOB else None
        terms = self._context.terms[packet_type]
        self._submit_special(args[0], args[1], args[3], terms, watcher=watcher, extras=extras)

    def _submit_special(
        self,
        queue: bytes,
        unique: bytes,
        payload: bytes,
        terms: Terms,
        *,
        watcher: Session | None = None,
        due_us: int = 0,
        extras: dict[str, bytes] | None = None,
    ) -> None:
        """Submit what only some clients ask for: a job with a due time, or with a reducer."""
        key = data_key(payload) if unique == b"-" else unique
        self._submit_spec(JobSpec(queue, payload, key, terms, due_us, (), extras), watcher)

    def _send_status(self, body: bytes) -> None:
        handle = body.partition(b"\0")[0]
        job = self._scheduler.jobs.get(self._context.job_id(handle))
        self.send(wire.pack_response(wire.STATUS_RES, handle, *_status(job)))

    def _send_status_unique(self, body: bytes) -> None:
        unique = body.partition(b"\0")[0]
        job = self._scheduler.find_key_anywhere(unique)
        waiting = len(job.watchers) if job is not None and job.watchers is not None else 0
        self.send(wire.pack_response(wire.STATUS_RES_UNIQUE, unique, *_status(job), b"%d" % waiting))

    def _set_option(self, body: bytes) -> None:
        if body.rstrip(b"\0").lower() == b"exceptions":
            self._exceptions = True
            self.send(wire.pack_response(wire.OPTION_RES, body))
        else:
            self.send(replies.error(replies.UNKNOWN_OPTION, "the only option is: exceptions"))

    # --- from a worker

    def _as_worker(self) -> Worker:
        worker = self.worker
        if worker is None:
            worker = self._scheduler.worker(self)
            self._scheduler.introduce(worker, self.client_id)
            options = self._context.options
            if options.round_robin:
                self._scheduler.take_turns(worker)
            if options.overruns_requeued:
                self._scheduler.requeue_overruns(worker)
        return worker

    def _set_client_id(self, body: bytes) -> None:
        client_id = body.partition(b"\0")[0]
        if len(client_id) > CLIENT_ID_BYTES_MAX:
            text = f"a client's id may have {CLIENT_ID_BYTES_MAX} bytes"
            self.send(replies.error(replies.ARGUMENT_TOO_LARGE, text))
            return
        self.client_id = client_id
        if self.worker is not None:
            self._scheduler.introduce(self.worker, client_id)

    def _change_abilities(self, packet_type: int, body: bytes) -> None:
        worker = self._as_worker()
        if packet_type == wire.RESET_ABILITIES:
            self._scheduler.cant_do_any(worker)
            return
        function = body
        run_us = 0
        if packet_type == wire.CAN_DO_TIMEOUT:
            args = wire.split(body, 2)
            if args is None:
                self.send(replies.missing_arguments(packet_type))
                return
            function = args[0]
            if not args[1].isdigit() or len(args[1]) > SECONDS_DIGITS_MAX:
                text = "the timeout of a function must be a whole number; 0 is no timeout"
                self.send(replies.error(replies.INVALID_ARGUMENT, text))
                return
            options = self._context.options
            run_us = int(args[1]) * options.timeout_unit_us
            if run_us:
                run_us = max(run_us, options.timeout_min_us)
        if b"\0" in function:
            self.send(replies.error(replies.INVALID_ARGUMENT, "the name of a function must not contain a NUL"))
        elif packet_type == wire.CANT_DO:
            self._scheduler.cant_do(worker, function)
        else:
            try:
                self._scheduler.can_do(worker, function, run_us)
            except Refusal as refusal:
                self.send(replies.refused(refusal))

    def _grab(self, packet_type: int) -> None:
        lease = self._scheduler.take(self._as_worker())
        if lease is None:
            self.send(replies.NO_JOB)
            return
        job = lease.job
        if job.id == self._exception_job:
            self._exception_job = 0
        handle = self._context.handle(job.id)
        self._leased = lease
        self._leased_handle = handle
        if packet_type == wire.GRAB_JOB:
            work = job.work
            if len(work) < SEPARATE_BYTES_MIN:
                self.send(replies.assign(handle, job.queue.name, work))
            else:
                self._send_with(replies.ASSIGN_HEAD, b"%b\0%b\0" % (handle, job.queue.name), work)
            return
        before = b"\0".join((handle, job.queue.name, shown_unique(job.key), b""))
        reducer = job.extras.get("reducer", b"") if job.extras is not None else b""
        if packet_type == wire.GRAB_JOB_ALL and reducer:
            self._send_with(replies.ASSIGN_ALL_HEAD, before + reducer + b"\0", job.work)
        else:
            self._send_with(replies.ASSIGN_UNIQ_HEAD, before, job.work)

    def _report(self, packet_type: int, body: bytes) -> None:
        # H:hall:68719476737 00 data; without data, Perl's worker leaves out the NUL
        handle = self._leased_handle
        length = len(handle)
        if len(body) > length and body[length] == 0 and body.startswith(handle):
            data = body[length + 1 :]
        else:
            handle, _, data = body.partition(b"\0")
        try:
            lease = self._find_lease(handle)
            if packet_type == wire.WORK_COMPLETE:
                self._scheduler.finish(lease, data)
            elif packet_type == wire.WORK_EXCEPTION:
                self._exception_job = lease.job.id
                self._scheduler.fail(lease, FAILURE, data)
            else:
                self._scheduler.chunk(lease, data, packet_type == wire.WORK_WARNING)
        except Refusal as refusal:
            self._refuse_report(handle, refusal)

    def _report_failure(self, body: bytes) -> None:
        handle = body.partition(b"\0")[0]
        if self._exception_job and self._context.job_id(handle) == self._exception_job:
            self._exception_job = 0
            return
        try:
            self._scheduler.fail(self._find_lease(handle))
        except Refusal as refusal:
            self._refuse_report(handle, refusal)

    def _report_progress(self, body: bytes) -> None:
        # H:hall:68719476737 00 3 00 10
        args = wire.split(body, 3)
        if args is None:
            self.send(replies.missing_arguments(wire.WORK_STATUS))
            return
        try:
            lease = self._find_lease(args[0])
            self._scheduler.progress(lease, _leading_number(args[1]), _leading_number(args[2]))
        except Refusal as refusal:
            self._refuse_report(args[0], refusal)

    def _refuse_report(self, handle: bytes, refusal: Refusal) -> None:
        """Ignore a late report on a job that overran its timeout: an ERROR would end Perl's worker."""
        if self._context.job_id(handle) not in self._overruns:
            self.send(replies.refused(refusal))

    def _find_lease(self, handle: bytes) -> Lease:
        lease = self._leased
        if lease is not None and handle == self._leased_handle and lease.job.lease is lease:
            return lease
        return self._scheduler.find_lease(self._as_worker(), self._context.job_id(handle))

    # --- notices

    def revoked(self, lease: Lease) -> None:
        if NEVER < lease.run_until_us <= self._scheduler.now_us:
            self._overruns[lease.job.id] = None
            if len(self._overruns) > OVERRUNS_MAX:
                del self._overruns[next(iter(self._overruns))]

    def woken(self) -> None:
        self.send(replies.NOOP)

    def progressed(self, job: Job) -> None:
        numerator = b"%d" % job.numerator
        denominator = b"%d" % job.denominator
        self.send(wire.pack_response(wire.WORK_STATUS, self._context.handle(job.id), numerator, denominator))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        head = replies.WARNING_HEAD if warning else replies.DATA_HEAD
        self._send_with(head, self._context.handle(job.id) + b"\0", data)

    def ended(self, job: Job) -> None:
        handle = self._context.handle(job.id)
        if job.state == DONE:
            if len(job.result) < SEPARATE_BYTES_MIN:
                self.conclude(job, replies.complete(handle, job.result))
                return
            head = replies.COMPLETE_HEAD
        elif job.state == FAILED and self._exceptions and job.result:
            head = replies.EXCEPTION_HEAD
        else:
            self.conclude(job, wire.pack_response(wire.WORK_FAIL, handle))
            return
        conclude_with_packet(self, job, replies.opening(head, handle + b"\0", len(job.result)))

    def job_handle(self, job: Job) -> bytes:
        return self._context.handle(job.id)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return replies.refused(refusal)

    def _send_with(self, head: bytes, before: bytes, data: bytes) -> None:
        send_packet(self, replies.opening(head, before, len(data)), data)


def data_key(payload: bytes) -> bytes:
    """The key of a job with the unique "-": a digest of its data; without data it has no key."""
    return DATA_KEY_PREFIX + blake2b(payload, digest_size=16).digest() if payload else b""


def shown_unique(key: bytes) -> bytes:
    """A key as a unique of this protocol: "-" if it contains a NUL."""
    return b"-" if b"\0" in key else key


def _status(job: Job | None) -> tuple[bytes, bytes, bytes, bytes]:
    """Known, running, numerator, denominator."""
    if job is None:
        return b"0", b"0", b"0", b"0"
    running = b"1" if job.state == LEASED else b"0"
    return b"1", running, b"%d" % job.numerator, b"%d" % job.denominator


def _leading_number(text: bytes) -> int:
    """As the C library reads a number: the digits at the start, limited to 32 bits; 0 without digits."""
    digits = 0
    for character in text[:10]:
        if not 48 <= character <= 57:
            break
        digits += 1
    return min(int(text[:digits]), 0xFFFFFFFF) if digits else 0
