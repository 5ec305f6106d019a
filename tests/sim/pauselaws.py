"""Which queues are paused, as far as those who asked for it can know."""

from __future__ import annotations


class Pauses:
    """What was asked for and what was told. A commit lies between the two, and others ask meanwhile."""

    def __init__(self) -> None:
        self.since_us: dict[bytes, int] = {}
        """Queues that are surely paused, with the time of the answer that told so."""
        self.asked_us: dict[bytes, int] = {}
        """Queues that may be paused: when somebody last asked for it, until they are told to be resumed."""
        self._resume_asked_us: dict[bytes, int] = {}

    def pausing(self, queue: bytes, now_us: int) -> None:
        """Somebody asks to pause a queue."""
        self.asked_us[queue] = now_us

    def paused(self, queue: bytes, asked_us: int, now_us: int) -> None:
        """That is told, of a pause that was asked for at this time. Somebody may have asked to resume the queue
        since then.
        """
        if self._resume_asked_us.get(queue, -1) < asked_us:
            self.since_us.setdefault(queue, now_us)

    def resuming(self, queue: bytes, now_us: int) -> None:
        """Somebody asks to resume a queue."""
        self.since_us.pop(queue, None)
        self._resume_asked_us[queue] = now_us

    def resumed(self, queue: bytes) -> None:
        """That is told. A pause that was asked for in the same turn may have come after it."""
        if self.asked_us.get(queue, 0) < self._resume_asked_us[queue]:
            self.asked_us.pop(queue, None)
