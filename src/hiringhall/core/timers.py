"""One heap for all deadlines.

A `Timed` object has at most one live entry. Moving its deadline later costs nothing: when the old entry comes
up it is pushed again. Stale entries are swept once they outnumber the live ones, so that long timeouts of short
jobs do not accumulate.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from hiringhall.core.scheduler import Scheduler

NEVER: Final = 0
_SWEEP_MIN: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Timed:
    """Something with a deadline: a delayed job, a lease, a worker."""

    __slots__ = ("armed_us", "due_us")

    def __init__(self) -> None:
        self.due_us = NEVER
        """When it is due; NEVER: no deadline."""
        self.armed_us = NEVER
        """The time of its entry in the heap; not later than `due_us` while that is set."""

    def ring(self, scheduler: Scheduler) -> None:
        """Act: its deadline has passed and is cleared."""

    @property
    def counts_down(self) -> bool:
        """The deadline ends a duration, which stands still while the hall is paused; False: it is a date."""
        return True


class Timers:
    """The heap, with lazy moves and cancels."""

    __slots__ = ("_heap", "_idle", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._number = 0
        self._idle = 0
        """Stale entries in the heap: cancelled, or superseded by an earlier one."""

    def arm(self, thing: Timed, due_us: int) -> None:
        """Set the deadline of `thing`, which replaces an earlier one."""
        if thing.due_us == NEVER and thing.armed_us != NEVER:
            self._idle -= 1
        thing.due_us = due_us
        if thing.armed_us == NEVER or due_us < thing.armed_us:
            self._push(thing, due_us)

    def disarm(self, thing: Timed) -> None:
        """Clear the deadline of `thing`."""
        if thing.due_us == NEVER:
            return
        thing.due_us = NEVER
        if thing.armed_us != NEVER:
            self._idled()

    def next_us(self) -> int:
        """When to call `pop_due` next, or NEVER. It may be too early, never too late."""
        return self._heap[0][0] if self._heap else NEVER

    def armed(self) -> list[Timed]:
        """Everything that has a deadline."""
        return [thing for at_us, _, thing in self._heap if at_us == thing.armed_us and thing.due_us != NEVER]

    def pop_due(self, now_us: int) -> Timed | None:
        """The next object whose deadline has passed, disarmed; None: there is none."""
        heap = self._heap
        while heap and heap[0][0] <= now_us:
            at_us, _, thing = heappop(heap)
            if at_us != thing.armed_us:
                self._idle -= 1
                continue
            thing.armed_us = NEVER
            if thing.due_us == NEVER:
                self._idle -= 1
            elif thing.due_us > at_us:
                # It was moved later: others may be due before it, even if both are due by now.
                self._push(thing, thing.due_us)
            else:
                thing.due_us = NEVER
                return thing
        return None

    def _push(self, thing: Timed, due_us: int) -> None:
        superseded = thing.armed_us != NEVER
        thing.armed_us = due_us
        self._number += 1
        heappush(self._heap, (due_us, self._number, thing))
        if superseded:
            self._idled()

    def _idled(self) -> None:
        """Count one more stale entry."""
        self._idle += 1
        if self._idle > _SWEEP_MIN and self._idle * 2 > len(self._heap):
            self._sweep()

    def _sweep(self) -> None:
        kept: list[tuple[int, int, Timed]] = []
        for entry in self._heap:
            thing = entry[2]
            if entry[0] != thing.armed_us:
                continue
            if thing.due_us == NEVER:
                thing.armed_us = NEVER
            else:
                kept.append(entry)
        heapify(kept)
        self._heap = kept
        self._idle = 0
