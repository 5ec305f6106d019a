"""Bugs for the laws to find in Gearman's draft, in what is looked up, and in what the core does for it."""

from __future__ import annotations

from typing import Any, Final

from hiringhall.core.states import DONE, QUEUED
from hiringhall.core.table import JobTable
from hiringhall.dialects.gearman_draft import replies, wire
from hiringhall.dialects.gearman_draft.context import DraftContext
from hiringhall.dialects.gearman_draft.session import DraftSession
from hiringhall.engine.turn import Engine


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


# --- what is asked for later


def _conclude_at_once(self: DraftSession, job: Any) -> None:
    before = replies.end(job.state, job.code, job.created_us, job.ended_us)
    self.send(wire.pack(wire.JOB_COMPLETE_RES, before + job.result))


def _receive_past_a_look_up(self: DraftSession, data: bytes) -> None:
    self._lookup_id, asked = 0, self._lookup_id
    _RECEIVE(self, data)
    self._lookup_id = self._lookup_id or asked


def _answer_from_memory(self: DraftSession, packet_type: int, job_id: int) -> None:
    job = self._scheduler.find(job_id)
    if job is None:
        self._send_unknown_handle()
    elif packet_type == wire.JOB_STATUS_REQ:
        self.send(replies.status(job, self._scheduler.now_us))
    else:
        self._conclude(job)


def _end_in_no_time(state: int, code: int, created_us: int, ended_us: int) -> bytes:
    return wire.complete_before((ended_us - created_us) // 1_000_000, 0 if state == DONE else max(code, 1))


# --- jobs, workers and tasks


def _terms_of_sync_jobs(self: DraftContext, job_type: int, flags: int) -> Any:
    terms = _TERMS(self, job_type, flags)
    if job_type == wire.ASYNC_THROW_AWAY:
        sync = _TERMS(self, wire.SYNC_WAIT, flags)
        sync.detached = True
        return sync
    return terms


def _disconnect_with_its_task(self: DraftSession, body: bytes) -> None:
    if self.worker is not None:
        self._scheduler.cant_do_any(self.worker)


def _assign_more(self: DraftSession, body: bytes) -> None:
    worker = self._as_worker()
    leases = dict(worker.leases)
    worker.leases.clear()
    try:
        _ASSIGN(self, body)
    finally:
        worker.leases.update(leases)


def _note_task_at_once(self: DraftSession, body: bytes) -> None:
    _TASK_ENDED(self, body)
    self.pledges = None


def _wait_for_two(self: DraftSession, body: bytes) -> None:
    self._sync_job = None
    _CREATE(self, body)


# --- the core


def _ready_for_ever(self: JobTable, job: Any, state: int, **how: Any) -> None:
    _MOVE(self, job, state, **how)
    if state == QUEUED:
        self.timers.disarm(job)


def _ready_for_a_moment(self: JobTable, job: Any, state: int, **how: Any) -> None:
    _MOVE(self, job, state, **how)
    if state == QUEUED and job.terms.expire_us:
        self.timers.arm(job, self.now_us + job.terms.expire_us // 4)


_RECEIVE = DraftSession.receive
_TERMS = DraftContext.terms
_ASSIGN = DraftSession._assign
_TASK_ENDED = DraftSession._task_ended
_CREATE = DraftSession._create
_MOVE = JobTable.move

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "result told before commit": (DraftSession, "_conclude", _conclude_at_once),
    "answers overtake a look-up": (DraftSession, "receive", _receive_past_a_look_up),
    "look-up never answered": (DraftSession, "looked_up", _nothing),
    "history not asked": (DraftSession, "_look_up", _answer_from_memory),
    "quick job counts as incomplete": (replies, "end", _end_in_no_time),
    "throw-away job not stored": (DraftContext, "terms", _terms_of_sync_jobs),
    "worker_disconnect keeps the task": (DraftSession, "_disconnect", _disconnect_with_its_task),
    "two tasks for one worker": (DraftSession, "_assign", _assign_more),
    "end of a task noted before commit": (DraftSession, "_task_ended", _note_task_at_once),
    "two sync jobs for one client": (DraftSession, "_create", _wait_for_two),
    "ready job never expires": (JobTable, "move", _ready_for_ever),
    "ready job expires too soon": (JobTable, "move", _ready_for_a_moment),
    "earlier attempts forgotten": (JobTable, "remember_try", _nothing),
    "start not stored": (Engine, "_note_started", _nothing),
}
