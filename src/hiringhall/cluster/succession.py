"""Whether a standby is to take over, as it judges by what the database answers.

Invariant: it takes over only from an incarnation that has closed the database, or that it has itself seen
silent for too long; see `Suspicion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.cluster.suspicion import Suspicion
from hiringhall.storage.postgres.membership import Predecessor

if TYPE_CHECKING:
    from hiringhall.storage.postgres.members import Standing

COURTESY_US: Final = 2_000_000
"""For this long a closed database is left to the member that is asked for by a switch-over, or else to any
other than the one that has handed over."""


class Succession:
    """What one standby knows of the active hall. `name` is that of the standby; `former` the incarnation as
    which it was active until now, or 0.
    """

    __slots__ = ("_closed_us", "_former", "_name", "_suspicion")

    def __init__(self, name: str, former: int = 0) -> None:
        self._name = name
        self._former = former
        self._suspicion = Suspicion()
        self._closed_us = 0
        """Since when the database is closed; 0: it is open."""

    def answered(self, now_us: int, standing: Standing) -> bool:
        """The database has answered: whether to take over now."""
        silent = self._suspicion.answered(now_us, standing.incarnation, standing.beat)
        if standing.open:
            self._closed_us = 0
            return silent
        self._closed_us = self._closed_us or now_us
        wish = standing.wish
        for_another = wish.name not in ("", self._name) or standing.incarnation == self._former
        courteous = wish.instead_of == standing.incarnation and for_another
        return not courteous or now_us - self._closed_us >= COURTESY_US

    def predecessor(self, standing: Standing) -> Predecessor:
        """What must still be so when this member takes over: much may happen on the way there."""
        return Predecessor(standing.incarnation, standing.beat if standing.open else None)

    @property
    def doubts(self) -> bool:
        """The active hall has been silent for longer than usual: it is to be looked at more often."""
        return self._suspicion.grows

    def missed(self) -> None:
        """The database has not answered."""
        self._suspicion.missed()
