"""Deadlines: at most one for each key.

Invariant: setting a key again replaces its deadline. Stale entries stay in the heap until they reach its
head, or until they outnumber the others.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

Key = TypeVar("Key")

_STALE_MIN: Final = 64
"""A heap with fewer stale entries is not cleaned up."""


class Deadlines(Generic[Key]):
    """A heap of times, each key at most once."""

    __slots__ = ("_entries", "_heap", "_number")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Key]] = []
        self._entries: dict[Key, tuple[int, int, Key]] = {}
        self._number = 0
        """Breaks ties, first set first, so that keys are never compared."""

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: Key, at_us: int) -> None:
        self._number += 1
        entry = (at_us, self._number, key)
        self._entries[key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + _STALE_MIN:
            self._heap = sorted(self._entries.values())

    def clear(self, key: Key) -> None:
        """Remove the deadline of a key, if it has one."""
        self._entries.pop(key, None)

    def next_us(self) -> int | None:
        """The earliest time."""
        self._skip_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now_us: int) -> list[Key]:
        """Remove and return the keys whose deadline has passed, in order."""
        keys: list[Key] = []
        while True:
            self._skip_stale()
            if not self._heap or self._heap[0][0] > now_us:
                return keys
            key = heapq.heappop(self._heap)[2]
            del self._entries[key]
            keys.append(key)

    def _skip_stale(self) -> None:
        while self._heap and self._entries.get(self._heap[0][2]) is not self._heap[0]:
            heapq.heappop(self._heap)


def earliest(*times_us: int | None) -> int | None:
    """The earliest of several times; None: not set."""
    return min((at_us for at_us in times_us if at_us is not None), default=None)
