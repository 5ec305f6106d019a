"""Notices that the process was paused: stopped by a signal, suspended with its machine, or not scheduled.

The loop plans its next wake-up. If it wakes up much later, the process was paused, and what its peers sent
meanwhile is unread in its sockets.

Invariant: at least half of the time between two pauses counts for deadlines. They expire in the end even if
every wake-up is late.
"""

from __future__ import annotations

from typing import Final

TICK_US: Final = 500_000
"""While there is a deadline, the loop wakes up at least this often, so that it notices pauses."""
PAUSE_US: Final = 250_000
"""A wake-up that is late by more than this ends a pause. One pass of a busy loop takes much less."""
READING_US: Final = 250_000
"""Added to each pause: time for the loop to read what was sent meanwhile."""

_NOT_PLANNED: Final = 1 << 61


class Pauses:
    """The planned wake-up, and the end of the latest pause."""

    __slots__ = ("_planned_us", "_resumed_us", "late_us")

    def __init__(self, now_us: int) -> None:
        self.late_us = _NOT_PLANNED
        """If the clock is past this time, the process was paused."""
        self._planned_us = _NOT_PLANNED
        self._resumed_us = now_us

    def plan(self, wake_us: int) -> None:
        """The loop will wake up at this time or earlier."""
        self._planned_us = wake_us
        self.late_us = wake_us + PAUSE_US

    def unplan(self) -> None:
        """The loop has no timer: it wakes up when something arrives."""
        self._planned_us = self.late_us = _NOT_PLANNED

    def end(self, now_us: int) -> int:
        """The clock is past `late_us`: how much time does not count."""
        planned_us = self._planned_us
        reading_us = min(READING_US, max(planned_us - self._resumed_us, 0) // 2)
        self._resumed_us = now_us
        self.unplan()
        return now_us - planned_us + reading_us
