"""Queues with rules: limits for what runs and starts, and how tenants share a queue.

The rules come from the settings at each start of the hall, or are set at run time. Those are stored, and win
over the settings until they are cleared.

Invariant: a queue has a limiter exactly while it has rules, and exists as long. Rules that were set at run time
are on disk before a peer is told, and survive a restart. The limiter knows nothing of the time before it, apart
from what still runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.errors import HALL_FULL, Refusal
from hiringhall.core.limits import LIMITED_SHARE
from hiringhall.core.rules.limiter import Limiter
from hiringhall.core.rules.queue_rules import NO_RULES, check_rules
from hiringhall.core.states import NEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.rules.queue_rules import QueueRules
    from hiringhall.core.table import JobTable


class RuledQueues:
    """The verbs that give a queue rules."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.queues: dict[bytes, Queue] = {}
        """The queues with rules by name."""
        self.by_settings: dict[bytes, QueueRules] = {}
        """The rules of the settings by name of the queue, whether or not others win over them."""
        self.set_now: dict[bytes, QueueRules] = {}
        """The rules that were set at run time. Those that limit nothing lift the rules of the settings."""

    def rule(self, name: bytes, rules: QueueRules) -> None:
        """Give a queue the rules of the settings. What runs goes on, even if they allow less."""
        self._check(name, rules)
        self.by_settings.pop(name, None)
        if not rules.empty:
            self.by_settings[name] = rules
        if name not in self.set_now:
            self._apply(name, rules)

    def set(self, name: bytes, rules: QueueRules) -> None:
        """Give a queue other rules, in place of all that it has. They take effect at once: ready jobs are
        ordered anew, and what runs goes on, even if the new rules allow less. It looks at each ready job once.
        """
        table = self._table
        table.check_store()
        self._check(name, rules)
        table.queue(name)
        if rules.empty and name not in self.by_settings:
            self.clear(name)
            return
        most = max(table.limits.queues_max // LIMITED_SHARE, 1)
        if name not in self.set_now and len(self.set_now) >= most:
            raise Refusal(HALL_FULL, f"{most} queues have rules, as many as the hall allows (queues_max)")
        self.set_now[name] = rules
        table.ledger.note_rules(name, rules)
        self._apply(name, rules)

    def clear(self, name: bytes) -> None:
        """Go back to the rules of the settings, which may be none."""
        table = self._table
        table.check_store()
        if name not in self.set_now:
            return
        rules = self.by_settings.get(name, NO_RULES)
        if not rules.empty:
            # While its rules were lifted, the queue may have been dropped, and others may have rules instead.
            self._check(name, rules)
            table.queue(name)
        del self.set_now[name]
        table.ledger.note_rules(name, None)
        self._apply(name, rules)

    def restore(self, rules_by_queue: Mapping[bytes, QueueRules]) -> None:
        """The rules that were set before the hall closed, even if there are more than today's limits allow."""
        for name, rules in rules_by_queue.items():
            self.set_now[name] = rules
            if name not in self._table.queues:
                self._table.add_queue(name)
            self._apply(name, rules)

    def of(self, name: bytes) -> QueueRules:
        """The rules that hold for a queue."""
        queue = self.queues.get(name)
        return queue.limiter.rules if queue is not None and queue.limiter is not None else NO_RULES

    def _check(self, name: bytes, rules: QueueRules) -> None:
        check_rules(rules)
        most = max(self._table.limits.queues_max // LIMITED_SHARE, 1)
        if not rules.empty and name not in self.queues and len(self.queues) >= most:
            raise Refusal(HALL_FULL, f"{most} queues have rules, as many as the hall allows (queues_max)")

    def _apply(self, name: bytes, rules: QueueRules) -> None:
        table = self._table
        if rules == self.of(name):
            return
        queue = table.queues.get(name) or table.add_queue(name)
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
            if queue.limiter is not None:
                limiter.inherit(queue.limiter)
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
