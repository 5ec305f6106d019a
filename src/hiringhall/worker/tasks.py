"""A job in the hands of a worker, and the counts of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiringhall.worker.process import Child


class Counts:
    """What became of the jobs of one function."""

    __slots__ = ("done", "failed", "lost", "queue", "running", "stopped")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.running = 0
        """Jobs that were taken and have not ended; some of them may wait."""
        self.done = 0
        self.failed = 0
        self.lost = 0
        """Jobs whose process died."""
        self.stopped = 0
        """Jobs that the hall has taken back: cancelled, or over their time."""


class Task:
    """One lease."""

    __slots__ = ("child", "counts", "job", "lease", "packet", "revoked", "run_us", "started_at", "taken_at")

    def __init__(self, lease: int, job: int, packet: bytes, run_us: int, counts: Counts, now: float) -> None:
        self.lease = lease
        self.job = job
        self.packet = packet
        """The message for a child."""
        self.run_us = run_us
        """The limit of its run time; 0: none."""
        self.counts = counts
        self.taken_at = now
        self.started_at = 0.0
        """When a process began it; 0: it waits."""
        self.child: Child | None = None
        self.revoked = False
        """The hall does not want it any more: nothing is reported."""
