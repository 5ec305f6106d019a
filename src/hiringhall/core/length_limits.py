"""Length limits: how many live jobs a queue may have before a submit is refused. Also drops queues by name.

Invariant: a queue that exists only because of its length limit can be dropped, and at most a tenth of all
queues are of that kind; beyond that the oldest limits are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.archive import SPARE_SHIFT
from hiringhall.core.errors import WRONG_STATE, Refusal
from hiringhall.core.limits import LIMITED_SHARE

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable


class LengthLimits:
    """The verbs that limit the length of a queue, and drop a queue."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._limited: dict[Queue, None] = {}
        """Queues with a length limit, the latest limit at the end."""

    def limit(self, name: bytes, maxima: list[int]) -> None:
        """Refuse submits to a queue that has this many live jobs, by priority."""
        queue = self._table.queue(name)
        queue.maxima = maxima
        self._limited.pop(queue, None)
        if not queue.limited:
            return
        self._limited[queue] = None
        kept = max(self._table.limits.queues_max // LIMITED_SHARE, 1)
        if len(self._limited) > kept:
            self._forget(len(self._limited) - kept + (kept >> SPARE_SHIFT))

    def drop(self, queue: Queue) -> None:
        """Remove a queue that has neither jobs nor workers, and its limit."""
        if queue.live or queue.workers:
            raise Refusal(WRONG_STATE, "the queue still has jobs or workers")
        if queue.paused_us:
            raise Refusal(WRONG_STATE, "the queue is paused; resume it first")
        if queue.limiter is not None:
            raise Refusal(WRONG_STATE, "the queue has rules; remove them first")
        self._table.remove_queue(queue)
        self._limited.pop(queue, None)

    def _forget(self, count: int) -> None:
        """Drop the oldest queues that have a limit but neither jobs nor workers."""
        unused = [
            queue
            for queue in self._limited
            if not (queue.live or queue.workers or queue.paused_us) and queue.limiter is None
        ]
        for queue in unused[:count]:
            self.drop(queue)
