"""When a standby reads the jobs ahead, and what becomes of the store that has read them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hiringhall.cluster.reading_ahead import PAUSE_US, ReadingAhead
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.postgres import Member, PostgresStore
from stage.databases import postgres_url

if TYPE_CHECKING:
    from pathlib import Path


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
    stores = Stores(postgres_url(tmp_path))

    async def story() -> None:
        ahead = ReadingAhead(stores.make)
        ahead.answered(1, doubts=False)
        assert await ahead.finish() is None
        ahead.answered(2, doubts=True)
        ahead.answered(3, doubts=True)
        ahead.answered(4, doubts=False)
        await ahead.close()
        assert (len(stores.made), stores.closed) == (1, 1)
        ahead.answered(5, doubts=True)
        assert await ahead.finish() is None, "not again so soon"
        ahead.answered(2 + PAUSE_US, doubts=True)
        taken = await ahead.finish()
        await ahead.close()
        assert taken is stores.made[1]
        assert stores.closed == 1, "it is the caller's now"
        taken.close()

    asyncio.run(story())


def test_a_standby_that_cannot_read_ahead_takes_over_all_the_same() -> None:
    def refuse() -> PostgresStore:
        raise StoreError("its folder is in use")

    async def story() -> None:
        ahead = ReadingAhead(refuse)
        ahead.answered(1, doubts=True)
        assert await ahead.finish() is None
        away = Stores("postgresql://hall@127.0.0.1:1/none")
        ahead = ReadingAhead(away.make)
        ahead.answered(1, doubts=True)
        assert await ahead.finish() is away.made[0]
        await ahead.close()
        away.made[0].close()

    asyncio.run(story())
