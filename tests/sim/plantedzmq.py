"""Bugs for the laws to find in the ZeroMQ dialects, in what is kept for them, and in a peer's state machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core import ids, ledger, restoring
from hiringhall.core.depending import Dependencies
from hiringhall.core.matching import Matching
from hiringhall.core.residents import Residents
from hiringhall.core.states import QUEUED
from hiringhall.core.submitting import Submissions
from hiringhall.core.workforce import Workforce
from hiringhall.dialects.dwork import wire as dwork_wire
from hiringhall.dialects.dwork.context import DworkContext
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.pingpong import wire as pingpong_wire
from hiringhall.dialects.pingpong.session import WorkerSession
from hiringhall.dialects.wmp.context import WmpContext
from hiringhall.dialects.wmp.session import WmpSession
from hiringhall.peers.wmp.worker_state import WorkerState

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing where something must be done."""


# --- dwork


def _nobody(job: Any) -> bytes:
    return b""


def _restore_nobodys(scheduler: Scheduler, job: Any, holder: bytes) -> None:
    scheduler.table.move(job, QUEUED)


def _confirm_at_once(self: DworkSession, jobs: list[Any]) -> None:
    self.send(dwork_wire.encode(dwork_wire.OK))


def _lease_of_any_location(self: DworkSession, worker: Any, name: bytes, *, anybody: bool = False) -> Any:
    job = self.context.find(name)
    return job.lease if job is not None else None


def _transfer_one_by_one(self: DworkSession, query: Any) -> None:
    worker = self._known_location(query)
    for task in query.tasks:
        lease = self._lease(worker, task.name)
        if lease is None:
            self.send(dwork_wire.encode(dwork_wire.NOT_FOUND))
            return
        self.context.transfer([task], [lease])
    self.send(dwork_wire.encode(dwork_wire.OK))


def _retire_but_for_one(self: Residents, worker: Any) -> None:
    for lease in list(worker.leases.values())[1:]:
        self._leases.release(lease)


def _join_another_doors(self: DworkContext, tasks: Any) -> Any:
    """A submit that only joins has no payload."""
    scheduler: Any = self.scheduler
    submit = scheduler.submit
    scheduler.submit = lambda spec, watcher: submit(spec, watcher) if spec.payload else None
    try:
        return _CREATE(self, tasks)
    finally:
        del scheduler.submit


# --- PING/PONG


def _receive_ping_as_credit(self: WorkerSession, data: bytes) -> None:
    _RECEIVE(self, data)
    if data == pingpong_wire.PING and self.worker is not None:
        self._offer_slot(self.worker)


def _receive_ready_as_ping(self: WorkerSession, data: bytes) -> None:
    worker = self.worker
    if data == pingpong_wire.READY and worker is not None and worker.leases:
        self._scheduler.beat(worker)
    else:
        _RECEIVE(self, data)


def _receive_ready_as_given_back(self: WorkerSession, data: bytes) -> None:
    worker = self.worker
    if data == pingpong_wire.READY and worker is not None:
        for lease in list(worker.leases.values()):
            self._scheduler.release(lease)
    _RECEIVE(self, data)


def _offer_slot_for_ever(self: WorkerSession, worker: Any) -> None:
    _OFFER_SLOT(self, worker)
    self._scheduler.expect(worker, 0)


# --- WMP


def _wake_the_herd(self: Matching, queue: Any) -> None:
    _MATCH(self, queue)
    while queue.ready and queue.sleepers:
        worker, _ = queue.sleepers.popitem()
        self._wakeups.wake(worker, queue)


def _on_ready_again(self: WmpSession, message: Any) -> None:
    if self.worker is not None and self.worker.waking is not None:
        self._scheduler.sleep(self.worker)
    _ON_READY(self, message)


def _lease_of_any_attempt(self: WmpContext, name: bytes) -> Any:
    job = self.scheduler.jobs.get(ids.parse(name.partition(b"-")[0]))
    return job.lease if job is not None else None


def _give_for_ever(self: WmpContext, path: Any, ready: Any, queues: list[Any]) -> Any:
    lease = _GIVE(self, path, ready, queues)
    if lease is not None:
        self.scheduler.expect(lease.worker, 0)
    return lease


def _tick_locked(self: WorkerState, now_us: int) -> list[Any]:
    self._locks_due.due(now_us)
    return _TICK(self, now_us)


_CREATE = DworkContext.create
_RECEIVE = WorkerSession.receive
_OFFER_SLOT = WorkerSession._offer_slot
_MATCH = Matching.match
_ON_READY = WmpSession._on_ready
_GIVE = WmpContext.give
_TICK = WorkerState.tick

BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "assignment not stored": (ledger, "_holder", _nobody),
    "recovery forgets who has what": (restoring, "_restore_lease", _restore_nobodys),
    "Create confirmed before commit": (DworkSession, "_confirm", _confirm_at_once),
    "Create that joins makes nothing lasting": (DworkContext, "create", _join_another_doors),
    "Complete by another location": (DworkSession, "_lease", _lease_of_any_location),
    "Transfer that is NotFound changes something": (DworkSession, "_transfer", _transfer_one_by_one),
    "Exit keeps a task": (Residents, "retire", _retire_but_for_one),
    "task of an unreachable stealer stays assigned": (DworkSession, "undelivered", _nothing),
    "refused Create leaves tasks": (Submissions, "take_back", _nothing),
    "further parents ignored": (Dependencies, "carry_out", _nothing),
    "PING is a second credit": (WorkerSession, "receive", _receive_ping_as_credit),
    "READY gives nothing back": (WorkerSession, "receive", _receive_ready_as_ping),
    "READY is no loss": (WorkerSession, "receive", _receive_ready_as_given_back),
    "late result dropped": (WorkerSession, "_reclaim", _nothing),
    "silent worker stays ready": (WorkerSession, "_offer_slot", _offer_slot_for_ever),
    "owed answer forgotten": (WorkerSession, "revoked", _nothing),
    "whole herd woken": (Matching, "match", _wake_the_herd),
    "who declines is asked at once": (Workforce, "cool_down", _nothing),
    "READY remembered twice": (WmpSession, "_on_ready", _on_ready_again),
    "DONE of an earlier attempt": (WmpContext, "find_lease", _lease_of_any_attempt),
    "job given for ever": (WmpContext, "give", _give_for_ever),
    "slot stays locked": (WorkerState, "tick", _tick_locked),
}
