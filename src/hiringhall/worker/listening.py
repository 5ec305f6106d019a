"""When the supervisor hears its children: at once, together under load, or not while the hall is slow.

Under load the children are heard once a millisecond. Their reports then go to the hall together, which costs
the supervisor and the hall a part of what single ones cost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.worker.crew import Crew
    from hiringhall.worker.process import Child

ROUND_S: Final = 0.001


class Listening:
    """Decides for the children of one pool."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._loop = asyncio.get_running_loop()
        self._flowing = True
        """The hall reads as fast as we send; else the children must wait."""
        self._in_rounds = False

    def flow(self, flowing: bool) -> None:
        self._flowing = flowing
        self._apply()

    def in_rounds(self, wanted: bool) -> None:
        """Hear all children once a millisecond, or each at once."""
        if wanted != self._in_rounds:
            self._in_rounds = wanted
            self._apply()
            if wanted:
                self._loop.call_later(ROUND_S, self._round)

    def add(self, child: Child) -> None:
        """A child has joined."""
        if self._flowing and not self._in_rounds:
            child.listen()
        else:
            child.hush()

    def _apply(self) -> None:
        for child in self._crew.everyone:
            self.add(child)

    def _round(self) -> None:
        if not self._in_rounds:
            return
        if self._flowing:
            for child in self._crew.everyone:
                child.pump()
        self._loop.call_later(ROUND_S, self._round)
