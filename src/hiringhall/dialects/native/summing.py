"""Summaries of the hall, and the connections that subscribe to them.

    ["summary", 0, {"queues": {"resize": [3, 2, 0, 0, false, 118, 1]}, "workers": 4, "busy": 2}]

Invariant: without a subscriber nothing is computed. A subscriber is sent at most one summary in its interval,
and none while it has not read what it was sent before, or while nothing has changed.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import BAD_REQUEST, Refusal
from hiringhall.core.timers import Timed
from hiringhall.dialects.native import wire

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.bounds import Bounds
    from hiringhall.dialects.session import Session

INTERVAL_MIN_US: Final = 250_000
KEPT_US: Final = INTERVAL_MIN_US // 2
"""All subscribers share a summary for this long."""
COST_US: Final = 10
"""Or for so many microseconds for each queue and worker, so that summaries take a small part of the time."""

QueueSummary = tuple[int, int, int, int, bool, int, int]
"""Ready, running, waiting and failed jobs, whether it is paused, and all that were done and that failed."""


class Summaries:
    """The latest summary."""

    def __init__(self, scheduler: Scheduler, bounds: Bounds) -> None:
        self._scheduler = scheduler
        self.bounds = bounds
        self.made = 0
        """How many were computed."""
        self._frame = b""
        self._until_us = 0
        """The latest summary is used until then."""

    def frame(self) -> bytes:
        """A frame with the counts of this moment, or of a moment ago."""
        scheduler = self._scheduler
        now_us = scheduler.now_us
        if now_us >= self._until_us:
            cost_us = COST_US * (len(scheduler.queues) + len(scheduler.workers))
            self._until_us = now_us + max(KEPT_US, cost_us)
            self._frame = self._make()
            self.made += 1
        return self._frame

    def _make(self) -> bytes:
        scheduler = self._scheduler
        queues = list(scheduler.queues.values())
        if len(queues) > self.bounds.summary_queues_max:
            queues = nlargest(self.bounds.summary_queues_max, queues, key=_activity)
        archive = scheduler.archive
        counts: dict[bytes, QueueSummary] = {}
        for queue in queues:
            waiting = queue.live - queue.ready - queue.leased
            failed = archive.failed(queue.name)
            counts[queue.name] = (
                queue.ready,
                queue.leased,
                waiting,
                failed,
                queue.paused_us > 0,
                queue.done,
                queue.failed,
            )
        busy = 0
        for worker in scheduler.workers:
            busy += len(worker.leases) > 0
        body = {"queues": counts, "workers": len(scheduler.workers), "busy": busy}
        return wire.encode(wire.SUMMARY, 0, body)


def _activity(queue: Queue) -> tuple[int, int]:
    return queue.live, queue.done + queue.failed


class Subscription(Timed):
    """One connection that is sent summaries."""

    __slots__ = ("_interval_us", "_sent", "_session", "_summaries")

    def __init__(self, session: Session, summaries: Summaries) -> None:
        super().__init__()
        self._session: Session | None = session
        self._summaries = summaries
        self._interval_us = INTERVAL_MIN_US
        self._sent = b""
        """The latest summary that was sent."""

    def begin(self, scheduler: Scheduler, interval_us: int) -> None:
        """Send a summary soon, and then one in each interval; 0: send no more."""
        if interval_us and interval_us < INTERVAL_MIN_US:
            raise Refusal(BAD_REQUEST, f"interval_us: must be {INTERVAL_MIN_US} or more, or 0 to end it")
        self._interval_us = interval_us
        self._sent = b""
        if interval_us:
            scheduler.timers.arm(self, scheduler.now_us)
        else:
            scheduler.timers.disarm(self)

    def end(self, scheduler: Scheduler) -> None:
        """The session has closed. An entry in the heap of timers must not keep it."""
        scheduler.timers.disarm(self)
        self._session = None

    def ring(self, scheduler: Scheduler) -> None:
        session = self._session
        if session is None or session.closing:
            return
        link = session.link
        if link is None:
            return
        if not link.has_unsent and session.out_bytes < self._summaries.bounds.summary_waiting_bytes_max:
            frame = self._summaries.frame()
            if frame != self._sent:
                self._sent = frame
                session.send(frame)
        scheduler.timers.arm(self, scheduler.now_us + self._interval_us)
