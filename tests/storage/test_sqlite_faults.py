"""Trouble with the disk: told in words, nothing kept by halves, and over when its cause is gone."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, batch, end, job, update_of

from hiringhall.core.changes import DATA, OutputRow
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import HistoryQuery, Retention, StoreError
from hiringhall.storage.sqlite import SqliteStore, output
from hiringhall.storage.sqlite.faults import explain
from hiringhall.storage.sqlite.statements import CHUNK_BYTES_MAX
from hiringhall.storage.sqlite.store import PROBE_BYTES, WAL_PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "hall.db", Retention(), pytest.fail)
    made.load(0)
    yield made
    made.close()


def raw(store: SqliteStore) -> sqlite3.Connection:
    connection = store._connection
    assert connection is not None
    return connection


@contextmanager
def pages_bounded(store: SqliteStore) -> Iterator[None]:
    """As if the disk had no room for another page."""
    (before,) = raw(store).execute("PRAGMA max_page_count").fetchone()
    raw(store).execute("PRAGMA max_page_count = 1")
    yield
    raw(store).execute(f"PRAGMA max_page_count = {before}")


@contextmanager
def file_size_bounded(file_bytes: int) -> Iterator[None]:
    """Let every write past a size fail, as a broken disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


LARGE = [job(i, payload=b"x" * 5000, terms=Terms(durable=True, lease_us=9)) for i in range(10, 60)]


def test_a_full_disk_refuses_and_recovers(store: SqliteStore) -> None:
    store.commit(batch(inserts=[job(1)]), NOW_US)
    with pages_bounded(store):
        for doomed in (batch(inserts=LARGE), batch(inserts=LARGE, ends=[end(1)], deletes=[1])):
            with pytest.raises(StoreError, match=r"disk of .*hall.db is full: free some space"):
                store.commit(doomed, NOW_US)
            assert [row.id for row in store.live()] == [1]
            assert store.count() == (1, 0)
        with pytest.raises(StoreError, match="full"):
            store.probe()
    store.probe()
    store.commit(batch(inserts=LARGE, ends=[end(1)], deletes=[1]), NOW_US)
    store.close()
    assert [row.terms.lease_us for row in store.load(0).jobs] == [9] * len(LARGE)
    assert store.count() == (len(LARGE), 1)


def test_a_failing_disk_refuses_and_recovers(store: SqliteStore) -> None:
    store.commit(batch(inserts=[job(1)]), NOW_US)
    with file_size_bounded(PROBE_BYTES):
        for doomed in (batch(inserts=LARGE), batch(inserts=LARGE, ends=[end(1)], deletes=[1])):
            with pytest.raises(StoreError, match=r"hall.db (is full|failed to read or write)"):
                store.commit(doomed, NOW_US)
            assert [row.id for row in store.live()] == [1]
        with pytest.raises(StoreError, match=r"hall\.db"):
            store.probe()
    store.probe()
    store.commit(batch(inserts=LARGE), NOW_US)
    store.close()
    assert len(list(store.load(0).jobs)) == 1 + len(LARGE)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mounting, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_disk_refuses_and_recovers(small_disk: Path) -> None:
    warnings: list[str] = []
    store = SqliteStore(small_disk / "hall.db", Retention(), warnings.append)
    store.load(0)
    taken: list[int] = []

    def fill(first: int, last: int) -> None:
        for job_id in range(first, last):
            store.commit(batch(inserts=[job(job_id, payload=b"x" * 20_000)]), NOW_US)
            taken.append(job_id)

    ballast, more_ballast = small_disk / "ballast", small_disk / "more_ballast"
    ballast.write_bytes(b"b" * (200 << 10))
    more_ballast.write_bytes(b"b" * (100 << 10))
    with pytest.raises(StoreError, match="full"):
        fill(1, 1000)
    assert [row.id for row in store.live()] == taken
    with pytest.raises(StoreError, match="full"):
        store.probe()
    ballast.unlink()
    store.probe()
    fill(1000, 1003)
    # The log and its copy do not both fit: the store closes with a warning and loses nothing.
    store.close()
    assert len(warnings) == 1
    assert "keep hall.db-wal" in warnings[0]
    more_ballast.unlink()
    assert [row.id for row in store.load(0).jobs] == taken
    store.close()


def test_a_lock_of_another_program_refuses_and_recovers(store: SqliteStore, tmp_path: Path) -> None:
    raw(store).execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(tmp_path / "hall.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for doomed in (batch(inserts=[job(1)]), batch(inserts=[job(1)], ends=[end(2)])):
            with pytest.raises(StoreError, match="another program has locked"):
                store.commit(doomed, NOW_US)
        other.execute("ROLLBACK")
    store.commit(batch(inserts=[job(1)]), NOW_US)
    assert store.count() == (1, 0)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "is full"),
        (sqlite3.SQLITE_IOERR_FSYNC, "failed to read or write"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "cannot be written"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_BUSY, "another program"),
        (sqlite3.SQLITE_CORRUPT, "is damaged"),
        (sqlite3.SQLITE_MISUSE, "using /d/hall.db failed"),
    ],
)
def test_every_fault_names_the_file_and_what_to_do(code: int, words: str) -> None:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    text = str(explain(error, Path("/d/hall.db")))
    assert words in text
    assert "/d/hall.db" in text
    assert "as SQLite says it" in text


def test_the_log_stays_bounded_and_freed_pages_are_used_again(store: SqliteStore, tmp_path: Path) -> None:
    sizes: list[tuple[int, int]] = []
    for turn in range(60):
        ids = range(turn * 200 + 1, turn * 200 + 201)
        store.commit(batch(inserts=[job(i, payload=b"x" * 2000) for i in ids]), NOW_US)
        store.commit(batch(ends=[end(i, result=b"") for i in ids], deletes=ids), NOW_US)
        sizes.append(((tmp_path / "hall.db").stat().st_size, Path(f"{tmp_path}/hall.db-wal").stat().st_size))
    assert max(wal for _, wal in sizes) < 3 * WAL_PAGES * 4096
    assert sizes[-1][0] < 6_000_000
    assert store.count() == (0, 60 * 200)


def test_large_rows_are_cut_into_several_statements(store: SqliteStore) -> None:
    large = [job(i, payload=b"x" * (CHUNK_BYTES_MAX // 4)) for i in range(1, 11)]
    statements = list(store._writer.statements(batch(inserts=large)))
    store._writer.rolled_back()
    values = [
        sum(len(value) for value in made.values if isinstance(value, bytearray)) for made in statements[1:]
    ]
    assert max(values) < 2 * CHUNK_BYTES_MAX
    assert values.count(0) == 2
    store.commit(batch(inserts=large), NOW_US)
    assert store.count() == (10, 0)


def test_no_statement_walks_a_whole_table(store: SqliteStore) -> None:
    """The plans that keep a commit short however much is stored."""
    update = update_of(1, LARGE[0].terms, 2, 0, 0, 0, 0, ())
    updates = [update, update._replace(parents=(2,))] * 700
    said = OutputRow(1, NOW_US, DATA, b"x" * 300_000)
    statements = list(store._writer.statements(batch(updates=updates, revived=[1, 2], output=[said])))
    plans = [(made.sql, made.values) for made in statements if "INSERT" not in made.sql]
    assert len(plans) == 5
    plans.append((output._FROM, [1, 0]))
    plans.append((output._LAST, [1]))
    for sql, values in plans:
        steps = [bytes(row[3]).decode() for row in raw(store).execute("EXPLAIN QUERY PLAN " + sql, values)]
        assert not [step for step in steps if step.startswith(("SCAN jobs", "SCAN history", "SCAN output"))], (
            steps
        )
    store._writer.rolled_back()


def test_history_is_still_there_when_a_batch_failed(store: SqliteStore) -> None:
    store.commit(batch(ends=[end(1)]), NOW_US)
    with pytest.raises(StoreError, match="already has such a row"):
        store.commit(batch(inserts=[job(2), job(2)]), NOW_US)
    assert [row.id for row in store.history(HistoryQuery())] == [1]
