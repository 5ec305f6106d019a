"""Bugs for the laws to find where workers drain, and where dead letters of the history are retried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiringhall.core.draining import Draining
from hiringhall.core.needs import Needs
from hiringhall.core.restoring import recorded_job
from hiringhall.core.retrying import Retries
from hiringhall.core.workers import Worker

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job


def _drain_in_name(self: Worker) -> None:
    """Its time is as it was."""
    self.draining = True


def _drain_woken(self: Draining, worker: Worker) -> None:
    """The job that was reserved for it stays so."""
    if not worker.draining:
        if worker.promise is not None:
            self._leases.dismiss(worker.promise)
        worker.drain()
        worker.peer.drained(True)


def _drain_at_once(self: Draining, worker: Worker) -> None:
    """What the worker has is taken from it."""
    if not worker.draining:
        for lease in list(worker.leases.values()):
            self._leases.give_back(lease, 0)
        worker.drain()
        worker.peer.drained(True)


def _undrain_unseen(self: Needs, worker: Worker) -> None:
    """Nobody looks whether there is a job for it."""
    del self
    worker.undrain()


def _retry_nothing(self: Retries, end: Any) -> Job:
    """The dead letter stays one."""
    table = self._table
    return table.find(end.id) or recorded_job(table, end)


def _retry_as_known(self: Retries, end: Any) -> Job:
    """What memory knows of it does not count."""
    table = self._table
    job = recorded_job(table, end)
    self._requeue(job)
    return job


BUGS: Final[dict[str, tuple[Any, str, Any]]] = {
    "drained worker has time": (Worker, "drain", _drain_in_name),
    "drained worker keeps its wake-up": (Draining, "drain", _drain_woken),
    "drained worker loses its jobs": (Draining, "drain", _drain_at_once),
    "undrained worker is not looked at": (Needs, "undrained", _undrain_unseen),
    "retry from the history does nothing": (Retries, "retry_recorded", _retry_nothing),
    "retry from the history makes a second job": (Retries, "retry_recorded", _retry_as_known),
}
