"""Paused queues: no job of them starts, whatever dialect it or its worker speaks. Those that run go on.

Invariant: whether a queue is paused is on disk before a peer is told, and survives a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import HALL_FULL, Refusal
from hiringhall.core.limits import LIMITED_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.leasing import Leases
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable


class PausedQueues:
    """The verbs that pause and resume a queue."""

    def __init__(self, table: JobTable, leases: Leases) -> None:
        self._table = table
        self._leases = leases
        self.queues: dict[bytes, Queue] = {}
        """The paused queues by name."""

    def pause(self, name: bytes) -> None:
        """Start no more jobs of a queue. A hired worker that has not begun is dismissed."""
        table = self._table
        table.check_store()
        if name in self.queues:
            return
        most = max(table.limits.queues_max // LIMITED_SHARE, 1)
        if len(self.queues) >= most:
            raise Refusal(HALL_FULL, f"{most} queues are paused, as many as the hall allows (queues_max)")
        queue = table.queue(name)
        self._set(queue)
        table.ledger.note_paused(name, True)
        for worker in list(table.workers):
            if worker.promise is not None and worker.promise.job.queue is queue:
                self._leases.dismiss(worker.promise)
        if queue.reservation is not None:
            queue.reservation.end()
        if table.announcer is not None:
            table.announcer.queue_paused(queue)

    def resume(self, name: bytes) -> None:
        """Start jobs of a queue again."""
        table = self._table
        table.check_store()
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        queue.paused_us = 0
        queue.closed = False
        table.ledger.note_paused(name, False)
        if queue.ready:
            table.unsettle(queue)
        if queue.limiter is not None:
            queue.limiter.refresh()
        if table.announcer is not None:
            table.announcer.queue_resumed(queue)

    def restore(self, names: Iterable[bytes]) -> None:
        """Pause the queues that were paused when the hall closed, even if there are more than today's limits
        allow.
        """
        for name in names:
            self._set(self._table.queues.get(name) or self._table.add_queue(name))

    def _set(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        queue.paused_us = self._table.now_us
        queue.closed = True
