"""A store on PostgreSQL and what is large: batches of several statements, and pages of large jobs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from postgres_stage import WEST, Proxy, ids, name_of, opened
from store_rows import NOW_US, batch, end, job

from hiringhall.core.states import FAILED
from hiringhall.storage.contract import OutcomeUnknown, StoreError
from hiringhall.storage.postgres import Fenced, PostgresStore, reading, writing
from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import Batch

LARGE = 200_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(opened(url)) as made:
        yield made


class TestLargeCommits:
    """A batch that is too large for one statement is several, in one transaction."""

    @pytest.fixture(autouse=True)
    def _small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writing, "PART_BYTES", LARGE)
        monkeypatch.setattr(writing, "PART_ROWS", 5)

    def large(self, first: int = 1) -> Batch:
        """Nine jobs and the end of others, as ten statements or so."""
        jobs = [job(number, payload=bytes([number]) * LARGE) for number in range(first, first + 4)]
        jobs += [job(number) for number in range(first + 4, first + 9)]
        ends = [end(1000 + number, ended_us=NOW_US + number) for number in range(12)]
        dead = end(1100, state=FAILED, payload=b"dead" * 9, key=b"k")
        return batch(inserts=jobs, ends=[*ends, dead])

    def test_all_of_it_is_kept_and_counted(self, url: str) -> None:
        with closing(opened(url)) as store:
            store.commit(self.large(), NOW_US)
            assert store.count() == (9, 13)
            assert [row.payload for row in store.live()] == [row.payload for row in self.large().inserts]
            store.commit(batch(ends=[end(n) for n in range(1, 10)], deletes=list(range(1, 10))), NOW_US)
            assert store.count() == (0, 22)
        with closing(opened(url)) as store:
            assert store.count() == (0, 22)
        counted = "SELECT jobs, job_bytes, batch FROM hiringhall.writer"
        assert postgres_server().sql(counted, name_of(url)) == "0|0|2"

    @pytest.mark.parametrize("after", [10_000, LARGE, 2 * LARGE, 3 * LARGE + 5000, 4 * LARGE])
    def test_a_cut_in_the_middle_keeps_nothing(self, url: str, after: int) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            store.commit(batch(inserts=[job(500)]), NOW_US)
            proxy.cut_questions(after)
            with pytest.raises(OutcomeUnknown):
                store.commit(self.large(), NOW_US)
            proxy.heal()
            assert store.settle() is False
            assert ids(store) == [500]
            assert store.count() == (1, 0)
            store.commit(self.large(), NOW_US)
            assert store.count() == (10, 13)

    def test_if_the_answer_to_the_last_statement_is_lost_it_is_found_to_be_kept(self, url: str) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            store.commit(batch(inserts=[job(500)]), NOW_US)
            proxy.cut_answer_to(b"COMMIT")
            with pytest.raises(OutcomeUnknown):
                store.commit(self.large(), NOW_US)
            proxy.heal()
            assert store.settle() is True
            assert store.count() == (10, 13)
            store.commit(batch(inserts=[job(501)]), NOW_US)
            assert store.count() == (11, 13)

    def test_a_part_that_is_refused_undoes_the_parts_before_it(self, url: str, store: PostgresStore) -> None:
        store.commit(batch(inserts=[job(9)]), NOW_US)
        with pytest.raises(StoreError, match="already has such a row"):
            store.commit(self.large(), NOW_US)
        assert ids(store) == [9]
        store.commit(self.large(first=10), NOW_US)
        assert store.count() == (10, 13)

    def test_kinds_of_rows_that_are_large_together_are_statements_of_one_transaction(self, url: str) -> None:
        content = bytes(LARGE * 2 // 3)
        mixed = batch(inserts=[job(1, payload=content)], ends=[end(1000, result=content)])
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            proxy.cut_answer_to(b"COMMIT")
            store.commit(
                batch(inserts=[job(2, payload=content)]), NOW_US
            )  # one statement: it commits by itself
            with pytest.raises(OutcomeUnknown):
                store.commit(mixed, NOW_US)
            proxy.heal()
            assert store.settle() is True
            assert store.count() == (2, 1)

    def test_whoever_was_replaced_keeps_nothing_of_it(self, url: str, store: PostgresStore) -> None:
        with closing(opened(url, WEST, take_over=True)) as other:
            with pytest.raises(Fenced):
                store.commit(self.large(), NOW_US)
            assert other.count() == (0, 0)
            assert ids(other) == []


def test_a_page_of_large_jobs_has_few_of_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_BYTES", 40_000)
    with closing(opened(url)) as store:
        jobs = [job(number, payload=b"x" * (10_000 if number <= 50 else 1)) for number in range(1, 2001)]
        store.commit(batch(inserts=jobs), NOW_US)
        assert ids(store) == list(range(1, 2001))
        pages = reading.JobPages(store._database, 0)
        sizes = [len(store._read(pages.next())) for _ in range(20)]
    assert sizes[:9] == [16, 4, 4, 4, 4, 4, 4, 4, 4]
    assert sum(sizes) == 2000, "the pages grow again"
