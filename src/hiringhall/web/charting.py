"""Ends over time, counted from the history bit by bit.

Invariant: every end between `since_us` and `until_us` is counted once. New ones are counted from `until_us` on,
older ones from `since_us` back; one pass takes a bounded time, and what is left is for the next. The number of
cells is bounded.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hiringhall.records import EndCount

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
MINUTES_KEPT_US: Final = DAY_US + HOUR_US
HOURS_KEPT_US: Final = 31 * DAY_US
LAG_US: Final = 3_000_000
"""An end may be on disk so much later than it was."""
STEP_US: Final = 10 * MINUTE_US
"""The time that is counted at first by one query."""
STEP_MAX_US: Final = 6 * HOUR_US
SLOW_S: Final = 0.03
FAST_S: Final = 0.01
CELLS_MAX: Final = 100_000
STATES: Final = {4: 0, 5: 1, 6: 2}
"""The places of done, failed and cancelled in a cell."""


class Cell:
    """Ends of one queue, or of all, in one part of the time."""

    __slots__ = ("counts", "run_us", "started", "wait_us")

    def __init__(self) -> None:
        self.counts = [0, 0, 0]
        """Done, failed, cancelled."""
        self.started = 0
        self.wait_us = 0
        self.run_us = 0

    def add(self, state: int, count: int, started: int, wait_us: int, run_us: int) -> None:
        self.counts[STATES[state]] += count
        self.started += started
        self.wait_us += wait_us
        self.run_us += run_us

    def merge(self, other: Cell) -> None:
        for place, count in enumerate(other.counts):
            self.counts[place] += count
        self.started += other.started
        self.wait_us += other.wait_us
        self.run_us += other.run_us


class Scale:
    """Cells of one length of time, by their beginning and their queue; b"" is all queues."""

    def __init__(self, bucket_us: int) -> None:
        self.bucket_us = bucket_us
        self.cells: dict[int, dict[bytes, Cell]] = {}
        self.count = 0

    def add(self, found: EndCount, at_us: int) -> bool:
        """Count some ends. False: there was no room for the queue of its own."""
        part = self.cells.setdefault(at_us // self.bucket_us, {b"": Cell()})
        part[b""].add(*found[2:])
        cell = part.get(found.queue)
        if cell is None:
            if self.count >= CELLS_MAX:
                return False
            cell = part[found.queue] = Cell()
            self.count += 1
        cell.add(*found[2:])
        return True

    def drop_before(self, at_us: int) -> None:
        for place in [place for place in self.cells if (place + 1) * self.bucket_us <= at_us]:
            self.count -= len(self.cells.pop(place)) - 1

    def read(self, first: int, last: int, queue: bytes) -> Cell:
        """The sum of the parts from one time on until before another."""
        total = Cell()
        for place in range(first // self.bucket_us, last // self.bucket_us):
            cell = self.cells.get(place, {}).get(queue)
            if cell is not None:
                total.merge(cell)
        return total


class Ends:
    """The ends of a history, by minutes and by hours. Used by one thread at a time."""

    def __init__(self, now_us: int) -> None:
        self.minutes = Scale(MINUTE_US)
        self.hours = Scale(HOUR_US)
        self.since_us = self.until_us = now_us // HOUR_US * HOUR_US
        self.crowded = False
        """Some queue has no cells of its own."""
        self._step_us = STEP_US

    def has(self, since_us: int, now_us: int) -> bool:
        """Whether everything from one time until another is counted, as far as it is on disk for sure."""
        return self.since_us <= since_us and self.until_us >= now_us - LAG_US

    def fill(
        self,
        ends: Callable[[int, int, int], Iterable[EndCount]],
        wanted_us: int,
        now_us: int,
        limit_s: float,
    ) -> bool:
        """Count until all from `wanted_us` on is counted, or the time is over. False: there is more."""
        stop_s = time.monotonic() + limit_s
        latest_us = now_us - LAG_US
        while self.until_us < latest_us or self.since_us > wanted_us:
            if time.monotonic() > stop_s:
                return False
            if self.until_us < latest_us:
                first, last = self.until_us, min(self.until_us + self._step_us, latest_us)
                self._count(ends, first, last, now_us)
                self.until_us = last
            else:
                last = self.since_us
                first = max(last - self._step_us, wanted_us) // MINUTE_US * MINUTE_US
                self._count(ends, first, last, now_us)
                self.since_us = first
        self.minutes.drop_before(now_us - MINUTES_KEPT_US)
        self.hours.drop_before(now_us - HOURS_KEPT_US)
        return True

    def _count(
        self, ends: Callable[[int, int, int], Iterable[EndCount]], first: int, last: int, now_us: int
    ) -> None:
        began_s = time.monotonic()
        for found in ends(first, last, MINUTE_US):
            at_us = found.bucket * MINUTE_US
            room = self.hours.add(found, at_us)
            if at_us >= now_us - MINUTES_KEPT_US:
                room = self.minutes.add(found, at_us) and room
            self.crowded = self.crowded or not room
        took_s = time.monotonic() - began_s
        if took_s > SLOW_S:
            self._step_us = max(MINUTE_US, self._step_us // 2)
        elif took_s < FAST_S:
            self._step_us = min(STEP_MAX_US, self._step_us * 2)
