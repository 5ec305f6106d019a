"""Draining workers: they finish what they have, and get no more jobs, whatever dialect they speak.

Invariant: a worker that drains has no time left, and so gets a job in no way in which workers get jobs: by
asking, by offered slots, by a wake-up, or by being hired. A worker that reconnects is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiringhall.core.leasing import Leases
    from hiringhall.core.needs import Needs
    from hiringhall.core.resources.resourcing import Resources
    from hiringhall.core.table import JobTable
    from hiringhall.core.waking import Wakeups
    from hiringhall.core.workers import Worker


class Draining:
    """The verbs of operators that drain a worker."""

    def __init__(
        self, table: JobTable, wakeups: Wakeups, leases: Leases, needs: Needs, resources: Resources
    ) -> None:
        self._table = table
        self._resources = resources
        self._wakeups = wakeups
        self._leases = leases
        self._needs = needs

    def drain(self, worker: Worker) -> None:
        """Give the worker no more jobs. A job that it was hired for and has not begun goes to another."""
        if worker.draining:
            return
        if worker.waking is not None:
            self._wakeups.answer(worker)  # others are woken for the job that was reserved for it
        if worker.promise is not None:
            self._leases.dismiss(worker.promise)
        worker.drain()
        self._resources.unreserve(worker)
        worker.peer.drained(True)

    def undrain(self, worker: Worker) -> None:
        """Give the worker jobs again."""
        if not worker.draining:
            return
        self._needs.undrained(worker)
        if self._table.announcer is not None and worker.bids:
            self._table.announcer.worker_free(worker)
        worker.peer.drained(False)
