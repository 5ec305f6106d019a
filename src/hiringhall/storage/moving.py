"""Moves everything from one store to another: jobs, history, output, flows, pauses, progress of schedules.

Invariant: ids stay as they are, and the target never makes one of them again. The history comes first and the
live jobs last, so a hall on a target that is not complete runs nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hiringhall.core.changes import Batch, EndRow, HistoryQuery, output_bytes
from hiringhall.core.jobs import OUTPUT
from hiringhall.storage.contract import Retention, Store, StoreError
from hiringhall.storage.retention import UNBOUNDED, keep_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.core.changes import JobRow, OutputRow

ROWS_MAX: Final = 1000
BYTES_MAX: Final = 4 << 20
"""A commit ends after this many rows, or with the row that reaches this many bytes."""
EVERYTHING: Final[Retention] = keep_all(())._replace(
    result_bytes_max=UNBOUNDED, payload_bytes_max=UNBOUNDED, output_bytes_max=UNBOUNDED
)
"""The rules with which both stores are opened: nothing is dropped or cut."""


class MovingStore(Store, Protocol):
    """A store that can be moved to."""

    def raise_epoch(self, epoch: int) -> None:
        """Later openings have larger epochs than this. Raises StoreError."""


class Moved(NamedTuple):
    """What was moved."""

    jobs: int
    lines: int


def move(source: Store, target: MovingStore, place: str, moved: Callable[[int, int], None]) -> Moved:
    """Copy all of a store to one that is empty; both are not loaded yet. `moved` is called with how many rows
    are copied, and how many there are. `place` names the target. Raises StoreError.
    """
    theirs = target.load(1)
    if target.count() != (0, 0) or theirs.fired or theirs.paused or theirs.flows or theirs.rules:
        raise StoreError(f"{place} is not empty: move it away, or give another target")
    ours = source.load(0)
    target.raise_epoch(ours.epoch)
    jobs, lines = source.count()
    done = 0
    for batch, now_us in _batches(source):
        target.commit(batch, now_us)
        done += len(batch.ends) + len(batch.inserts)
        moved(done, jobs + lines)
    rest = Batch()
    rest.fired |= ours.fired
    rest.paused |= dict.fromkeys(ours.paused, True)
    rest.flows |= {row.name: row for row in ours.flows}
    rest.rules |= ours.rules
    rest.windows |= {(row.queue, row.key): row for row in ours.windows}
    if not rest.empty:
        target.commit(rest, 0)
    if target.count() != (jobs, lines):
        kept = target.count()
        raise StoreError(
            f"{place} has {kept[0]} jobs and {kept[1]} lines after the move, not {jobs} and {lines}"
        )
    return Moved(jobs, lines)


def _batches(source: Store) -> Iterator[tuple[Batch, int]]:
    """All ends, newest first, and then all live jobs, as batches with a time at which nothing is too old."""
    batch, size = Batch(), 0
    for row in _rows(source):
        said = _output(source, row) if OUTPUT in (row.extras or ()) else []
        batch.output += said
        size += len(row.payload) + sum([output_bytes(line.data) for line in said])
        if isinstance(row, EndRow):
            batch.ends.append(row)
            size += len(row.result)
        else:
            batch.inserts.append(row)
        if len(batch.ends) + len(batch.inserts) >= ROWS_MAX or size >= BYTES_MAX:
            yield batch, 0
            batch, size = Batch(), 0
    if not batch.empty:
        yield batch, 0


def _rows(source: Store) -> Iterator[EndRow | JobRow]:
    query = HistoryQuery(limit=ROWS_MAX // 4)
    while lines := source.history(query):
        yield from lines
        query = query._replace(before_id=lines[-1].id)
    yield from source.live()


def _output(source: Store, row: EndRow | JobRow) -> list[OutputRow]:
    page = source.output(row.id, 0)
    lines = page.lines
    while page.more:
        page = source.output(row.id, page.end)
        lines += page.lines
    return lines
