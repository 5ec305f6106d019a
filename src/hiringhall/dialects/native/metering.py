"""The answer to `metrics`: what the hall has counted, as one map.

    ["ok", 7, {"queues": {"resize": {"ready": 3, ..., "run": [812000, [0, 4, 9, ...]]}}, "other": {...}, ...}]

Invariant: the map is made of counters in one pass, has a bounded number of queues, and is made at most once a
second. Summed over `queues` and `other`, no count ever falls while the hall is open.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from hiringhall.core.counters import Tally
from hiringhall.core.histograms import BOUNDS_US, BUCKETS
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.histograms import Histogram
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.bounds import Bounds

KEPT_US: Final = 1_000_000
"""All who ask share an answer for this long."""
COST_US: Final = 20
"""Or for so many microseconds for each queue and worker, so that answers take a small part of the time."""

_NO_TIMES: Final = (0, [0] * BUCKETS)


class Metrics:
    """The latest answer."""

    def __init__(
        self, scheduler: Scheduler, bounds: Bounds, measures: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        self._scheduler = scheduler
        self._bounds = bounds
        self._measures = measures
        """What the hall knows beside the scheduler: its process, its store, its doors. None: nothing."""
        self.made = 0
        """How many were computed."""
        self._body = Raw(b"")
        self._until_us = 0
        """The latest answer is used until then."""

    def body(self) -> Raw:
        """The map of this moment, or of a moment ago, encoded."""
        scheduler = self._scheduler
        now_us = scheduler.now_us
        if now_us >= self._until_us:
            cost_us = COST_US * (len(scheduler.queues) + len(scheduler.workers))
            self._until_us = now_us + max(KEPT_US, cost_us)
            self._body = wire.encode_body(self._make())
            self.made += 1
        return self._body

    def _make(self) -> dict[str, Any]:
        scheduler = self._scheduler
        made: dict[str, Any] = {
            "at_us": scheduler.now_us,
            "bounds_us": BOUNDS_US,
            "workers": _workers(scheduler),
            "counters": _counters(scheduler),
            "jobs": len(scheduler.jobs),
            "ended_jobs": len(scheduler.archive),
            "changes": len(scheduler.ledger),
            "store_trouble": scheduler.store_trouble,
            "closing": scheduler.closing,
            "paused_us": scheduler.table.paused_us,
        }
        made.update(self._queues())
        if self._measures is not None:
            made.update(self._measures())
        return made

    def _queues(self) -> dict[str, Any]:
        """The queues with the most jobs so far, and the sum of all others and of those that were dropped."""
        scheduler = self._scheduler
        queues = list(scheduler.queues.values())
        rest: list[Queue] = []
        if len(queues) > self._bounds.metrics_queues_max:
            listed = nlargest(self._bounds.metrics_queues_max, queues, key=_jobs_so_far)
            known = set(listed)
            rest = [queue for queue in queues if queue not in known]
            queues = listed
        sums = Tally()
        sums.include(scheduler.table.dropped)
        ready = parked = running = held = delayed = failed = 0
        for queue in rest:
            sums.include(queue)
            ready += queue.ready
            parked += queue.parked
            running += queue.leased
            held += queue.held
            delayed += queue.delayed
            failed += scheduler.archive.failed(queue.name)
        other: dict[str, Any] = {
            "queues": len(rest),
            "ready": ready,
            "parked": parked,
            "running": running,
            "held": held,
            "delayed": delayed,
            "failed": failed,
        }
        other.update(_totals(sums))
        return {"queues": {queue.name: _queue(scheduler, queue) for queue in queues}, "other": other}


def _jobs_so_far(queue: Queue) -> int:
    return queue.submitted + queue.live


def _queue(scheduler: Scheduler, queue: Queue) -> dict[str, Any]:
    described: dict[str, Any] = {
        "ready": queue.ready,
        "parked": queue.parked,
        "running": queue.leased,
        "held": queue.held,
        "delayed": queue.delayed,
        "failed": scheduler.archive.failed(queue.name),
        "workers": len(queue.workers),
        "paused": queue.paused_us > 0,
        "oldest_us": queue.oldest_us(),
    }
    described.update(_totals(queue))
    return described


def _totals(counted: Queue | Tally) -> dict[str, Any]:
    return {
        "submitted_total": counted.submitted,
        "done_total": counted.done,
        "failed_total": counted.failed,
        "cancelled_total": counted.cancelled,
        "retried_total": counted.retried,
        "lost_total": counted.lost,
        "wait": _times(counted.wait),
        "run": _times(counted.run),
    }


def _times(histogram: Histogram | None) -> tuple[int, list[int]]:
    """The sum, and the counts of the buckets."""
    return (histogram.sum_us, histogram.counts) if histogram is not None else _NO_TIMES


def _workers(scheduler: Scheduler) -> dict[str, list[int]]:
    """Workers with a job and without one, by dialect."""
    counts: dict[str, list[int]] = {}
    for worker in scheduler.workers:
        count = counts.setdefault(worker.dialect, [0, 0])
        count[0 if worker.leases else 1] += 1
    return counts


def _counters(scheduler: Scheduler) -> dict[str, int]:
    counters = scheduler.counters
    return {
        "submitted": counters.submitted,
        "joined": counters.joined,
        "taken": counters.taken,
        "done": counters.done,
        "failed": counters.failed,
        "cancelled": counters.cancelled,
        "retried": counters.retried,
        "lost": counters.lost,
        "expired": counters.expired,
        "released": counters.released,
        "withdrawn": counters.withdrawn,
        "stale": counters.stale,
        "woken": counters.woken,
        "announced": counters.announced,
        "hired": counters.hired,
        "dismissed": counters.dismissed,
    }
