"""How long the active hall may hand out jobs, and why it is active no more: by its own clock and its own beats.

Invariant: it hands out only for `LEASE_US` after it sent a beat that the database answered. When the answer
came does not matter: the beat may have been on its way for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.storage.postgres.members import Standing

LEASE_US: Final = 3_000_000
"""For this long after a good beat was sent, no other hall takes over. `SILENCE_US` is longer: the clock of this
machine may be a quarter slower than that of the other."""


class Reign:
    """Of one incarnation, from its first beat until it has ended."""

    __slots__ = ("ended", "hands_out_until_us")

    def __init__(self) -> None:
        self.hands_out_until_us = 0
        """After this time it hands out nothing, until the next good beat."""
        self.ended = ""
        """Why this hall is active no more; empty: it is."""

    def answered(self, sent_us: int, incarnation: int, standing: Standing, *, serving: bool) -> None:
        """The database has answered a beat of this incarnation. `serving`: its doors are open, so it can be
        asked to make way.
        """
        if standing.incarnation != incarnation:
            self._end(f"hall {standing.name} has taken over")
            return
        if not standing.counted:
            # The others do not see its beats any more.
            self._end(f"another process has joined as {standing.name}: give each hall a name of its own")
            return
        self.hands_out_until_us = sent_us + LEASE_US
        if serving and standing.wish.instead_of == incarnation:
            self._end(f"a switch-over to {standing.wish.name or 'another hall'} is asked for")

    def _end(self, reason: str) -> None:
        self.hands_out_until_us = 0
        self.ended = reason
