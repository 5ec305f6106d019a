"""How many jobs a pool takes beyond those that its processes run at this moment.

A job that waits in a process saves the way to the hall and back. That pays for short jobs only: a job that
waits behind a long one could run elsewhere. So the number follows what the processes have finished lately, and
is 0 as soon as a job has waited for too long.

Invariant: a pure object. The pool calls `tick` while it has jobs; time and counts come in as arguments.
"""

from __future__ import annotations

from typing import Final

TICK_US: Final = 10_000
"""How often the pool looks."""
WAIT_US_MAX: Final = 50_000
"""A job that has waited longer is given back."""
PREFETCH_MAX: Final = 64
"""Jobs that may wait for one process."""
FINISHED_MIN: Final = 2
"""A process that finishes fewer jobs in a tick has long jobs: none waits for it."""
STALL_TICKS: Final = 10
"""Ticks without prefetch after a job has waited for too long."""


class Prefetch:
    """Jobs that may wait for each process."""

    __slots__ = ("_rest", "each")

    def __init__(self) -> None:
        self.each = 0
        self._rest = 0

    def tick(self, processes: int, finished: int, elapsed_us: int) -> int:
        """Jobs that may wait for each of so many processes, which have finished so many in that time."""
        if self._rest:
            self._rest -= 1
            return self.each
        per_tick = finished * TICK_US // (max(processes, 1) * max(elapsed_us, TICK_US))
        if per_tick < FINISHED_MIN:
            self.each = 0
        else:
            # At most doubled, so that one burst of short jobs does not fill a process; and a power of two,
            # so that small changes are not told to the hall.
            wanted = min(per_tick, max(2 * self.each, 4), PREFETCH_MAX)
            self.each = 1 << (wanted.bit_length() - 1)
        return self.each

    def stalled(self) -> None:
        """A job has waited for too long."""
        self.each = 0
        self._rest = STALL_TICKS
