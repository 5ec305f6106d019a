"""A process that comes back under the name of the active hall, which is dead."""

from __future__ import annotations

import asyncio
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING

import pytest

from hiringhall.cluster.reading_ahead import ReadingAhead
from hiringhall.cluster.standby import READER_US, NameTaken, Standby
from hiringhall.cluster.suspicion import GAP_US, SILENCE_US
from hiringhall.core.limits import Limits
from hiringhall.engine.recovery import Restored, restore_ahead
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.members import MemberLink
from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import Loaded

ANN = Member("ann")
PATIENCE_S = 30.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.fixture
def active(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, Retention(), lambda _: None, ANN)) as store:
        store.load(0)
        yield store


def restore(loaded: Loaded) -> Restored:
    return restore_ahead(loaded, Limits(), 1)


def standby(link: MemberLink) -> Standby:
    """Of the same name. Its clock is fast: a second between two looks."""

    def refuse() -> PostgresStore:
        raise StoreError("nothing is read ahead here")

    times = count(1, GAP_US)
    return Standby(link, ANN, [], lambda: next(times), ReadingAhead(refuse, 100, restore))


def test_it_leaves_the_beats_of_the_active_hall_until_that_was_silent_for_too_long(
    url: str, active: PostgresStore
) -> None:
    async def story() -> None:
        link, others = MemberLink(url, "ann"), MemberLink(url, "ann")
        await others.beat(active.incarnation)
        seen = await others.look()
        try:
            async with asyncio.timeout(PATIENCE_S):
                replaced = await standby(link).wait()
            assert replaced == (active.incarnation, seen.beat)
            assert await others.look() == seen, "the others have counted its silence, too"
        finally:
            await link.close()
            await others.close()

    asyncio.run(story())


def test_it_becomes_a_member_as_soon_as_another_hall_is_active(url: str, active: PostgresStore) -> None:
    bob = PostgresStore(url, Retention(), lambda _: None, Member("bob"), take_over=True)

    async def story() -> None:
        link, others = MemberLink(url, "ann"), MemberLink(url, "bob")
        waiting = asyncio.ensure_future(standby(link).wait())
        try:
            await asyncio.to_thread(bob.load, 0)
            async with asyncio.timeout(PATIENCE_S):
                while (await others.members())[0].incarnation < bob.incarnation:
                    await others.beat(bob.incarnation)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await link.close()
            await others.close()

    with closing(bob):
        asyncio.run(story())


def test_it_joins_again_if_the_server_has_lost_that_it_joined(url: str) -> None:
    """A crash, or a fail-over, may undo what was not waited for."""
    bob = PostgresStore(url, Retention(), lambda _: None, Member("bob"))
    lose = "DELETE FROM hiringhall.halls WHERE name = 'ann'"

    async def story() -> None:
        link, others = MemberLink(url, "ann"), MemberLink(url, "bob")
        waiting = asyncio.ensure_future(standby(link).wait())

        async def joined(after: int) -> int:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    await others.beat(bob.incarnation)
                    first, *_ = await others.members()
                    if first.name == "ann" and first.incarnation > after:
                        return first.incarnation
                    assert not waiting.done(), waiting.exception()

        try:
            before = await joined(0)
            await asyncio.to_thread(postgres_server().sql, lose, url.rpartition("/")[2])
            await joined(before)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await link.close()
            await others.close()

    with closing(bob):
        bob.load(0)
        asyncio.run(story())


def test_it_ends_if_the_active_hall_beats(url: str, active: PostgresStore) -> None:
    async def story() -> None:
        link, others = MemberLink(url, "ann"), MemberLink(url, "ann")
        waiting = asyncio.ensure_future(standby(link).wait())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not waiting.done():
                    await others.beat(active.incarnation)
            with pytest.raises(NameTaken, match="another process is a member of this database as ann"):
                waiting.result()
        finally:
            await link.close()
            await others.close()

    asyncio.run(story())


@pytest.mark.parametrize(("another_reads", "after_us"), [(False, SILENCE_US), (True, SILENCE_US + READER_US)])
def test_it_leaves_a_silent_hall_to_the_member_that_reads_ahead_but_not_forever(
    url: str, active: PostgresStore, *, another_reads: bool, after_us: int
) -> None:
    """The other one reads, and never takes over."""

    def make() -> PostgresStore:
        return PostgresStore(url, Retention(), lambda _: None, Member("bob"))

    times: list[int] = []

    def now_us() -> int:
        times.append(times[-1] + GAP_US // 10 if times else 1)
        return times[-1]

    async def story() -> None:
        link, ahead = MemberLink(url, "bob"), ReadingAhead(make, 100, restore)
        await link.beat(active.incarnation)
        try:
            async with asyncio.timeout(PATIENCE_S):
                replaced = await Standby(link, Member("bob"), [], now_us, ahead).wait()
            assert replaced.incarnation == active.incarnation
        finally:
            await ahead.close()
            await link.close()

    with closing(make()) as reader:
        if another_reads:
            assert reader.may_read_ahead()
        asyncio.run(story())
    assert after_us <= times[-1] - times[0] < after_us + GAP_US
