"""A reader of PostgreSQL finds what one of a data file finds, beside a running hall."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from postgres_stage import end_backends
from store_house import ignore
from store_rows import DAY_US, NOW_US, batch, end, job, plain_end, plain_job

from hiringhall.core.changes import LOG, Firing, HistoryQuery, OutputRow
from hiringhall.core.jobs import OUTPUT
from hiringhall.core.states import DONE, FAILED
from hiringhall.records import History
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.opening import open_history, open_store
from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hiringhall.storage.history_contract import HistoryReader

PLENTY_S = 60.0
LINES = 9000
"""More than one page looks at."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A data folder and a database with the same content."""
    folder = tmp_path_factory.mktemp("read")
    found = [str(folder / "data"), postgres_url(folder)]
    for place in found:
        with closing(open_store(place, Retention(), ignore)) as store:
            store.load(0)
            ends = [
                end(
                    number,
                    queue=b"q%d" % (number % 7),
                    key=b"key-%d" % number if number % 3 else b"",
                    state=FAILED if number % 100 == 0 else DONE,
                    result=b"Picture-%d" % number,
                    payload=b"Source",
                    ended_us=NOW_US + number * DAY_US // 4000,
                )
                for number in range(1, LINES + 1)
            ]
            said = [OutputRow(LINES + 1, NOW_US, LOG, b"hello")]
            jobs = [job(LINES + 1, extras={OUTPUT: b""}), job(LINES + 2, key=b"k")]
            fired = {"nightly": Firing(5, b"plan")}
            store.commit(batch(ends=ends, inserts=jobs, output=said, fired=fired), NOW_US)
    return found


@pytest.fixture
def readers(places: list[str]) -> Iterator[list[HistoryReader]]:
    with ExitStack() as opened:
        yield [opened.enter_context(closing(open_history(place))) for place in places]


def found_by(reader: HistoryReader, query: HistoryQuery, text: bytes) -> list[int]:
    """All matching ids, page by page."""
    ids: list[int] = []
    while True:
        lines, before_id = reader.search(query, text, PLENTY_S)
        ids += [line.id for line in lines]
        if not before_id:
            return ids
        query = query._replace(before_id=before_id)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (HistoryQuery(limit=2000), b""),
        (HistoryQuery(queue=b"q3", limit=500), b""),
        (HistoryQuery(key=b"key-77"), b""),
        (HistoryQuery(state=FAILED), b""),
        (HistoryQuery(queue=b"nobody"), b""),
        (HistoryQuery(ended_from_us=NOW_US + DAY_US, state=FAILED), b""),
        (HistoryQuery(), b"pictURE-123"),
        (HistoryQuery(queue=b"q1"), b"nobody"),
    ],
    ids=str,
)
def test_searches_find_the_same(readers: list[HistoryReader], query: HistoryQuery, text: bytes) -> None:
    sqlite, postgres = [found_by(reader, query, text) for reader in readers]
    assert postgres == sqlite
    counts = [reader.count_lines(query, text, PLENTY_S) for reader in readers]
    assert counts[0] == counts[1] == (len(sqlite), 0)


@pytest.mark.parametrize(
    "ask",
    [
        lambda reader: reader.count(),
        lambda reader: [plain_job(row) for row in reader.live()],
        lambda reader: [plain_job(row) for row in reader.latest(LINES + 2)],
        lambda reader: [plain_end(row) for row in reader.history(HistoryQuery(state=FAILED))],
        lambda reader: reader.page(HistoryQuery(limit=3))[1],
        lambda reader: reader.output(LINES + 1, 0),
        lambda reader: sorted(reader.ends(NOW_US, NOW_US + 2 * DAY_US, DAY_US)),
        lambda reader: reader.firings(),
        lambda reader: reader.quarantined(),
    ],
    ids=["count", "live", "latest", "history", "page", "output", "ends", "firings", "quarantined"],
)
def test_answers_are_the_same(readers: list[HistoryReader], ask: Callable[[HistoryReader], Any]) -> None:
    sqlite, postgres = [ask(reader) for reader in readers]
    assert postgres == sqlite


def test_a_reader_goes_on_when_its_connection_was_ended(places: list[str]) -> None:
    with closing(open_history(places[1])) as reader:
        assert reader.count() == (2, LINES)
        end_backends(places[1])
        assert reader.count() == (2, LINES)


def test_records_are_found_by_url(places: list[str]) -> None:
    with History(places[1]) as history:
        assert [record.id for record in history.find(key="key-77")] == [77]
        assert [record.id for record in history.find(state="queued")] == [LINES + 2, LINES + 1]


def test_a_database_without_tables_is_not_read(tmp_path: Path) -> None:
    postgres_server().sql("CREATE DATABASE without_tables")
    with pytest.raises(StoreError, match="is empty or from an older version: start a hall on it once"):
        open_history(postgres_server().url("without_tables"))
