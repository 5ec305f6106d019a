"""Queries of the history, and pages of it: what every store must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_rows import NOW_US, batch, end, plain_end

from hiringhall.core.states import CANCELLED, DONE, FAILED, QUEUED
from hiringhall.storage import memory
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.sqlite import pages

if TYPE_CHECKING:
    from store_house import House


class TestHistoryQueries:
    @pytest.fixture(autouse=True)
    def told(self, house: House) -> None:
        """Ids are far apart, so that a walk over them crosses gaps."""
        states = (DONE, FAILED, CANCELLED)
        ends = [
            end(
                1 + i * 3001,
                queue=b"odd" if i % 2 else b"even",
                key=b"" if i % 5 == 0 else b"k%d" % (i % 4),
                state=states[i % 3],
                ended_us=NOW_US + (i * 7 % 30),
            )
            for i in range(30)
        ]
        house.store.commit(batch(ends=ends), NOW_US)
        self.ends = sorted(ends, key=lambda row: -row.id)

    @pytest.mark.parametrize(
        "query",
        [
            HistoryQuery(),
            HistoryQuery(id=1 + 3001 * 4),
            HistoryQuery(id=2),
            HistoryQuery(id=1 + 3001 * 4, queue=b"odd"),
            HistoryQuery(id=1 + 3001 * 4, state=FAILED),
            HistoryQuery(queue=b"odd"),
            HistoryQuery(queue=b"nobody"),
            HistoryQuery(key=b"k1"),
            HistoryQuery(key=b""),
            HistoryQuery(key=b"k1", limit=3),
            HistoryQuery(key=b"k1", before_id=50_000, limit=3),
            HistoryQuery(key=b"k1", state=CANCELLED, ended_to_us=NOW_US + 20),
            HistoryQuery(key=b"nobody's"),
            HistoryQuery(queue=b"even", key=b"k2"),
            HistoryQuery(queue=b"even", key=b""),
            HistoryQuery(queue=b"odd", state=FAILED),
            HistoryQuery(queue=b"odd", before_id=40_000, limit=3),
            HistoryQuery(queue=b"odd", key=b"k1", state=DONE, ended_from_us=NOW_US + 3),
            *[HistoryQuery(state=state) for state in (DONE, FAILED, CANCELLED, QUEUED)],
            *[HistoryQuery(state=state, ended_from_us=NOW_US + 9, limit=4) for state in (DONE, FAILED)],
            HistoryQuery(state=FAILED, key=b"k1"),
            HistoryQuery(state=FAILED, ended_to_us=NOW_US + 9),
            HistoryQuery(state=FAILED, before_id=30_000, limit=2),
            HistoryQuery(ended_from_us=NOW_US + 10),
            HistoryQuery(ended_from_us=NOW_US + 10, key=b"k3", limit=2),
            HistoryQuery(ended_to_us=NOW_US + 10),
            HistoryQuery(ended_from_us=NOW_US + 5, ended_to_us=NOW_US + 20),
            HistoryQuery(ended_from_us=NOW_US + 5, ended_to_us=NOW_US + 20, before_id=50_000, limit=3),
            HistoryQuery(before_id=30_000),
            HistoryQuery(limit=7),
            HistoryQuery(limit=0),
            HistoryQuery(queue=b"odd", limit=0),
        ],
        ids=lambda query: "-".join(
            f"{name}={value}" for name, value in query._asdict().items() if value is not None
        ),
    )
    def test_every_filter(self, house: House, query: HistoryQuery) -> None:
        expected = [
            plain_end(row)
            for row in self.ends
            if (query.id is None or row.id == query.id)
            and (query.queue is None or row.queue == query.queue)
            and (query.key is None or row.key == query.key)
            and (query.state is None or row.state == query.state)
            and (query.ended_from_us is None or row.ended_us >= query.ended_from_us)
            and (query.ended_to_us is None or row.ended_us <= query.ended_to_us)
            and (query.before_id is None or row.id < query.before_id)
        ]
        assert house.lines(query) == expected[: query.limit]

    @pytest.mark.parametrize(
        "query",
        [
            HistoryQuery(limit=4),
            HistoryQuery(queue=b"odd", limit=4),
            HistoryQuery(key=b"k1", limit=2),
            HistoryQuery(state=FAILED, limit=3),
            HistoryQuery(state=DONE, ended_from_us=NOW_US + 3, limit=2),
            HistoryQuery(ended_from_us=NOW_US + 5, ended_to_us=NOW_US + 20, limit=3),
            HistoryQuery(ended_to_us=NOW_US + 20, limit=3),
        ],
        ids=str,
    )
    def test_pages_add_up(self, house: House, query: HistoryQuery) -> None:
        seen: list[int] = []
        while page := house.ids(query):
            seen += page
            query = query._replace(before_id=page[-1])
        assert seen == house.ids(query._replace(before_id=None, limit=1000))

    @pytest.mark.parametrize(
        "query",
        [
            HistoryQuery(limit=4),
            HistoryQuery(limit=1000),
            HistoryQuery(id=1 + 3001 * 4),
            HistoryQuery(queue=b"odd", limit=4),
            HistoryQuery(queue=b"nobody", limit=4),
            HistoryQuery(key=b"k1", limit=2),
            HistoryQuery(key=b"k1", queue=b"odd", state=DONE),
            HistoryQuery(state=FAILED, limit=3),
            HistoryQuery(state=CANCELLED, limit=1),
            HistoryQuery(state=DONE, ended_from_us=NOW_US + 3, limit=2),
            HistoryQuery(ended_to_us=NOW_US + 20, before_id=50_000, limit=3),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("bound", [1, 7, 20_000])
    def test_pages_of_bounded_work_add_up(
        self, house: House, query: HistoryQuery, bound: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory, "WALKED_MAX", bound)
        monkeypatch.setattr(pages, "WALKED_MAX", bound)
        monkeypatch.setattr(pages, "SORTED_MAX", bound)
        expected = house.ids(query._replace(limit=1000))
        seen: list[int] = []
        for _ in range(100):
            page = house.store.page(query)
            assert len(page.lines) <= query.limit
            seen += [line.id for line in page.lines]
            if not page.before_id:
                break
            query = query._replace(before_id=page.before_id)
        assert seen == expected

    def test_a_page_follows_what_comes_and_goes(self, house: House) -> None:
        assert len(house.store.page(HistoryQuery(limit=100)).lines) == 30
        house.store.commit(batch(ends=[end(5), end(2**40)], revived=[1]), NOW_US)
        house.store.commit(batch(ends=[end(5, result=b"again")]), NOW_US)
        ids = [line.id for line in house.store.page(HistoryQuery(limit=100)).lines]
        assert ids == [2**40, *[row.id for row in self.ends if row.id > 1], 5]


def test_a_page_has_no_payloads_and_short_results(house: House) -> None:
    result = bytes(range(256)) * 40
    house.store.commit(batch(ends=[end(1, state=FAILED, payload=b"again", result=result)]), NOW_US)
    ((line,), before_id) = house.store.page(HistoryQuery())
    assert (line.payload, line.result, before_id) == (b"", result[:4096], 0)


def test_a_page_has_the_jobs_without_a_result(house: House) -> None:
    house.store.commit(batch(ends=[end(1, result=b""), end(2, state=FAILED, result=b"")]), NOW_US)
    for _ in range(2):
        lines, _ = house.store.page(HistoryQuery())
        assert [(line.id, line.result) for line in lines] == [(2, b""), (1, b"")]
    assert [line.id for line in house.store.history(HistoryQuery())] == [2, 1]
