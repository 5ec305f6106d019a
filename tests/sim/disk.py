"""The store behind a writer with the faults of a disk.

The law, which is the contract's: a commit that fails has changed nothing. One whose outcome is unknown is on
disk, will be, or is not; when the store has found out which, that holds. When the hall dies, a commit under way
is on disk or it is not, whether or not the hall could still be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import OutputPage
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore

from .world import MS, SECOND

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session

    from .hall import Hall
    from .laws import Laws
    from .world import World


OUTCOME_SEEDS_FROM: Final = 30_000_000
"""From this seed on, the outcome of a commit is unknown now and then."""
TROUBLE: Final = "the disk is full"
CUT: Final = "the connection was cut"
UNREADABLE: Final = "the disk cannot be read"


class Disk:
    """One store through all boots of the hall."""

    def __init__(self, world: World, laws: Laws) -> None:
        random = world.random
        self.world = world
        self.laws = laws
        self.store = MemoryStore(epoch=world.epoch)
        self.slow_us = random.choice((100, 2 * MS, 30 * MS, 200 * MS))
        self.failing = random.choice((0.0, 0.0, 0.02, 0.1))
        """How often a commit fails for once."""
        self.full = random.choice((0.0, 0.0, 0.01, 0.03))
        """How often the disk is full for a while."""
        self.fatal = random.choice((0.0, 0.0, 0.005, 0.03))
        """How often the hall dies in mid-commit."""
        self.full_until_us = 0
        self.outcomes = world.stream("outcomes")
        doubtful = self.outcomes.choice((0.05, 0.2, 0.4))
        self.doubtful = doubtful if world.seed >= OUTCOME_SEEDS_FROM else 0.0
        """How often nobody knows whether a commit has succeeded, and how often that cannot be found out yet."""

    def calm(self) -> None:
        self.slow_us = 100
        self.failing = self.full = self.fatal = self.doubtful = 0.0
        self.full_until_us = 0

    def writer(self, hall: Hall) -> DiskWriter:
        return DiskWriter(self, hall)


class DiskWriter:
    """The `Writer` of one boot."""

    def __init__(self, disk: Disk, hall: Hall) -> None:
        self._disk = disk
        self._hall = hall
        self._boot = hall.boot
        self._free_us = 0
        """When the one thread is done with what it was given."""
        self._late: tuple[Batch, int] | None = None
        """A batch that will be on disk, although its commit was cut off."""
        self._kept = False
        """Whether the batch whose outcome is unknown is on disk, or will be."""

    def write(self, batch: Batch, now_us: int) -> None:
        disk = self._disk
        world = disk.world
        self._apply_late()
        if disk.full and world.chance(disk.full):
            disk.full_until_us = world.now_us + world.random.randrange(SECOND)
        if disk.full_until_us > world.now_us or (disk.failing and world.chance(disk.failing)):
            self._free_us = self._begin_us() + world.random.randrange(disk.slow_us)
            world.at(self._free_us, self._fail)
            return
        apply_us = self._begin_us() + world.random.randrange(disk.slow_us)
        answer_us = self._free_us = apply_us + world.random.randrange(disk.slow_us)
        if disk.fatal and world.chance(disk.fatal):
            world.at(world.random.randrange(world.now_us, answer_us + 1), self._crash)
        if not batch.empty and disk.doubtful and disk.outcomes.random() < disk.doubtful:
            self._cut(batch, now_us, apply_us, answer_us)
            return
        world.at(apply_us, lambda: self._apply(batch, now_us))
        world.at(answer_us, self._succeed)

    def _cut(self, batch: Batch, now_us: int, apply_us: int, answer_us: int) -> None:
        """The commit is cut off: before it is on disk, after, or while it is on its way there."""
        disk = self._disk
        self._kept = disk.outcomes.random() < 0.5
        if self._kept and disk.outcomes.random() < 0.5:
            self._late = batch, now_us
        elif self._kept:
            disk.world.at(apply_us, lambda: self._apply(batch, now_us))
        disk.world.at(answer_us, self._doubt)

    def settle(self) -> None:
        disk = self._disk
        self._free_us = self._begin_us() + disk.outcomes.randrange(disk.slow_us)
        failing = bool(disk.doubtful) and disk.outcomes.random() < 0.4
        disk.world.at(self._free_us, self._doubt if failing else self._find_outcome)

    def _find_outcome(self) -> None:
        """Nobody is at the commit any more: what is on disk now stays."""
        self._apply_late()
        if self._kept:
            self._succeed()
        else:
            self._hall.answered(self._boot, CUT)

    def _apply_late(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            self._apply(*late)

    def look_up(self, session: Session, job_id: int) -> None:
        """Done after what was asked for before, by the same thread."""
        disk = self._disk
        world = disk.world
        self._free_us = self._begin_us() + world.random.randrange(disk.slow_us)
        failing = bool(disk.failing) and world.chance(disk.failing)
        world.at(self._free_us, lambda: self._read(session, job_id, failing=failing))

    def search(self, query: HistoryQuery) -> None:
        disk = self._disk
        self._free_us = self._begin_us() + disk.world.random.randrange(disk.slow_us)
        failing = bool(disk.failing) and disk.world.chance(disk.failing)
        disk.world.at(self._free_us, lambda: self._find(query, failing=failing))

    def _find(self, query: HistoryQuery, *, failing: bool) -> None:
        if self._boot != self._hall.boot:
            return
        page = None if failing else self._disk.store.page(query)
        self._hall.searched(self._boot, page, UNREADABLE if failing else "")

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        disk = self._disk
        self._free_us = self._begin_us() + disk.world.random.randrange(disk.slow_us)
        failing = bool(disk.failing) and disk.world.chance(disk.failing)
        disk.world.at(self._free_us, lambda: self._read_output(session, job_id, position, failing=failing))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        disk = self._disk
        self._free_us = self._begin_us() + disk.world.random.randrange(disk.slow_us)
        failing = bool(disk.failing) and disk.world.chance(disk.failing)
        disk.world.at(self._free_us, lambda: self._read_parents(refs, failing=failing))

    def _read_parents(self, refs: list[ParentRef], *, failing: bool) -> None:
        if self._boot != self._hall.boot:
            return
        lines = [] if failing else self._disk.store.latest_ends(refs)
        self._hall.parents_looked_up(self._boot, lines, UNREADABLE if failing else "")

    def _read_output(self, session: Session, job_id: int, position: int, *, failing: bool) -> None:
        if self._boot != self._hall.boot:
            return
        page = OutputPage([], position) if failing else self._disk.store.output(job_id, position)
        trouble = UNREADABLE if failing else ""
        self._hall.output_looked_up(self._boot, session, job_id, position, page, trouble)

    def _begin_us(self) -> int:
        return max(self._free_us, self._disk.world.now_us)

    def _read(self, session: Session, job_id: int, *, failing: bool) -> None:
        if self._boot != self._hall.boot:
            return
        found = [] if failing else self._disk.store.history(HistoryQuery(id=job_id, limit=1))
        line = found[0] if found else None
        self._hall.looked_up(self._boot, session, job_id, line, UNREADABLE if failing else "")

    def _apply(self, batch: Batch, now_us: int) -> None:
        if self._boot != self._hall.boot:
            return
        disk = self._disk
        if batch.empty:
            disk.store.probe()
            return
        disk.world.note(
            f"disk: +{len(batch.inserts)} ~{len(batch.updates)} -{len(batch.deletes)} ended {len(batch.ends)}"
        )
        disk.laws.stored(batch, now_us)
        disk.store.commit(batch, now_us)

    def _succeed(self) -> None:
        self._hall.answered(self._boot, "")

    def _fail(self) -> None:
        self._hall.answered(self._boot, TROUBLE)

    def _doubt(self) -> None:
        self._hall.doubted(self._boot, CUT)

    def _crash(self) -> None:
        if self._boot == self._hall.boot:
            self._hall.crash()
