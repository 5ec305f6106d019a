"""Queues with rules: limits for what runs and starts, and how tenants share a queue.

Invariant: a queue has a limiter exactly while it has rules, and exists as long. The rules come from the
settings at each start of the hall, so the limiter knows nothing of the time before, apart from what still runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import HALL_FULL, Refusal
from hiringhall.core.limiter import Limiter
from hiringhall.core.limits import LIMITED_SHARE
from hiringhall.core.queue_rules import check_rules
from hiringhall.core.states import NEW

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.queue_rules import QueueRules
    from hiringhall.core.queues import Queue
    from hiringhall.core.table import JobTable


class RuledQueues:
    """The verb that gives a queue rules."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.queues: dict[bytes, Queue] = {}
        """The queues with rules by name."""

    def rule(self, name: bytes, rules: QueueRules) -> None:
        """Set the rules of a queue, instead of those that it has. What runs goes on, even if the new rules
        allow less. It looks at each ready job of the queue once.
        """
        table = self._table
        check_rules(rules)
        most = max(table.limits.queues_max // LIMITED_SHARE, 1)
        if not rules.empty and name not in self.queues and len(self.queues) >= most:
            raise Refusal(HALL_FULL, f"{most} queues have rules, as many as the hall allows (queues_max)")
        if rules.empty and name not in self.queues:
            return
        self._set(table.queues.get(name) or table.add_queue(name), rules)

    def _set(self, queue: Queue, rules: QueueRules) -> None:
        table = self._table
        if table.announcer is not None:
            table.announcer.queue_paused(queue)
        if queue.limiter is not None:
            table.timers.disarm(queue.limiter)
        waiting = queue.take_out_all()
        if rules.empty:
            del self.queues[queue.name]
            queue.set_limiter(None)
        else:
            self.queues[queue.name] = queue
            limiter = Limiter(table, queue, rules)
            queue.set_limiter(limiter)
            for job in self._running(queue):
                limiter.moved(job, NEW)
        for job in waiting:
            queue.put(job, front=False)
        if queue.limiter is not None:
            queue.limiter.refresh()
        table.unsettle(queue)
        if table.announcer is not None and not queue.paused_us:
            table.announcer.queue_resumed(queue)

    def _running(self, queue: Queue) -> list[Job]:
        """The jobs of a queue that have a lease."""
        running: list[Job] = []
        for worker in self._table.workers:
            running += [lease.job for lease in worker.leases.values() if lease.job.queue is queue]
            if worker.promise is not None and worker.promise.job.queue is queue:
                running.append(worker.promise.job)
        return running
