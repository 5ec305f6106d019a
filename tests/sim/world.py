"""Virtual time and the only randomness.

The law: what happens depends on the seed and on nothing else, neither on the clock nor on hashes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids

if TYPE_CHECKING:
    from collections.abc import Callable

START_US: Final = 1_700_000_000_000_000
MS: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
BOOTS_MAX: Final = 1_000
EPOCH_MAX: Final = ids.EPOCH_MAX - BOOTS_MAX
EVENTS_MAX: Final = 20_000
"""A run with more events than this goes in circles."""


class Violation(Exception):
    """A law does not hold. `law` is its short name, the text tells the case."""

    def __init__(self, law: str, text: str) -> None:
        super().__init__(f"{law}: {text}")
        self.law = law


def _first_epoch(random: Random) -> int:
    """As a new file has it, anywhere as a hall in memory, or the largest that leaves room for a run's boots."""
    return random.choice((1, random.randint(1, EPOCH_MAX), EPOCH_MAX))


class World:
    """The clock, the events to come, and the log of those that were."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.epoch = _first_epoch(self.stream("epoch"))
        """Of the hall's first boot."""
        self.now_us = START_US
        self.log: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def stream(self, name: str) -> Random:
        """Randomness of its own: what is drawn from it changes no other draw of the seed."""
        return Random(f"{name} of {self.seed}")

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, action)

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (max(time_us, self.now_us), self._number, action))

    def note(self, text: str) -> None:
        self.log.append(f"{(self.now_us - START_US) / MS:.3f} {text}")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def run(self, until_us: int, done: Callable[[], bool] | None = None) -> None:
        """Let events happen until a time, or until `done` holds."""
        events = self._events
        happened = 0
        while events and events[0][0] <= until_us:
            if done is not None and done():
                return
            self.now_us, _, action = heappop(events)
            action()
            happened += 1
            if happened > EVENTS_MAX:
                raise Violation("progress", f"more than {EVENTS_MAX} events before {until_us - START_US} us")
        self.now_us = max(self.now_us, until_us) if done is None else self.now_us
