"""When a store in trouble is tried again: after a pause, which doubles with each error in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.engine.deadlines import NEVER, RETRY_FIRST_US, RETRY_MAX_US

if TYPE_CHECKING:
    from hiringhall.engine.deadlines import Deadlines


class StoreRetries:
    """The next try. Its time is one of the engine's deadlines."""

    __slots__ = ("_deadlines", "_due", "_pause_us")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._pause_us = RETRY_FIRST_US
        self._due = False

    def plan(self, now_us: int) -> None:
        """The store has failed: try again after the pause."""
        self._deadlines.retry_us = now_us + self._pause_us
        self._pause_us = min(self._pause_us * 2, RETRY_MAX_US)

    def ring(self) -> None:
        """The pause is over."""
        self._deadlines.retry_us = NEVER
        self._due = True

    def take(self) -> bool:
        """Whether the store is to be tried now. The next try has to be planned."""
        due, self._due = self._due, False
        return due

    def reset(self) -> None:
        """The store has answered: the next trouble begins with a short pause."""
        self._pause_us = RETRY_FIRST_US
