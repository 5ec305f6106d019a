"""Notices that the hall was paused: stopped by a signal, asleep with its machine, or on one that stalled.

The loop plans when it will wake up. If it wakes up much later, it was paused in between, and what its peers
sent meanwhile lies unread in its sockets.

The law: of the time between two pauses at least half counts for deadlines, so that they act in the end even
where every wake-up is late.
"""

from __future__ import annotations

from typing import Final

TICK_US: Final = 500_000
"""While there is a deadline the loop wakes up at least this often: a pause that reaches past it is noticed."""
PAUSE_US: Final = 250_000
"""A wake-up that is later than this ends a pause. A loop that is only busy takes much less for one pass."""
READING_US: Final = 250_000
"""Added to each pause: the time for ZeroMQ's own thread, and the loop, to read what was sent meanwhile."""

_NOT_PLANNED: Final = 1 << 61


class Pauses:
    """The planned wake-up, and the end of the latest pause."""

    __slots__ = ("_planned_us", "_resumed_us", "late_us")

    def __init__(self, now_us: int) -> None:
        self.late_us = _NOT_PLANNED
        """Whoever looks at the clock after this time ends a pause."""
        self._planned_us = _NOT_PLANNED
        self._resumed_us = now_us

    def plan(self, wake_us: int) -> None:
        """The loop wakes up at this time at the latest."""
        self._planned_us = wake_us
        self.late_us = wake_us + PAUSE_US

    def unplan(self) -> None:
        """The loop wakes up when something arrives, whenever that is."""
        self._planned_us = self.late_us = _NOT_PLANNED

    def end(self, now_us: int) -> int:
        """The time that does not count, now that it is later than `late_us`."""
        planned_us = self._planned_us
        reading_us = min(READING_US, max(planned_us - self._resumed_us, 0) // 2)
        self._resumed_us = now_us
        self.unplan()
        return now_us - planned_us + reading_us
