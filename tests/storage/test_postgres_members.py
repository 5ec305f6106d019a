"""The connection of a member for its beats."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from store_house import ignore, postgres_url

from hiringhall.storage.contract import Retention
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.members import MemberLink

if TYPE_CHECKING:
    from pathlib import Path


def test_a_member_beats_while_it_publishes_where_it_listens(tmp_path: Path) -> None:
    """Both are asked at once, on the one connection."""

    async def ask(url: str, incarnation: int) -> list[int]:
        link = MemberLink(url, "east")
        try:
            beats = [link.beat(incarnation) for _ in range(5)]
            *standing, _ = await asyncio.gather(*beats, link.publish(incarnation, "[]"))
            return [one.beat for one in standing if one is not None]
        finally:
            await link.close()

    url = postgres_url(tmp_path)
    with closing(PostgresStore(url, Retention(), ignore, Member("east"))) as store:
        store.load(0)
        seen = asyncio.run(ask(url, store.incarnation))
    assert seen == [0, 1, 2, 3, 4], "a beat tells of the ones before it"
