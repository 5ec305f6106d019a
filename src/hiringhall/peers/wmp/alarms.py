"""Times to come back at: one for each thing that has one.

The law: a thing set again has only its new time. Entries nobody waits for stay in the heap until they come up,
or until they outnumber the rest.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

Thing = TypeVar("Thing")

_STALE_MIN: Final = 64
"""Below it a heap is not worth sweeping."""


class Alarms(Generic[Thing]):
    """A heap of times, each thing at most once."""

    __slots__ = ("_entries", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Thing]] = []
        self._entries: dict[Thing, tuple[int, int, Thing]] = {}
        self._number = 0
        """Breaks ties, first set first, so that things are never compared."""

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, thing: Thing, at_us: int) -> None:
        self._number += 1
        entry = (at_us, self._number, thing)
        self._entries[thing] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + _STALE_MIN:
            self._heap = sorted(self._entries.values())

    def clear(self, thing: Thing) -> None:
        """No time for this thing any more, if it had one."""
        self._entries.pop(thing, None)

    def next_us(self) -> int | None:
        """The earliest time."""
        self._skip_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now_us: int) -> list[Thing]:
        """Take out the things whose time has come, in the order of their times."""
        things: list[Thing] = []
        while True:
            self._skip_stale()
            if not self._heap or self._heap[0][0] > now_us:
                return things
            thing = heapq.heappop(self._heap)[2]
            del self._entries[thing]
            things.append(thing)

    def _skip_stale(self) -> None:
        while self._heap and self._entries.get(self._heap[0][2]) is not self._heap[0]:
            heapq.heappop(self._heap)


def earliest(*times_us: int | None) -> int | None:
    """The first of several times, some of which may not be set."""
    return min((at_us for at_us in times_us if at_us is not None), default=None)
