"""A model of PostgreSQL as several halls use it: the row `writer`, the members, their beats, and the jobs.

The law: each statement happens at once and wholly. A commit is kept only if its incarnation, its connection and
its number are the ones that the row `writer` expects, as in `hall_commit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hiringhall.storage.memory import MemoryStore
from hiringhall.storage.postgres.members import Standing, Wish

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch, Loaded
    from hiringhall.storage.postgres.membership import Predecessor

    from .clusterlaws import ClusterLaws
    from .world import World

ENDED_MAX = 30


class Refused(Exception):
    """The database has answered with an error: nothing is kept. `fenced`: another hall is active.
    `displaced`: another connection of the same hall may write.
    """

    def __init__(self, text: str, *, fenced: bool = False, displaced: bool = False) -> None:
        super().__init__(text)
        self.fenced = fenced
        self.displaced = displaced


class Claim(NamedTuple):
    """What a member that became active goes on from."""

    incarnation: int
    batch: int
    loaded: Loaded


class HallRow:
    """One member, as the table `halls` and the table `beats` have it."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.address = ""
        self.fenced = False
        self.batch = 0
        """The last one of an incarnation that was fenced."""
        self.beat = 0
        self.beat_wall_us = 0
        """What the clock on the wall of the member said at its last beat. Nothing right may look at it."""


class FencedDatabase:
    """One database for all members."""

    def __init__(self, world: World, laws: ClusterLaws) -> None:
        self.world = world
        self.laws = laws
        self.store = MemoryStore(epoch=1)
        self.incarnation = 0
        self.batch = 0
        self.backend = 0
        """Of the connection that may write; 0: the active hall has closed the database."""
        self.halls: dict[str, HallRow] = {}
        self.wish = Wish()
        self.away_until_us = 0
        self.ended_backends: set[int] = set()
        self._released = 0
        """The incarnation that closed the database last."""
        self._last_incarnation = 0
        self._last_backend = 0

    @property
    def away(self) -> bool:
        return self.world.now_us < self.away_until_us

    def accept(self) -> int:
        """The number of a new connection."""
        self._last_backend += 1
        return self._last_backend

    # --- statements

    def join(self, name: str) -> int:
        self._last_incarnation += 1
        beat = self.halls[name].beat if name in self.halls else 0
        row = self.halls[name] = HallRow(self._last_incarnation)
        row.beat = beat
        return self._last_incarnation

    def beat(self, incarnation: int, wall_us: int) -> Standing:
        row = self._find(incarnation)
        standing = self.standing()._replace(counted=row is not None)
        if row is not None:
            row.beat += 1
            row.beat_wall_us = wall_us
            self.laws.beaten(incarnation)
        return standing

    def standing(self) -> Standing:
        for name, row in self.halls.items():
            if row.incarnation == self.incarnation:
                return Standing(self.incarnation, bool(self.backend), name, row.address, row.beat, self.wish)
        return Standing(self.incarnation, bool(self.backend), "", "", 0, self.wish)

    def publish(self, incarnation: int, address: str) -> None:
        row = self._find(incarnation)
        if row is not None:
            row.address = address

    def take_over(self, backend: int, name: str, instead_of: Predecessor) -> Claim:
        if not self._is_as_seen(instead_of):
            raise Refused(f"the active hall is not as it was seen, {instead_of}")
        self.ended_backends.add(self.backend)
        old = self._find(self.incarnation)
        if old is not None:
            old.fenced, old.batch = True, self.batch
        # A message that the hall sent before it closed may have come after that, and named its backend again.
        closed = not self.backend or self._released == self.incarnation
        incarnation = self.join(name)
        self.laws.taken_over(name, self.incarnation, incarnation, closed=closed)
        self.incarnation, self.backend = incarnation, backend
        loaded = self.store.load(ENDED_MAX)
        return Claim(incarnation, self.batch, loaded._replace(epoch=incarnation, jobs=list(loaded.jobs)))

    def commit(self, backend: int, incarnation: int, number: int, batch: Batch, now_us: int) -> None:
        self._check(backend, incarnation, number)
        self.batch = number
        self.world.note(
            f"database: batch {number} of {incarnation}: +{len(batch.inserts)} ~{len(batch.updates)}"
            f" -{len(batch.deletes)} ended {len(batch.ends)}"
        )
        self.laws.kept(incarnation, batch)
        self.store.commit(batch, now_us)

    def reclaim(self, backend: int, incarnation: int) -> int | None:
        """The connection is new: what the old one still does is not kept. None: another hall is active."""
        if incarnation != self.incarnation:
            return None
        self.backend = backend
        return self.batch

    def last_batch(self, incarnation: int) -> int | None:
        row = self._find(incarnation)
        return row.batch if row is not None and row.fenced else None

    def probe(self, backend: int, incarnation: int) -> None:
        self._check_writer(backend, incarnation)

    def release(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self.world.note(f"database: closed by {incarnation}")
            self.backend = 0
            self._released = incarnation

    def ask_for(self, name: str) -> None:
        """Somebody wants another member to be active."""
        self.wish = Wish(self.incarnation, name)

    # --- the rules of the row

    def _check(self, backend: int, incarnation: int, number: int) -> None:
        """As the last act of `hall_commit` does: otherwise everything is rolled back."""
        self._check_writer(backend, incarnation)
        if number != self.batch + 1:
            raise Refused(f"the last batch is {self.batch}")

    def _check_writer(self, backend: int, incarnation: int) -> None:
        if incarnation != self.incarnation:
            raise Refused("another hall has taken over", fenced=True)
        if backend != self.backend:
            raise Refused("another connection writes for this hall", displaced=True)

    def _is_as_seen(self, seen: Predecessor) -> bool:
        standing = self.standing()
        return seen.incarnation == standing.incarnation and seen.beat in (None, standing.beat)

    def _find(self, incarnation: int) -> HallRow | None:
        for row in self.halls.values():
            if row.incarnation == incarnation:
                return row
        return None
