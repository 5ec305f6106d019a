"""One connection of the draft's protocol: an application, a worker, or both at once.

Invariants: `receive` never raises, whatever arrives; each request has one answer, in the order of the requests,
even if an answer has to be looked up; after a mistake reading continues, unless the start of the next packet is
unknown.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.errors import STALE_LEASE, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import DONE, FAILED, FAILURE, STATE_NAMES, SUCCESS
from hiringhall.dialects.collecting import NOT_WHOLE
from hiringhall.dialects.gearman_draft import replies, wire
from hiringhall.dialects.gearman_draft.context import DraftContext, DraftOptions
from hiringhall.dialects.packets import BAD_MAGIC, conclude_with_packet, send_packet
from hiringhall.dialects.session import BAD_INPUT, REFUSED_SUBMIT, Session

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Caller

__all__ = ["DraftContext", "DraftOptions", "DraftSession"]

HELD_BYTES_MORE: Final = 1 << 20
"""How much input may wait for a look-up, beyond the largest packet. The transport is asked to stop reading long
before."""


class DraftSession(Session):
    """One peer."""

    def __init__(self, caller: Caller, context: DraftContext) -> None:
        super().__init__(caller)
        self._context = context
        self._scheduler = context.scheduler
        self._reader = wire.Reader(context.options.packet_bytes_max)
        self._worker_name = caller.name.encode() or b"draft"
        """The name of this peer as a worker, for the history: the protocol has no names for workers."""
        self._task = 0
        """The latest job that was assigned to it."""
        self._sync_job: Job | None = None
        """The sync job that the peer waits for. There is only one, since sync jobs have no handles."""
        self._held: deque[tuple[int, bytes]] = deque()
        """Packets that wait for a look-up."""
        self._held_bytes = 0
        """The bytes that were received and not processed."""
        self._lookup_id = 0
        """The job that is looked up; 0: none."""
        self._lookup_type = 0
        """The type of the packet that asked for it."""
        self._paused = False
        """The transport was asked to stop reading."""
        self._finishing = False
        """Close once everything is answered: the peer sends nothing more."""

    @property
    def dialect(self) -> str:
        return "gearman_draft"

    # --- receiving

    def receive(self, data: bytes) -> None:
        worker = self.worker
        if worker is not None:
            self._scheduler.beat(worker)
        self._held_bytes += len(data)
        self._held.extend(self._reader.feed(data))
        if not self._lookup_id:
            self._process_held()
        elif self._held_bytes > self._context.options.packet_bytes_max + HELD_BYTES_MORE:
            self._held.clear()
            self._close_with_error(wire.FULL, "too much was sent before a request was answered")
            return
        self.input_bytes = self._held_bytes
        if self._lookup_id and self._held and self.link is not None:
            # Each time again: the engine resumes reading whenever a commit has returned.
            self._paused = True
            self.link.pause()

    def _process_held(self) -> None:
        """Process packets, up to a request whose answer has to be looked up."""
        held = self._held
        while held:
            if self.closing:
                held.clear()
                return
            packet_type, body = held.popleft()
            self._held_bytes -= wire.HEADER_BYTES + len(body)
            self._process(packet_type, body)
            if self._lookup_id:
                return
        error = self._reader.error
        if error is not None:
            code = wire.BAD_MAGIC if error.code == BAD_MAGIC else wire.PACKET_TOO_LARGE
            self._close_with_error(code, error.text)
        elif self._finishing:
            super().finish()
        elif self._paused and self.link is not None:
            self._paused = False
            self.link.resume()

    def _close_with_error(self, code: int, text: str) -> None:
        self.report(BAD_INPUT, text)
        self.send(wire.pack_error(code, text))
        super().finish()

    def finish(self) -> None:
        """Close once every request is answered and the answers are sent."""
        if self._lookup_id and not self.closing:
            self._finishing = True
        else:
            super().finish()

    def _process(self, packet_type: int, body: bytes) -> None:
        """The most frequent types come first."""
        if packet_type == wire.JOB_CREATE_REQ:
            self._create(body)
        elif packet_type == wire.JOB_ASSIGN_REQ:
            self._assign(body)
        elif packet_type == wire.JOB_COMPLETE_ANNOUNCE:
            self._report_end(body)
        elif packet_type in (wire.JOB_COMPLETE_REQ, wire.JOB_STATUS_REQ):
            self._send_state(packet_type, body)
        elif packet_type == wire.WORKER_SLEEP:
            self._sleep(body)
        elif packet_type == wire.JOB_STATUS_ANNOUNCE:
            self._report_progress(body)
        elif packet_type == wire.WORKER_CONNECT:
            self._connect(body)
        elif packet_type == wire.WORKER_DISCONNECT:
            self._disconnect(body)
        elif packet_type == wire.TASK_START:
            self._task_started(body)
        elif packet_type == wire.TASK_RESULT:
            self._task_ended(body)
        elif packet_type != wire.NOOP:
            self.send(replies.unexpected(packet_type))
        elif body:
            self.send(replies.bad_body(packet_type))

    # --- from an application

    def _create(self, body: bytes) -> None:
        # resize 00 u7 00 | flags 00 | type 01 | args
        parsed = wire.parse_job_create_req(body)
        if parsed is None:
            self.send(replies.bad_body(wire.JOB_CREATE_REQ))
            return
        name, key, flags, job_type, args = parsed
        if flags >= wire.PRIORITY_FLAGS:
            text = "flags must be the priority: 0 (normal), 1 (high) or 2 (low)"
            self.send(wire.pack_error(wire.BAD_REQUEST, text))
            return
        if job_type >= wire.JOB_TYPES:
            text = "the type must be 0 (sync+wait), 1 (async+handle) or 2 (async+throw-away)"
            self.send(wire.pack_error(wire.BAD_REQUEST, text))
            return
        if job_type == wire.SYNC_WAIT and self._sync_job is not None:
            text = "this connection already waits for a sync job; it can wait for one at a time"
            self.send(wire.pack_error(wire.BUSY, text))
            return
        spec = JobSpec(name, args, key, self._context.terms(job_type, flags))
        try:
            job = self._scheduler.submit(spec, self if job_type == wire.SYNC_WAIT else None)
        except Refusal as refusal:
            self.report(REFUSED_SUBMIT, refusal.text, name, key)
            self.send(replies.refused(refusal))
            return
        if job_type == wire.SYNC_WAIT:
            self._sync_job = job
            self.send(wire.pack_job_create_res())
        elif job_type == wire.ASYNC_HANDLE:
            self.acknowledge(job, wire.pack_job_create_res(self._context.handle(job.id)))
        else:
            self.acknowledge(job, wire.pack_job_create_res())

    def _send_state(self, packet_type: int, handle: bytes) -> None:
        """Send the progress or the end of a job, from memory or from the history."""
        job_id = self._context.job_id(handle)
        if not job_id or ids.epoch_of(job_id) > self._scheduler.epoch:
            self._send_unknown_handle()
            return
        unwritten = self._scheduler.unwritten(job_id)
        job = unwritten if unwritten is not None else self._scheduler.find(job_id)
        if job is None:
            self._look_up(packet_type, job_id)
        elif packet_type == wire.JOB_STATUS_REQ:
            self.send(replies.status(job, self._scheduler.now_us))
        elif unwritten is not None:
            self._conclude(job)
        elif not job.ended:
            self.send(replies.INCOMPLETE)
        elif job.logged:
            self._look_up(packet_type, job_id)
        else:
            text = f"the job is {STATE_NAMES[job.state]}; the result of a job that is not durable is not kept"
            self.send(wire.pack_error(wire.NOT_KEPT, text))

    def _look_up(self, packet_type: int, job_id: int) -> None:
        self._lookup_id = job_id
        self._lookup_type = packet_type
        self._context.look_up(self, job_id)

    def looked_up(self, job_id: int, line: EndRow | None, trouble: str) -> None:
        if job_id != self._lookup_id:
            return
        self._lookup_id = 0
        if trouble:
            self.send(wire.pack_error(wire.STORE_DOWN, trouble))
        elif line is None:
            job = self._scheduler.jobs.get(job_id)
            if job is None and self._scheduler.issued(job_id):
                text = "the job has ended; its result is not kept: it was not durable, or it left the history"
                self.send(wire.pack_error(wire.NOT_KEPT, text))
            elif job is None:
                self._send_unknown_handle()
            elif self._lookup_type == wire.JOB_STATUS_REQ:
                self.send(replies.status(job, self._scheduler.now_us))
            else:
                # It was a dead letter when it was asked for, and was retried since.
                self.send(replies.INCOMPLETE)
        elif self._lookup_type == wire.JOB_STATUS_REQ:
            self.send(replies.logged_status(line.state))
        else:
            before = replies.end(line.state, line.code, line.created_us, line.ended_us)
            self._send_with(wire.JOB_COMPLETE_RES, before, line.result)
        self._process_held()

    def _send_unknown_handle(self) -> None:
        text = "this handle is not valid: no job had it, or the job was not durable and the hall was restarted"
        self.send(wire.pack_error(wire.UNKNOWN_HANDLE, text))

    # --- from a worker

    def _as_worker(self) -> Worker:
        worker = self.worker
        if worker is None:
            worker = self._scheduler.worker(self)
            self._scheduler.introduce(worker, self._worker_name)
        return worker

    def _connect(self, body: bytes) -> None:
        # resize 00 thumbgen 00 mail
        names_max = self._scheduler.limits.abilities_max
        names = wire.parse_worker_connect(body, names_max)
        if names is None:
            text = f"worker_connect takes up to {names_max} names (abilities_max), separated by NUL, none empty"
            self.send(wire.pack_error(wire.BAD_BODY, text))
            return
        worker = self._as_worker()
        self._scheduler.cant_do_any(worker)
        try:
            for name in names:
                self._scheduler.can_do(worker, name)
        except Refusal as refusal:
            # All or nothing: a worker with only some of its names would not know that the others are missing.
            self._scheduler.cant_do_any(worker)
            self.send(replies.refused(refusal))

    def _disconnect(self, body: bytes) -> None:
        worker = self.worker
        if body:
            self.send(replies.bad_body(wire.WORKER_DISCONNECT))
        elif worker is not None:
            self._scheduler.residents.retire(worker)

    def _sleep(self, body: bytes) -> None:
        worker = self._as_worker()
        if body:
            self.send(replies.bad_body(wire.WORKER_SLEEP))
        elif worker.leases:
            self.send(wire.pack_error(wire.BUSY, "a worker with a task cannot sleep: report its end first"))
        else:
            self._scheduler.sleep(worker)

    def _assign(self, body: bytes) -> None:
        worker = self._as_worker()
        if body:
            self.send(replies.bad_body(wire.JOB_ASSIGN_REQ))
            return
        if worker.leases:
            self.send(wire.pack_error(wire.BUSY, "this worker already has a task: report its end first"))
            return
        lease = self._scheduler.take(worker)
        if lease is None:
            self.send(wire.NO_JOB_PACKET)
            return
        job = lease.job
        self._task = job.id
        self._send_with(wire.JOB_ASSIGN_RES, job.queue.name + b"\0", job.work)

    def _find_lease(self) -> Lease:
        worker = self.worker
        if worker is None:
            raise Refusal(STALE_LEASE, "this connection is not a worker")
        return self._scheduler.find_lease(worker, self._task)

    def _report_progress(self, body: bytes) -> None:
        # 00 00 00 01 | 00 00 00 64 | 00 00 00 3C: 1/100, a minute left
        parsed = wire.parse_job_status(body)
        if parsed is None:
            self.send(replies.bad_body(wire.JOB_STATUS_ANNOUNCE))
            return
        numerator, denominator, remaining_s = parsed
        try:
            self._scheduler.progress(self._find_lease(), numerator, denominator, remaining_s * SECOND_US)
        except Refusal as refusal:
            self.send(replies.refused(refusal))

    def _report_end(self, body: bytes) -> None:
        # 00 | result
        parsed = wire.parse_job_complete_announce(body)
        if parsed is None:
            self.send(replies.bad_body(wire.JOB_COMPLETE_ANNOUNCE))
            return
        code, data = parsed
        try:
            lease = self._find_lease()
            if code == SUCCESS:
                self._scheduler.finish(lease, data)
            else:
                self._scheduler.fail(lease, code, data)
        except Refusal as refusal:
            self.send(replies.refused(refusal))

    # --- tasks that run outside the hall

    def _task_started(self, body: bytes) -> None:
        # nightly 00 2026-01-01 00 | 8 bytes: microseconds since 1970
        parsed = wire.parse_task_start(body)
        if parsed is None:
            self.send(replies.bad_body(wire.TASK_START))
            return
        name, key, time_us = parsed
        try:
            job = self._start_task(name, key, time_us)
        except Refusal as refusal:
            self.send(replies.refused(refusal))
            return
        self.acknowledge(job, wire.pack_job_create_res(self._context.handle(job.id)))

    def _start_task(self, name: bytes, key: bytes, time_us: int) -> Job:
        spec = JobSpec(name, b"", key, self._context.reported)
        return self._scheduler.reports.start(spec, self._worker_name, time_us)

    def _task_ended(self, body: bytes) -> None:
        # nightly 00 2026-01-01 00 | 8 bytes: microseconds since 1970 | code 00 | result
        parsed = wire.parse_task_result(body)
        if parsed is None:
            self.send(replies.bad_body(wire.TASK_RESULT))
            return
        name, key, time_us, code, data = parsed
        try:
            job = self._scheduler.find_key(name, key) or self._start_task(name, key, time_us)
            self._scheduler.reports.end(job, time_us, code, data)
        except Refusal as refusal:
            self.send(replies.refused(refusal))
            return
        answer = wire.pack_job_create_res(self._context.handle(job.id))
        if job.stored:
            self.pledge(answer)
        else:
            self.acknowledge(job, answer)

    # --- notices

    def woken(self) -> None:
        self.send(wire.NOOP_PACKET)

    def progressed(self, job: Job) -> None:
        self.send(replies.status(job, self._scheduler.now_us))

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        if not warning:
            self._context.ahead.add(self, job, data)

    def ended(self, job: Job) -> None:
        self._sync_job = None
        whole = self._context.ahead.whole(self, job)
        if job.state != DONE or whole is job.result:
            self._conclude(job)
            return
        state, data = (FAILED, NOT_WHOLE.encode()) if whole is None else (DONE, whole)
        before = replies.end(state, FAILURE, job.created_us, job.ended_us)
        self.conclude(job, wire.opening(wire.JOB_COMPLETE_RES, before, len(data)) + data)

    def disconnected(self) -> None:
        self._context.ahead.drop(self)

    def job_handle(self, job: Job) -> bytes:
        return self._context.handle(job.id)

    def withdrawn(self, job: Job, said: bytes, refusal: Refusal) -> bytes:  # noqa: ARG002 (as contracted)
        return replies.refused(refusal)

    def _conclude(self, job: Job) -> None:
        before = replies.end(job.state, job.code, job.created_us, job.ended_us)
        conclude_with_packet(self, job, wire.opening(wire.JOB_COMPLETE_RES, before, len(job.result)))

    def _send_with(self, packet_type: int, before: bytes, data: bytes) -> None:
        send_packet(self, wire.opening(packet_type, before, len(data)), data)
