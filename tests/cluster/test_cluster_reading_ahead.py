"""When a standby reads the jobs ahead, and what becomes of the store that has read them."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from hiringhall.cluster.reading_ahead import PAUSE_US, RETRY_US, ReadingAhead, Successor
from hiringhall.core.limits import Limits
from hiringhall.engine.recovery import Restored, restore_ahead
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.postgres import Member, PostgresStore
from stage.databases import postgres_url

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.core.changes import Loaded


PATIENCE_S = 30.0


def restore(loaded: Loaded) -> Restored:
    return restore_ahead(loaded, Limits(), 1)


class Stores:
    """Makes stores on one database, and knows which of them were closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.made: list[PostgresStore] = []
        self.closed = 0

    def make(self) -> PostgresStore:
        self.made.append(
            PostgresStore(self._url, Retention(), lambda _: None, Member("west"), on_close=self._on_close)
        )
        return self.made[-1]

    def _on_close(self) -> None:
        self.closed += 1


def test_a_store_reads_while_the_active_hall_is_in_doubt_and_is_closed_when_it_beats_again(
    tmp_path: Path,
) -> None:
    url = postgres_url(tmp_path)
    with closing(Stores(url).make()) as active:
        active.load(0)
    stores = Stores(url)

    async def story() -> None:
        ahead = ReadingAhead(stores.make, 100, restore)
        ahead.answered(1, 7, doubts=False)
        assert await ahead.finish() is None
        ahead.answered(2, 7, doubts=True)
        ahead.answered(3, 7, doubts=True)
        ahead.answered(4, 7, doubts=False)
        await ahead.close()
        assert (len(stores.made), stores.closed) == (1, 1)
        ahead.answered(5, 7, doubts=True)
        assert await ahead.finish() is None, "not again so soon"
        ahead.answered(2 + PAUSE_US, 7, doubts=True)
        taken = await ahead.finish()
        await ahead.close()
        assert taken is not None
        assert (taken.store, taken.restored is not None) == (stores.made[1], True)
        assert stores.closed == 1, "it is the caller's now"
        taken.store.close()

    asyncio.run(story())


def test_after_another_hall_has_taken_over_the_jobs_are_read_again_at_once(tmp_path: Path) -> None:
    stores = Stores(postgres_url(tmp_path))

    async def story() -> None:
        ahead = ReadingAhead(stores.make, 100, restore)
        ahead.answered(1, 7, doubts=True)
        ahead.answered(2, 8, doubts=False)
        await ahead.close()
        ahead.answered(3, 8, doubts=True)
        taken = await ahead.finish()
        assert taken is not None
        assert taken.store is stores.made[1], "the first ones were read in vain, but not because of this hall"
        taken.store.close()

    asyncio.run(story())


def test_a_standby_that_cannot_read_ahead_takes_over_all_the_same() -> None:
    def refuse() -> PostgresStore:
        raise StoreError("its folder is in use")

    async def story() -> None:
        ahead = ReadingAhead(refuse, 100, restore)
        ahead.answered(1, 7, doubts=True)
        assert await ahead.finish() is None
        away = Stores("postgresql://hall@127.0.0.1:1/none")
        ahead = ReadingAhead(away.make, 100, restore)
        ahead.answered(1, 7, doubts=True)
        assert await ahead.finish() == Successor(away.made[0], None)
        await ahead.close()
        away.made[0].close()

    asyncio.run(story())


async def _ask_until_it_reads(ahead: ReadingAhead) -> Successor:
    """PostgreSQL frees the lock of a connection a moment after that was closed."""
    now_us, read = 1, None
    async with asyncio.timeout(PATIENCE_S):
        while read is None:
            now_us += RETRY_US
            ahead.answered(now_us, 7, doubts=True)
            read = await ahead.finish()
    return read


def test_one_member_reads_and_the_next_one_when_that_has_given_up(tmp_path: Path) -> None:
    stores = Stores(postgres_url(tmp_path))
    stores.make().migrate()

    async def story() -> None:
        first, second = ReadingAhead(stores.make, 100, restore), ReadingAhead(stores.make, 100, restore)
        first.answered(1, 7, doubts=True)
        taken = await first.finish()
        assert taken is not None
        second.answered(1, 7, doubts=True)
        assert await second.finish() is None
        assert (first.another_reads, second.another_reads) == (False, True)
        taken.store.close()
        second.answered(RETRY_US, 7, doubts=True)
        assert await second.finish() is None, "it is not asked so soon"
        later = await _ask_until_it_reads(second)
        assert not second.another_reads
        later.store.close()

    asyncio.run(story())


def test_the_member_that_has_taken_over_lets_others_read(tmp_path: Path) -> None:
    stores = Stores(postgres_url(tmp_path))
    first, second = stores.make(), stores.make()
    first.migrate()
    first = stores.make()
    assert first.may_read_ahead()
    assert not second.may_read_ahead()
    first.read_ahead(100, lambda: False)
    first.load(100)
    assert second.may_read_ahead()
    second.close()
    first.close()
