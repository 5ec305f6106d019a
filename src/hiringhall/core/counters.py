"""Counts of events since the hall opened, and sums of what queues have counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.histograms import Histogram

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue


class Counters:
    """Counts of events since the hall opened."""

    __slots__ = (
        "announced",
        "cancelled",
        "dismissed",
        "done",
        "expired",
        "failed",
        "hired",
        "joined",
        "lost",
        "released",
        "retried",
        "stale",
        "submitted",
        "taken",
        "withdrawn",
        "woken",
    )

    def __init__(self) -> None:
        self.submitted = 0
        self.joined = 0
        self.taken = 0
        self.done = 0
        self.failed = 0
        self.cancelled = 0
        self.retried = 0
        """Failed attempts that are followed by another."""
        self.lost = 0
        """Leases that ended because their worker was lost."""
        self.expired = 0
        """Leases that ended by a time limit."""
        self.released = 0
        self.withdrawn = 0
        """Jobs withdrawn before they were acknowledged: the store failed, or another job was refused with
        them."""
        self.stale = 0
        """Reports refused because the lease was not live."""
        self.woken = 0
        self.announced = 0
        self.hired = 0
        self.dismissed = 0
        """Hired workers that did not arrive or begin in time."""


class Tally:
    """The counts of a queue, summed over some of them. See `Queue` for their meaning."""

    __slots__ = ("cancelled", "done", "failed", "lost", "retried", "run", "submitted", "wait")

    def __init__(self) -> None:
        self.submitted = 0
        self.done = 0
        self.failed = 0
        self.cancelled = 0
        self.retried = 0
        self.lost = 0
        self.wait = Histogram()
        self.run = Histogram()

    def include(self, queue: Queue | Tally) -> None:
        """Add what a queue, or another sum, has counted."""
        self.submitted += queue.submitted
        self.done += queue.done
        self.failed += queue.failed
        self.cancelled += queue.cancelled
        self.retried += queue.retried
        self.lost += queue.lost
        if queue.wait is not None:
            self.wait.merge(queue.wait)
        if queue.run is not None:
            self.run.merge(queue.run)
