"""Files that earlier versions made: they open, nothing in them is lost, and the hall goes on with them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, batch, end, job, plain_end, plain_job, update_of

from hiringhall.core.changes import EndRow, Firing, JobRow
from hiringhall.core.states import CANCELLED, DONE, FAILED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import HistoryQuery, QueueRetention, Retention, StoreError
from hiringhall.storage.sqlite import SqliteStore, open_history
from hiringhall.storage.sqlite.schema import migrate, migrations, pragma

if TYPE_CHECKING:
    from pathlib import Path

ROWS_OF_VERSION_1 = """
UPDATE meta SET value = 6 WHERE name = 'epoch';
INSERT INTO terms VALUES (1, 2, 1, 0, 3, 4, 5, 6, 7, 8, 1);
INSERT INTO jobs VALUES (1, x'71', x'6b', x'7061', 1, 2, 100, 0, 5, 6, 7, NULL, NULL);
INSERT INTO jobs VALUES (2, x'71', x'', x'7062', 1, 0, 101, 9, 0, 0, 0, x'92cd014192c40178c40179',
    x'81a161c40162');
INSERT INTO jobs VALUES (3, x'71', x'', 'text', 1, 2, 102, 0, 0, 0, 0, NULL, NULL);
INSERT INTO history VALUES (4, x'71', x'6b', 4, 0, x'72', x'77', 1, 2, 3, 1, 0, 1, x'', NULL);
INSERT INTO history VALUES (5, x'71', x'', 5, 8, x'', x'77', 1, 2, 4, 1, 0, 1, x'70', x'81a161c40162');
INSERT INTO quarantine (source, reason, id, queue) VALUES ('jobs', 'its key is lost', 6, x'71');
"""
"""Written as version 1 wrote them. One of the jobs cannot be read."""

ROWS_OF_VERSION_2 = """
INSERT INTO jobs VALUES (10, x'71', x'', x'70', 1, 2, 103, 0, 1, 0, 0, NULL, NULL, 104, 105, x'686f7374');
INSERT INTO history VALUES (11, x'71', x'6b', 6, 0, x'6e6f', x'', 1, 0, 5, 0, 0, 1, x'', NULL, 2);
INSERT INTO history VALUES (12, x'6f776e', x'', 5, 1, x'', x'77', 1, 2, 6, 1, 0, 1, x'70', NULL, 0);
INSERT INTO history VALUES (13, x'6f776e', x'', 4, 0, x'', x'77', 1, 2, 7, 1, 0, 1, x'', NULL, 0);
"""
"""Written as version 2 wrote them, over the rows of version 1."""

TERMS = Terms(
    priority=2,
    durable=True,
    detached=False,
    failures_max=3,
    backoff_us=4,
    backoff_max_us=5,
    losses_max=6,
    lease_us=7,
    run_us=8,
    on_parent_failure=1,
)
JOBS = [
    JobRow(1, b"q", b"k", b"pa", TERMS, QUEUED, 100, 0, 5, 6, 7, (), None, 0, 0, b""),
    JobRow(2, b"q", b"", b"pb", TERMS, HELD, 101, 9, 0, 0, 0, (0x141, (b"x", b"y")), {"a": b"b"}, 0, 0, b""),
]
ENDS = [
    EndRow(5, b"q", b"", FAILED, 8, b"", b"w", 1, 2, 4, 1, 0, TERMS, b"p", {"a": b"b"}, 0),
    EndRow(4, b"q", b"k", DONE, 0, b"r", b"w", 1, 2, 3, 1, 0, TERMS, b"", None, 0),
]
JOBS_2 = [*JOBS, JobRow(10, b"q", b"", b"p", TERMS, QUEUED, 103, 0, 1, 0, 0, (), None, 104, 105, b"host")]
ENDS_2 = [
    EndRow(13, b"own", b"", DONE, 0, b"", b"w", 1, 2, 7, 1, 0, TERMS, b"", None, 0),
    EndRow(12, b"own", b"", FAILED, 1, b"", b"w", 1, 2, 6, 1, 0, TERMS, b"p", None, 0),
    EndRow(11, b"q", b"k", CANCELLED, 0, b"no", b"", 1, 0, 5, 0, 0, TERMS, b"", None, 2),
    *ENDS,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 1 with rows in every table."""
    made = tmp_path / "hall.db"
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        migrate(connection, migrations()[:1], made)
        connection.executescript(ROWS_OF_VERSION_1)
        assert pragma(connection, "user_version") == 1
    return made


@pytest.fixture
def path_2(path: Path) -> Path:
    """The same brought to version 2, with rows that only that could write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, migrations()[:2], path)
        connection.executescript(ROWS_OF_VERSION_2)
        assert pragma(connection, "user_version") == 2
    return path


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def store(path: Path, warnings: list[str]) -> SqliteStore:
    return SqliteStore(path, Retention(age_us=NOW_US, dead_age_us=NOW_US), warnings.append)


def test_everything_in_it_comes_back(path: Path, store: SqliteStore, warnings: list[str]) -> None:
    loaded = store.load(10)
    assert loaded.epoch == 7
    assert [plain_job(row) for row in loaded.jobs] == [plain_job(row) for row in JOBS]
    assert [row.id for row in loaded.ended] == [4, 5]
    assert [plain_end(row) for row in store.history(HistoryQuery())] == [plain_end(row) for row in ENDS]
    assert store.count() == (2, 2)
    store.close()
    assert [warning.partition(": ")[2] for warning in warnings] == ["its payload must be bytes, not text"]
    with closing(open_history(path)) as reader:
        assert [row.id for row in reader.quarantined()] == [6, 3]
    with closing(sqlite3.connect(path)) as connection:
        assert pragma(connection, "user_version") == migrations()[-1][0]
        seen = connection.execute("SELECT id, holder, worker, ready, started FROM jobs_readable").fetchall()
        assert seen == [(1, None, None, None, None), (2, None, None, None, None)]
        assert connection.execute("SELECT id, shelf FROM history ORDER BY id").fetchall() == [(4, 0), (5, 1)]


def test_everything_in_version_2_comes_back(path_2: Path, warnings: list[str]) -> None:
    rules = QueueRetention(age_us=NOW_US, dead_age_us=NOW_US, rows_max=1)
    retention = Retention(age_us=NOW_US, dead_age_us=NOW_US, queues={b"own": rules})
    store = SqliteStore(path_2, retention, warnings.append)
    loaded = store.load(10)
    assert (loaded.epoch, loaded.fired, loaded.paused) == (7, {}, [])
    assert [plain_job(row) for row in loaded.jobs] == [plain_job(row) for row in JOBS_2]
    assert [row.id for row in loaded.ended] == [4, 5, 11, 12, 13]
    assert [plain_end(row) for row in store.history(HistoryQuery())] == [plain_end(row) for row in ENDS_2]
    assert [row.id for row in store.history(HistoryQuery(key=b"k"))] == [11, 4]
    assert [row.id for row in store.history(HistoryQuery(state=FAILED))] == [12, 5]
    assert store.count() == (3, 5)
    store.commit(batch(), NOW_US)
    assert [row.id for row in store.history(HistoryQuery())] == [12, 11, 5, 4]
    assert store.count() == (3, 4)
    store.close()
    assert len(warnings) == 1


def test_the_hall_goes_on_with_it(store: SqliteStore) -> None:
    store.load(0)
    tries = ((1, 2, b"bob", 3, ""),)
    took = update_of(1, TERMS, LEASED, 0, 6, 6, 7, (), None, 0, NOW_US, b"host", b"ann", tries)
    fired = {"nightly": Firing(1, b"plan")}
    store.commit(batch(inserts=[job(8, holder=b"host")], updates=[took], fired=fired), NOW_US)
    store.commit(batch(ends=[end(2, extras={"a": b"b"}), end(9)], deletes=[2]), NOW_US)
    store.close()
    after = [JOBS[0].updated(took), job(8, holder=b"host")]
    loaded = store.load(0)
    assert [plain_job(row) for row in loaded.jobs] == [plain_job(row) for row in after]
    assert loaded.fired == fired
    lines = [end(9), *ENDS, end(2, extras={"a": b"b"})]
    assert [plain_end(row) for row in store.history(HistoryQuery())] == [plain_end(row) for row in lines]
    assert store.count() == (2, 4)
    store.close()


def test_a_reader_leaves_it_to_the_hall(path: Path, store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="older version: start a hall on it once"):
        open_history(path)
    store.load(0)
    store.close()
    with closing(open_history(path)) as reader:
        assert reader.count() == (3, 2)
        assert [row.id for row in reader.live()] == [1, 2]
