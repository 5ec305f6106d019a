"""Residents: workers that are known by queue and name, and not by a connection.

Invariant: a resident keeps its leases until it reports on them, whichever connection speaks for it and however
often the hall restarts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, Refusal
from hiringhall.core.peer import Peer
from hiringhall.core.table import SWEEP_PAUSE_US

if TYPE_CHECKING:
    from hiringhall.core.leasing import Leases
    from hiringhall.core.needs import Needs
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable
    from hiringhall.core.workers import Worker
    from hiringhall.core.workforce import Workforce

OUTSIDE: Final = b"outside the hall"
"""The resident that holds tasks which run outside the hall. No other worker may have this name."""


class Residents:
    """The verbs of workers without a connection."""

    def __init__(self, table: JobTable, workforce: Workforce, leases: Leases, needs: Needs) -> None:
        self._table = table
        self._workforce = workforce
        self._leases = leases
        self._needs = needs
        self._swept_us = 0

    def get(self, name: bytes, who: bytes, dialect: str = "") -> Worker:
        """The resident of a queue with this name, made on first use.

        It has no connection that could be lost. Its leases are stored and survive a restart.
        """
        if who == OUTSIDE:
            raise Refusal(BAD_REQUEST, f"the name {OUTSIDE.decode()!r} is reserved")
        if not who or len(who) > self._table.limits.key_bytes_max:
            text = f"a worker's name must have 1 to {self._table.limits.key_bytes_max} bytes (key_bytes_max)"
            raise Refusal(BAD_REQUEST, text)
        worker = self.ensure(name, who)
        if not worker.dialect:
            worker.dialect = dialect  # A peer of this dialect speaks for it.
        return worker

    def find(self, name: bytes, who: bytes) -> Worker | None:
        return self._table.residents.get((name, who)) if who != OUTSIDE else None

    def ensure(self, name: bytes, who: bytes) -> Worker:
        """The resident of this name, made on first use. Drops idle ones if there are too many."""
        worker = self._table.residents.get((name, who))
        if worker is None:
            if len(self._table.residents) >= self._table.limits.residents_max:
                self._sweep()
            worker = self.add(self._table.queue(name), who)
        return worker

    def retire(self, worker: Worker) -> None:
        """The worker leaves: its jobs go back to the front of their lanes, without a loss."""
        if worker not in self._table.workers:
            return
        for lease in reversed(list(worker.leases.values())):
            self._leases.release(lease)
        self._workforce.drop(worker)

    def add(self, queue: Queue, who: bytes) -> Worker:
        """Make a resident."""
        worker = self._workforce.worker(Peer())
        self._needs.introduce(worker, who)
        worker.resident = queue
        worker.abilities[queue] = 0
        queue.workers[worker] = None
        self._table.residents[queue.name, who] = worker
        return worker

    def _sweep(self) -> None:
        """Drop the residents without a lease; they are made again when they ask for work."""
        if self._table.now_us - self._swept_us >= SWEEP_PAUSE_US:
            self._swept_us = self._table.now_us
            for worker in list(self._table.residents.values()):
                if not worker.leases and worker.promise is None:
                    self._workforce.drop(worker)
        if len(self._table.residents) >= self._table.limits.residents_max:
            text = f"the hall has {self._table.limits.residents_max} workers known by name (residents_max)"
            raise Refusal(HALL_FULL, text)
