"""The beats of the active hall, with a real database."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

from hiringhall.cluster.beating import Beats
from hiringhall.storage.contract import Retention
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.members import MemberLink
from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PUBLISHED_S_MAX = 20.0
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON halls FOR EACH ROW EXECUTE FUNCTION refuse()
"""


def test_an_address_that_could_not_be_published_is_published_with_a_later_beat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres_url(tmp_path)

    def sql(statement: str) -> str:
        return postgres_server().sql(f"SET search_path = hiringhall; {statement}", url.rpartition("/")[2])

    async def publish(incarnation: int) -> None:
        beats = Beats(MemberLink(url, "east"), lambda: incarnation, lambda: time.monotonic_ns() // 1000)
        beats.start()
        try:
            await beats.publish("[1]")
            assert "do not know yet where this hall listens" in caplog.text
            # In a thread: a beat needs the loop while the database is asked.
            await asyncio.to_thread(sql, "DROP TRIGGER refuse ON halls")
            async with asyncio.timeout(PUBLISHED_S_MAX):
                while await asyncio.to_thread(sql, "SELECT address FROM halls") != "[1]":
                    pass
        finally:
            await beats.end()

    with closing(PostgresStore(url, Retention(), lambda _: None, Member("east"))) as store:
        store.load(0)
        sql(REFUSE)
        asyncio.run(publish(store.incarnation))


def test_an_address_that_the_server_has_lost_is_published_again(tmp_path: Path) -> None:
    url = postgres_url(tmp_path)

    async def publish(incarnation: int) -> None:
        link, operator = MemberLink(url, "east"), MemberLink(url, "operator")
        beats = Beats(link, lambda: incarnation, lambda: time.monotonic_ns() // 1000)
        beats.start()
        try:
            await beats.publish("[1]")
            await operator.publish(incarnation, "")  # as before a crash that undoes it
            async with asyncio.timeout(PUBLISHED_S_MAX):
                while (await operator.look()).address != "[1]":
                    pass
        finally:
            await beats.end()
            await operator.close()

    with closing(PostgresStore(url, Retention(), lambda _: None, Member("east"))) as store:
        store.load(0)
        asyncio.run(publish(store.incarnation))


def test_beats_that_end_with_an_error_are_reported_to_the_loop() -> None:
    def fail() -> int:
        raise ValueError("a bug")

    async def beat() -> list[str]:
        reported: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(str(context.get("exception")))
        )
        beats = Beats(MemberLink("postgresql://127.0.0.1:1/none", "east"), fail, lambda: 0)
        beats.start()
        for _ in range(3):
            await asyncio.sleep(0)
        await beats.end()
        return reported

    assert asyncio.run(beat()) == ["a bug"]
