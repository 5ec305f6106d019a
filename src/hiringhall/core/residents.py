"""Workers that are known by queue and name, and not by a connection.

The law: what a resident holds is its own until it says otherwise, whoever speaks for it and however often the
hall is started again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, Refusal
from hiringhall.core.floor import SWEEP_PAUSE_US
from hiringhall.core.peer import Peer
from hiringhall.core.resting import Resting

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.workers import Worker

OUTSIDE: Final = b"outside the hall"
"""The resident that holds tasks of which the hall is only told. Nobody else is called that."""


class Residents(Resting):
    """The verbs of those who have no connection."""

    def resident(self, name: bytes, who: bytes) -> Worker:
        """The worker of one queue that is known by its name, whoever speaks for it; made on first use.

        It has no connection that could be lost. What it holds is stored, and is still its own after a restart.
        """
        if who == OUTSIDE:
            raise Refusal(BAD_REQUEST, "this name is that of those who are not in the hall")
        if not who or len(who) > self.limits.key_bytes_max:
            text = f"a worker's name has 1 to {self.limits.key_bytes_max} bytes (key_bytes_max)"
            raise Refusal(BAD_REQUEST, text)
        return self._reside(name, who)

    def _reside(self, name: bytes, who: bytes) -> Worker:
        worker = self.residents.get((name, who))
        if worker is None:
            if len(self.residents) >= self.limits.residents_max:
                self._sweep_residents()
            worker = self._settle_in(self.queue(name), who)
        return worker

    def find_resident(self, name: bytes, who: bytes) -> Worker | None:
        return self.residents.get((name, who)) if who != OUTSIDE else None

    def retire(self, worker: Worker) -> None:
        """The worker leaves in good order: what it holds is next again, without blame."""
        if worker not in self.workers:
            return
        for lease in reversed(list(worker.leases.values())):
            self.release(lease)
        self._drop_worker(worker)

    def _settle_in(self, queue: Queue, who: bytes) -> Worker:
        worker = self.worker(Peer())
        self.introduce(worker, who)
        worker.resident = queue
        worker.abilities[queue] = 0
        queue.workers[worker] = None
        self.residents[queue.name, who] = worker
        return worker

    def _sweep_residents(self) -> None:
        """Forget the residents that hold nothing; they will be known again when they ask for work."""
        if self.now_us - self._residents_swept_us >= SWEEP_PAUSE_US:
            self._residents_swept_us = self.now_us
            for worker in list(self.residents.values()):
                if not worker.leases and worker.promise is None:
                    self._drop_worker(worker)
        if len(self.residents) >= self.limits.residents_max:
            text = f"{self.limits.residents_max} workers are known by name (residents_max)"
            raise Refusal(HALL_FULL, text)
