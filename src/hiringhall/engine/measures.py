"""What the driver counts: turns, commits, pauses, and how late the event loop is.

Invariant: nothing is timed for the loop's lag unless somebody has asked for the counts lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.histograms import Histogram

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LAG_STEP_MS: Final = 100
"""While the lag is measured, the loop is asked to wake up after this time, again and again."""
LAG_WATCHED_US: Final = 150_000_000
"""The lag is measured for this long after somebody has asked: longer than the usual intervals of scrapers."""


class Measures:
    """Counts since the hall opened."""

    __slots__ = ("commit", "commit_failures", "commit_rows", "lag", "pauses", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.commit = Histogram()
        """How long commits took that succeeded."""
        self.commit_rows = 0
        """Changes of jobs in them."""
        self.commit_failures = 0
        self.pauses = 0
        """Times that the process was stopped, suspended or not scheduled for long."""
        self.lag = Histogram()
        """How late the loop woke up, while that was measured."""

    def committed(self, trouble: str, took_us: int, rows: int) -> None:
        """A commit has returned."""
        if trouble:
            self.commit_failures += 1
        else:
            self.commit.add(took_us)
            self.commit_rows += rows


class LagProbe:
    """Measures how late the loop wakes up, for a while after each call of `watch`."""

    __slots__ = ("_histogram", "_now_us", "_planned_us", "_timer", "_until_us")

    def __init__(self, now_us: Callable[[], int], histogram: Histogram) -> None:
        self._now_us = now_us
        self._histogram = histogram
        self._timer: asyncio.TimerHandle | None = None
        self._planned_us = 0
        """When the loop should wake up."""
        self._until_us = 0

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Somebody asks for the lag: measure it for a while."""
        now_us = self._now_us()
        self._until_us = now_us + LAG_WATCHED_US
        if self._timer is None:
            self._plan(loop, now_us)

    @property
    def watching(self) -> bool:
        """The lag is being measured."""
        return self._timer is not None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self, loop: asyncio.AbstractEventLoop, now_us: int) -> None:
        self._planned_us = now_us + LAG_STEP_MS * 1000
        self._timer = loop.call_later(LAG_STEP_MS / 1000, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        now_us = self._now_us()
        self._timer = None
        self._histogram.add(now_us - self._planned_us)
        if now_us < self._until_us:
            self._plan(loop, now_us)
