"""Searches of the history that end in time: what is found, where to go on, and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, batch, end

from hiringhall.core.changes import HistoryQuery
from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.storage.contract import Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore, open_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import EndRow
    from hiringhall.storage.sqlite import SqliteHistoryReader

LINES = 30_000
"""More than the index by key has in three blocks, and than one page looks at."""
QUEUES = 10
PLENTY_S = 60.0


def line(number: int) -> EndRow:
    state = CANCELLED if number == 1 else FAILED if number % 500 == 0 else DONE
    return end(
        number,
        queue=b"queue-%d" % (number % QUEUES),
        key=b"key-%d" % number,
        state=state,
        result=b"Picture-%d" % number,
        payload=b"Source-%d" % number,
        ended_us=NOW_US + number,
    )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteHistoryReader]:
    path: Path = tmp_path_factory.mktemp("searched") / DATABASE
    store = SqliteStore(path, Retention(), print)
    store.load(0)
    for first in range(1, LINES + 1, 5000):
        store.commit(batch(ends=[line(number) for number in range(first, first + 5000)]), NOW_US)
    store.close()
    found = open_history(path)
    yield found
    found.close()


ASKED = {
    "all": (HistoryQuery(), b"", range(LINES, 0, -1)),
    "queue": (HistoryQuery(queue=b"queue-3"), b"", [n for n in range(LINES, 0, -1) if n % QUEUES == 3]),
    "no such queue": (HistoryQuery(queue=b"nobody"), b"", []),
    "the oldest": (HistoryQuery(state=CANCELLED), b"", [1]),
    "queue and state": (HistoryQuery(queue=b"queue-1", state=CANCELLED), b"", [1]),
    "dead letters": (HistoryQuery(state=FAILED), b"", range(LINES, 0, -500)),
    "key": (HistoryQuery(key=b"key-77"), b"", [77]),
    "period": (HistoryQuery(ended_to_us=NOW_US + 9), b"", range(9, 0, -1)),
    "long period": (HistoryQuery(ended_from_us=NOW_US + 3000), b"", range(LINES, 2999, -1)),
    "result": (HistoryQuery(), b"pictURE-123", [n for n in range(LINES, 0, -1) if str(n).startswith("123")]),
    "payload of a queue": (HistoryQuery(queue=b"queue-4"), b"source-4444", [4444]),
    "worker and state": (HistoryQuery(state=FAILED), b"ANN", range(LINES, 0, -500)),
    "no such text": (HistoryQuery(), b"nobody", []),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("limit_s", [PLENTY_S, 0.0])
def test_pages_of_a_search_add_up(reader: SqliteHistoryReader, name: str, limit_s: float) -> None:
    """Without time each step has a bounded part, which may be empty, and says where to go on."""
    query, text, wanted = ASKED[name]
    found: list[int] = []
    before_id, steps = None, 0
    while before_id != 0:
        lines, before_id = reader.search(query._replace(before_id=before_id, limit=1000), text, limit_s)
        assert len(lines) <= 1000
        found += [row.id for row in lines]
        steps += 1
        assert steps <= 2 * LINES
        if not limit_s and text and steps == 100:
            return  # one line at a time
    assert found == list(wanted)


@pytest.mark.parametrize("name", ASKED)
def test_lines_that_match_are_counted(reader: SqliteHistoryReader, name: str) -> None:
    query, text, wanted = ASKED[name]
    assert reader.count_lines(query, text, PLENTY_S) == (len(wanted), 0)


@pytest.mark.parametrize("name", ["payload of a queue", "no such text", "result"])
def test_a_count_that_takes_too_long_says_that_there_may_be_more(
    reader: SqliteHistoryReader, name: str
) -> None:
    query, text, wanted = ASKED[name]
    counted, before_id = reader.count_lines(query, text, 0.0)
    assert before_id
    assert counted <= len(wanted)
    rest, before_id = reader.count_lines(query._replace(before_id=before_id), text, PLENTY_S)
    assert (counted + rest, before_id) == (len(wanted), 0)


def test_a_search_that_finds_nothing_looks_at_a_part_of_the_history_only(reader: SqliteHistoryReader) -> None:
    lines, before_id = reader.search(HistoryQuery(queue=b"nobody"), b"", 0.0)
    assert (lines, before_id > LINES // 2) == ([], True)
    lines, before_id = reader.search(HistoryQuery(state=CANCELLED), b"", 0.0)
    assert (lines, before_id > LINES // 2) == ([], True)
