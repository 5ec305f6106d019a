"""The shelves of the history in the file: queues get rules and lose them, the file keeps within its limit, and
no question about a key walks through all that ever ended.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from store_rows import DAY_US, NOW_US, batch, end, job, plain_end

from hiringhall.core.states import DONE, FAILED
from hiringhall.core.terms import Terms
from hiringhall.storage.contract import HistoryQuery, QueueRetention, Retention
from hiringhall.storage.retention import DROP_MIN, LINE_BYTES, UNBOUNDED
from hiringhall.storage.sqlite import SqliteStore, open_history
from hiringhall.storage.sqlite.store import WAL_PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

EVERYTHING = HistoryQuery(limit=100_000)
FEW = QueueRetention(rows_max=5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hall.db"


def opened(path: Path, queues: Mapping[bytes, QueueRetention], bytes_max: int = 1 << 30) -> SqliteStore:
    store = SqliteStore(path, Retention(bytes_max=bytes_max, queues=queues), pytest.fail)
    store.load(0)
    return store


def shelves(path: Path) -> dict[tuple[bytes | None, int], list[int]]:
    """The lines on each shelf, as the file has them."""
    with closing(sqlite3.connect(path)) as connection:
        found: dict[tuple[bytes | None, int], list[int]] = {
            (queue, dead): [] for queue, dead in connection.execute("SELECT queue, dead FROM shelves")
        }
        lines = (
            "SELECT shelves.queue, dead, history.id FROM history JOIN shelves ON shelves.id = shelf ORDER BY 3"
        )
        for queue, dead, job_id in connection.execute(lines):
            found[queue, dead].append(job_id)
    return found


ENDS = [
    end(i, queue=(b"a", b"b", b"c")[i % 3], state=FAILED if i % 2 else DONE, ended_us=NOW_US + i)
    for i in range(1, 13)
]


def test_queues_get_rules_and_lose_them(path: Path) -> None:
    store = opened(path, {})
    store.commit(batch(ends=ENDS), NOW_US)
    store.close()
    store = opened(path, {b"a": QueueRetention(), b"b": QueueRetention()})
    assert shelves(path) == {
        (None, 0): [2, 8],
        (None, 1): [5, 11],
        (b"a", 0): [6, 12],
        (b"a", 1): [3, 9],
        (b"b", 0): [4, 10],
        (b"b", 1): [1, 7],
    }
    assert store.count() == (0, 12)
    store.close()
    store = opened(path, {b"b": QueueRetention(), b"never seen": FEW, b"c": FEW})
    after = shelves(path)
    assert (after[None, 0], after[None, 1]) == ([6, 12], [3, 9])
    assert (after[b"c", 0], after[b"c", 1]) == ([2, 8], [5, 11])
    assert (after[b"b", 0], after[b"never seen", 0]) == ([4, 10], [])
    assert store.count() == (0, 12)
    assert [plain_end(row) for row in store.history(EVERYTHING)] == [plain_end(row) for row in reversed(ENDS)]
    store.commit(batch(ends=[end(20 + i, queue=b"c", ended_us=NOW_US + 20 + i) for i in range(3)]), NOW_US)
    assert [row.id for row in store.history(HistoryQuery(queue=b"c"))] == [22, 21, 20, 11, 5]
    assert store.count() == (0, 13)
    store.close()


def test_without_rules_all_stays_where_it_stands(path: Path) -> None:
    store = opened(path, {b"b": QueueRetention(), b"c": FEW})
    store.commit(batch(ends=[row for row in ENDS if row.queue != b"c"]), NOW_US)
    store.commit(batch(ends=[row for row in ENDS if row.queue == b"c"]), NOW_US)
    store.close()
    before = shelves(path)
    assert sum(map(len, before.values())) == 12
    store = SqliteStore(path, None, pytest.fail)
    store.load(0)
    later_us = NOW_US + 1000 * 365 * DAY_US
    more = [end(100 + number, queue=b"c", ended_us=later_us + number) for number in range(10)]
    store.commit(batch(ends=more), later_us)
    store.close()
    before[b"c", 0] += [row.id for row in more]
    assert shelves(path) == before


def test_moving_lines_takes_no_job_away(path: Path) -> None:
    store = opened(path, {})
    store.commit(batch(inserts=[job(100)], ends=ENDS), NOW_US)
    store.close()
    store = opened(path, {b"a": QueueRetention()})
    store.commit(batch(ends=[end(100, queue=b"a")], deletes=[100]), NOW_US)
    assert store.count() == (0, 13)
    store.close()


def test_the_content_of_a_queue_is_counted_anew_at_the_start(path: Path) -> None:
    rules = {b"a": QueueRetention(bytes_max=1000)}
    store = opened(path, rules)
    ends = [end(i, queue=b"a", key=b"k" * 10, result=b"r" * 90, ended_us=NOW_US + i) for i in range(1, 11)]
    store.commit(batch(ends=ends), NOW_US)
    store.close()
    store = opened(path, rules)
    store.commit(batch(ends=[end(11, queue=b"a", result=b"r", ended_us=NOW_US + 11)]), NOW_US)
    assert [row.id for row in store.history(EVERYTHING)] == list(range(11, 1, -1))
    store.close()


def test_the_file_stays_within_its_limit(path: Path) -> None:
    """Real sizes: jobs large and small come and end, old lines make way, freed pages are used again."""
    bytes_max = 16 << 20
    store = opened(path, {b"own": QueueRetention()}, bytes_max)
    sizes: list[int] = []
    for turn in range(150):
        ids = range(turn * 100 + 1, turn * 100 + 101)
        queue = b"own" if turn % 3 else b"any"
        size = (10, 2000, 500, 9000)[turn // 8 % 4]
        jobs = [job(i, queue=queue, payload=b"p" * size) for i in ids]
        ends = [end(i, queue=queue, key=b"%d" % i, result=b"r" * size, ended_us=NOW_US + i) for i in ids]
        store.commit(batch(inserts=jobs), NOW_US + turn)
        store.commit(batch(ends=ends, deletes=ids), NOW_US + turn)
        sizes.append(path.stat().st_size)
        assert Path(f"{path}-wal").stat().st_size < 3 * WAL_PAGES * 4096
    kept = [row.id for row in store.history(EVERYTHING)]
    assert kept == list(range(15_000, 15_000 - len(kept), -1))
    assert store.count() == (0, len(kept))
    store.close()
    sizes.append(path.stat().st_size)
    assert bytes_max * 3 // 4 < max(sizes) <= bytes_max


def test_many_small_lines_make_way_for_each_large_one(path: Path) -> None:
    """A commit drops more lines when it brings more bytes, or the file would outgrow its limit meanwhile."""
    bytes_max = 8 << 20
    store = opened(path, {}, bytes_max)
    for start in range(1, 40_000, 1000):
        ends = [end(i, result=b"", ended_us=NOW_US + i) for i in range(start, start + 1000)]
        store.commit(batch(ends=ends), NOW_US)
    left = store.count()[1]
    assert left > 20_000
    for i in range(50_000, 50_030):
        store.commit(batch(ends=[end(i, result=b"r" * 400_000, ended_us=NOW_US + i)]), NOW_US)
    assert store.count()[1] < 30
    store.close()
    assert path.stat().st_size <= bytes_max


def test_a_limit_that_is_lowered_takes_effect_bit_by_bit(path: Path) -> None:
    store = opened(path, {})
    for start in range(1, 5000, 1000):
        ends = [end(i, result=b"r" * 1000, ended_us=NOW_US + i) for i in range(start, start + 1000)]
        store.commit(batch(ends=ends), NOW_US)
    store.close()
    store = opened(path, {}, 2 << 20)
    left = [5000]
    while len(left) < 20 and (len(left) == 1 or left[-1] < left[-2]):
        store.commit(batch(), NOW_US)
        left.append(store.count()[1])
    assert max(before - after for before, after in pairwise(left)) == DROP_MIN
    assert 1000 < left[-1] < 2000
    store.close()


def test_old_lines_of_all_shelves_go_though_nothing_ends_any_more(path: Path) -> None:
    store = opened(path, {b"a": QueueRetention(age_us=DAY_US, dead_age_us=DAY_US)})
    store.commit(batch(ends=ENDS), NOW_US)
    store.commit(batch(), NOW_US + 8 * DAY_US)
    assert [row.id for row in store.history(EVERYTHING)] == [11, 7, 5, 1]
    store.close()


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (HistoryQuery(id=5), "PRIMARY KEY"),
        (HistoryQuery(key=b"k"), "history_by_key (<expr>=? AND key=?)"),
        (HistoryQuery(key=b"k", queue=b"q"), "history_by_key (<expr>=? AND key=? AND queue=?"),
        (HistoryQuery(key=b"k", state=DONE, ended_from_us=1), "history_by_key (<expr>=? AND key=?)"),
        (HistoryQuery(queue=b"q"), "history_by_key (<expr>=?)"),
        (HistoryQuery(ended_from_us=1), "history_by_shelf (shelf=? AND ended_us>? AND ended_us<?)"),
        (HistoryQuery(ended_to_us=1), "history_by_shelf (shelf=? AND ended_us>? AND ended_us<?)"),
        (HistoryQuery(state=FAILED), "history_by_shelf (shelf=? AND ended_us>? AND ended_us<?)"),
    ],
    ids=str,
)
def test_a_query_steps_through_an_index(path: Path, query: HistoryQuery, index: str) -> None:
    """The plans that keep an answer short however much has ended."""
    store = opened(path, {b"a": QueueRetention()})
    store.commit(batch(ends=ENDS), NOW_US)
    store.close()
    asked: list[str] = []
    with closing(open_history(path)) as reader:
        reader._connection.set_trace_callback(asked.append)
        reader.history(query)
        reader._connection.set_trace_callback(None)
        asked = [sql for sql in asked if "FROM history" in sql]
        plans = [
            [bytes(row[3]).decode() for row in reader._connection.execute("EXPLAIN QUERY PLAN " + sql)]
            for sql in asked
        ]
    assert any(index in step for plan in plans for step in plan), plans
    for plan in plans:
        assert not [step for step in plan if step.startswith("SCAN history")], plan
        assert sum("TEMP B-TREE FOR ORDER BY" in step for step in plan) <= 1, plan


def test_dropping_steps_through_the_index(path: Path) -> None:
    store = opened(path, {b"a": QueueRetention(), b"b": FEW})
    store.commit(batch(ends=ENDS), NOW_US)
    asked: list[str] = []
    connection = store._connection
    assert connection is not None
    connection.set_trace_callback(asked.append)
    sections = store._shelves.sections
    for those in ([sections.common.others], [sections.ruled[b"b"].dead], sections.others, sections.dead):
        store._shelves.drop(those, NOW_US, 10, UNBOUNDED, 0)
        store._shelves.drop(those, NOW_US, 10, 1000, LINE_BYTES)
    connection.set_trace_callback(None)
    assert len(asked) >= 8
    for sql in asked:
        plan = [bytes(row[3]).decode() for row in connection.execute("EXPLAIN QUERY PLAN " + sql)]
        assert not [step for step in plan if step.startswith("SCAN history")], plan
        assert any("history_by_shelf (shelf=? AND ended_us<?)" in step for step in plan), plan
    store.close()


def test_an_index_finds_a_key_among_many_blocks(path: Path) -> None:
    """One seek for each block of neighbouring ids, and only those that have lines are visited."""
    store = opened(path, {})
    ids = [(epoch << 32) + i * 5000 for epoch in range(1, 41) for i in range(50)]
    ends = [end(i, key=b"often" if place % 4 == 0 else b"%d" % i) for place, i in enumerate(ids)]
    ends[3] = end(ids[3], key=b"once")
    store.commit(batch(ends=ends), NOW_US)
    assert [row.id for row in store.history(HistoryQuery(key=b"once"))] == [ids[3]]
    often = [row.id for row in reversed(ends) if row.key == b"often"]
    assert [row.id for row in store.history(HistoryQuery(key=b"often", limit=10_000))] == often
    assert [row.id for row in store.history(HistoryQuery(key=b"often", before_id=often[7], limit=9))] == often[
        8:17
    ]
    store.close()


def test_only_lines_that_say_how_long_they_are_kept_are_in_the_index_of_drop_times(path: Path) -> None:
    store = opened(path, {b"a": QueueRetention()})
    brief = Terms(durable=True, detached=True, keep_us=60_000_000)
    ends = [end(1), end(2, terms=brief), end(3, terms=brief, state=FAILED), end(4, queue=b"a", terms=brief)]
    store.commit(batch(ends=ends), NOW_US)
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        drops = "SELECT id, drop_us FROM history INDEXED BY history_by_drop WHERE drop_us > 0 ORDER BY id"
        due_us = NOW_US + 60_000_000
        assert connection.execute(drops).fetchall() == [(2, due_us), (4, due_us)]
        found = connection.execute("SELECT id, kept_until FROM history_readable ORDER BY id").fetchall()
        assert [until is not None for _, until in found] == [False, True, False, True]


def test_without_a_retention_nothing_is_dropped_because_its_job_says_so(path: Path) -> None:
    brief = Terms(durable=True, detached=True, keep_us=1)
    store = opened(path, {})
    store.commit(batch(ends=[end(1, terms=brief)]), NOW_US)
    store.close()
    store = SqliteStore(path, None, pytest.fail)
    store.load(0)
    store.commit(batch(ends=[end(2, terms=brief)]), NOW_US + DAY_US)
    store.commit(batch(), NOW_US + 2 * DAY_US)
    assert store.count() == (0, 2)
    store.close()
