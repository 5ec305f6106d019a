"""What must hold for workers that drain: from the answer on they are given nothing, and others are woken in
their place.

Workers are known here by the numbers that the hall lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .world import Violation

if TYPE_CHECKING:
    from hiringhall.core.leases import Lease

    from .laws import Laws
    from .taps import Tap


class Drains:
    """Who drains, as far as was told."""

    def __init__(self) -> None:
        self._since_us: dict[int, int] = {}
        """Workers that drain for certain, with the time of the answer that told so."""
        self._perhaps: dict[int, None] = {}
        """Workers that somebody asked to drain, and that were not told to get jobs again."""
        self.dismissals_now: dict[int, None] = {}
        """Jobs whose hired workers were asked to drain in this turn. They may have been hired as it began, and
        are told of both at its end."""

    def turn_began(self) -> None:
        self.dismissals_now = {}

    def forget(self) -> None:
        """The hall has crashed, and its workers have other numbers when it opens again."""
        self._since_us = {}
        self._perhaps = {}

    def asked(self, laws: Laws, number: int, *, drain: bool) -> None:
        """Somebody asks that a worker drains, or gets jobs again. If it is hired, it may have to leave."""
        if not drain:
            self._since_us.pop(number, None)
            return
        self._perhaps[number] = None
        worker = laws.scheduler.find_worker(number)
        if worker is not None and worker.promise is not None:
            self.dismissals_now[worker.promise.job.id] = None
            laws.in_doubt(worker.promise.job.id)

    def answered(self, number: int, now_us: int, *, drain: bool) -> None:
        if drain and number in self._perhaps:
            self._since_us.setdefault(number, now_us)
        elif not drain:
            self._perhaps.pop(number, None)

    def started(self, lease: Lease) -> None:
        """A worker is given a job, or is hired for it."""
        since_us = self._since_us.get(lease.worker.number, 0)
        if 0 < since_us < lease.started_us:
            number = lease.worker.number
            raise Violation("draining", f"job {lease.job.id} is given to worker {number}, which drains")

    def surely(self, tap: Tap) -> bool:
        """Its worker drains: it need not be woken, and nobody relies on it."""
        worker = tap.session.worker
        return worker is not None and worker.number in self._since_us

    def perhaps(self, tap: Tap) -> bool:
        worker = tap.session.worker
        return worker is not None and worker.number in self._perhaps
