"""What a batch becomes in PostgreSQL, and what its tables cost besides."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from postgres_stage import name_of, opened
from store_rows import NOW_US, batch, end, job

from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.mark.parametrize(
    "ended",
    [
        [*range(10, 30)],
        [*range(29, 9, -1)],
        [12, *range(1, 10), 11, *range(30, 41), 13],
        [*range(1, 41)],
        [*range(1, 41, 2)],
        [7],
    ],
    ids=["a run", "in another order", "runs with gaps", "all", "no neighbours", "one"],
)
def test_exactly_the_jobs_that_ended_are_removed(url: str, ended: list[int]) -> None:
    jobs = {number: job(number, payload=b"x" * number) for number in range(1, 41)}
    with closing(opened(url)) as store:
        store.commit(batch(inserts=list(jobs.values())), NOW_US)
        store.commit(batch(ends=[end(number) for number in ended], deletes=ended), NOW_US)
        left = [row for number, row in jobs.items() if number not in ended]
        assert list(store.live()) == left
        assert store.count() == (len(left), len(ended))
    content = sum([len(row.key) + len(row.payload) for row in left])
    counted = postgres_server().sql("SELECT jobs, job_bytes FROM hiringhall.writer", name_of(url))
    assert counted == f"{len(left)}|{content}"


def test_statistics_are_kept_only_of_what_queries_choose_by(url: str) -> None:
    """ANALYZE of all columns would take as much CPU as the commits."""
    with closing(opened(url)) as store:
        store.commit(batch(ends=[end(number, key=b"%d" % number) for number in range(1, 101)]), NOW_US)
    seen = postgres_server().sql(
        "SET search_path = hiringhall; ANALYZE;"
        "SELECT tablename ~ '_[0-9]', string_agg(attname, ' ' ORDER BY attname) FROM pg_stats"
        " WHERE schemaname = 'hiringhall' AND tablename LIKE 'history%' AND NOT inherited GROUP BY 1",
        name_of(url),
    )
    assert seen == "t|drop_us ended_us flow id key queue shelf state"
