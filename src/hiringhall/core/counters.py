"""What has happened since the hall opened, in numbers."""

from __future__ import annotations


class Counters:
    """What has happened since the hall opened."""

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
        """Attempts that failed and are followed by another."""
        self.lost = 0
        """Leases that ended with their worker."""
        self.expired = 0
        """Leases that ended by time."""
        self.released = 0
        self.withdrawn = 0
        """Jobs taken back before they were acknowledged: the store failed, or refused with others."""
        self.stale = 0
        """Reports refused because the lease was not live."""
        self.woken = 0
        self.announced = 0
        self.hired = 0
        self.dismissed = 0
        """Hired workers that did not come, or did not begin, in time."""
