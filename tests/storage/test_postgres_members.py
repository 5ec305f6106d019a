"""The connection of a member for its beats."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Final

from store_house import ignore, postgres_url

from hiringhall.storage.contract import Retention
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.members import MemberLink, Wish

if TYPE_CHECKING:
    from pathlib import Path

LONG_S: Final = 120.0


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


def test_a_member_that_waits_hears_at_once_that_the_active_role_is_to_move_and_that_it_is_free(
    tmp_path: Path,
) -> None:
    url = postgres_url(tmp_path)

    async def wait_for(store: PostgresStore) -> None:
        east, operator = MemberLink(url, "east"), MemberLink(url, "operator")
        try:
            await east.look()  # it is connected from here on
            asked = asyncio.ensure_future(east.pause(LONG_S))
            await operator.ask(Wish(store.incarnation))
            await asked
            released = asyncio.ensure_future(east.pause(LONG_S))
            await asyncio.to_thread(store.close)
            await released
            assert not (await east.look()).open
        finally:
            await east.close()
            await operator.close()

    with closing(PostgresStore(url, Retention(), ignore, Member("west"))) as store:
        store.load(0)
        asyncio.run(asyncio.wait_for(wait_for(store), LONG_S / 2))
