"""Whether the active hall is dead, as one observer judges it.

Invariant: only time counts in which the database answered this observer, by the observer's own clock. So a hall
is not suspected because the database was away, or because the observer was stopped.
"""

from __future__ import annotations

from typing import Final

SILENCE_US: Final = 4_000_000
"""A hall whose beat has not moved for this long is taken for dead."""
DOUBT_US: Final = 1_250_000
"""The same, for a closer look."""
GAP_US: Final = 1_000_000
"""The most that counts between two answers: whatever was longer, the observer or the database was away."""


class Suspicion:
    """What one observer has seen of the beats of the active hall."""

    __slots__ = ("_answered_us", "_beat", "_silent_us")

    def __init__(self) -> None:
        self._beat: tuple[int, int] | None = None
        """The incarnation that is active and its beat, as they were seen last."""
        self._answered_us = 0
        """When the database answered last; 0: it has not since it was away."""
        self._silent_us = 0

    def answered(self, now_us: int, incarnation: int, beat: int) -> bool:
        """The database has answered: whether the hall has been silent for too long."""
        if self._beat != (incarnation, beat):
            self._beat = incarnation, beat
            self._silent_us = 0
        elif self._answered_us:
            self._silent_us += min(now_us - self._answered_us, GAP_US)
        self._answered_us = now_us
        return self._silent_us >= SILENCE_US

    @property
    def grows(self) -> bool:
        """The hall has been silent for longer than usual."""
        return self._silent_us >= DOUBT_US

    def missed(self) -> None:
        """The database has not answered."""
        self._answered_us = 0
