"""A commit fails at its very end: its outcome is unknown until the disk works again, and then it is told."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from store_rows import NOW_US, batch, end, job, update_of

from hiringhall.core.terms import Terms
from hiringhall.storage.contract import HistoryQuery, OutcomeUnknown, Retention, StoreError
from hiringhall.storage.sqlite import SqliteStore
from hiringhall.storage.sqlite.faults import is_in_doubt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import Batch

RARE = Terms(durable=True, lease_us=77)


def fault(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    return error


class LateFault:
    """A connection whose next transactions end with an error, after or before they are committed."""

    def __init__(self, inner: sqlite3.Connection) -> None:
        self._inner = inner
        self.fails = 0
        """How many of the next transactions fail."""
        self.keeps = False
        """They are committed nevertheless."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
        changes = sql.startswith(("INSERT", "UPDATE", "DELETE")) and not self._inner.in_transaction
        if not self.fails or not (changes or sql == "COMMIT"):
            return self._inner.execute(sql, values)
        self.fails -= 1
        if self.keeps:
            self._inner.execute(sql, values)
        elif sql == "COMMIT":
            self._inner.execute("ROLLBACK")
        raise fault(sqlite3.SQLITE_IOERR_FSYNC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "hall.db", Retention(), pytest.fail)
    made.load(0)
    yield made
    made.close()


@pytest.fixture
def disk(store: SqliteStore) -> LateFault:
    assert store._connection is not None
    store.commit(batch(inserts=[job(1), job(2), job(3)]), NOW_US)
    disk = LateFault(store._connection)
    store._connection = disk  # type: ignore[assignment]
    return disk


BATCHES = [
    batch(inserts=[job(10)]),
    batch(inserts=[job(10, terms=RARE), job(11)]),
    batch(ends=[end(1)], deletes=[1]),
    batch(inserts=[job(10)], ends=[end(1), end(2)], deletes=[1, 2]),
]


def fail_late(store: SqliteStore, disk: LateFault, doomed: Batch, *, keeps: bool) -> None:
    disk.fails, disk.keeps = 1, keeps
    with pytest.raises(OutcomeUnknown, match=r"hall\.db failed to read or write"):
        store.commit(doomed, NOW_US)


def seen(store: SqliteStore) -> tuple[list[int], list[int]]:
    return [row.id for row in store.live()], sorted(row.id for row in store.history(HistoryQuery()))


@pytest.mark.parametrize("doomed", BATCHES)
def test_a_batch_that_was_kept_is_told_to_be(store: SqliteStore, disk: LateFault, doomed: Batch) -> None:
    fail_late(store, disk, doomed, keeps=True)
    assert store.settle()
    live = sorted({1, 2, 3, *(row.id for row in doomed.inserts)} - set(doomed.deletes))
    assert seen(store) == (live, doomed.deletes)
    assert store.count() == (len(live), len(doomed.deletes))
    store.commit(batch(inserts=[job(20, terms=RARE)]), NOW_US)
    store.close()
    assert [row.id for row in store.load(0).jobs] == [*live, 20]


@pytest.mark.parametrize("doomed", BATCHES)
def test_a_batch_that_was_not_kept_is_told_not_to_be_and_can_be_committed_again(
    store: SqliteStore, disk: LateFault, doomed: Batch
) -> None:
    fail_late(store, disk, doomed, keeps=False)
    assert not store.settle()
    assert seen(store) == ([1, 2, 3], [])
    assert store.count() == (3, 0)
    store.commit(doomed, NOW_US)
    store.close()
    live = sorted({1, 2, 3, *(row.id for row in doomed.inserts)} - set(doomed.deletes))
    assert [row.id for row in store.load(0).jobs] == live


def test_a_second_end_of_a_job_is_not_taken_for_its_first(store: SqliteStore, disk: LateFault) -> None:
    store.commit(batch(ends=[end(1)], deletes=[1]), NOW_US)
    fail_late(store, disk, batch(ends=[end(1)._replace(attempts=9)]), keeps=False)
    assert not store.settle()


def test_while_the_disk_fails_the_outcome_stays_unknown(store: SqliteStore, disk: LateFault) -> None:
    fail_late(store, disk, batch(inserts=[job(10)]), keeps=False)
    disk.fails = 2
    for _ in range(2):
        with pytest.raises(StoreError, match="failed to read or write"):
            store.settle()
    assert not store.settle()
    with pytest.raises(StoreError, match="no commit has an unknown outcome"):
        store.settle()


def test_a_batch_that_only_sets_values_is_written_again(store: SqliteStore, disk: LateFault) -> None:
    doomed = batch(updates=[update_of(1, RARE, 2, 0, 0, 0, 0, ())])
    fail_late(store, disk, doomed, keeps=True)
    assert not store.settle()
    store.commit(doomed, NOW_US)
    assert seen(store)[0] == [1, 2, 3]


@pytest.mark.parametrize(
    ("code", "doubt"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, True),
        (sqlite3.SQLITE_IOERR_DIR_FSYNC, True),
        (sqlite3.SQLITE_IOERR, True),
        (sqlite3.SQLITE_IOERR_WRITE, False),
        (sqlite3.SQLITE_IOERR_READ, False),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_BUSY, False),
    ],
)
def test_only_errors_after_the_last_write_leave_a_doubt(code: int, doubt: bool) -> None:
    assert is_in_doubt(fault(code)) == doubt
