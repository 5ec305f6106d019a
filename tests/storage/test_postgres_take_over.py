"""How a member becomes active in place of another: by whom it is stopped, and with which jobs it goes on."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from postgres_stage import EAST, WEST, end_backends, ids, name_of, opened
from store_house import ignore, postgres_url
from store_rows import NOW_US, batch, end, job

from hiringhall.core.changes import Firing, FlowRow, Loaded, WindowRow
from hiringhall.core.rules.queue_rules import QueueRules
from hiringhall.core.states import FAILED
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.postgres import Fenced, Member, PostgresStore, ahead
from hiringhall.storage.postgres.members import MemberLink
from hiringhall.storage.postgres.membership import Claim, Predecessor, take_over
from stage.databases import postgres_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

NORTH = Member("north", "north:1")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """The active hall, with one job."""
    with closing(opened(url)) as made:
        made.commit(batch(inserts=[job(1)]), NOW_US)
        yield made


def sql(url: str, statement: str) -> str:
    return postgres_server().sql(f"SET search_path = hiringhall; {statement}", name_of(url))


def successor(url: str, seen: Predecessor, member: Member = WEST) -> PostgresStore:
    """A store that takes over when it is loaded."""
    made = PostgresStore(url, Retention(), ignore, member)
    made.take_over_from(seen)
    return made


def beat_once(url: str, store: PostgresStore) -> Predecessor:
    """The active hall beats; how a standby sees it then."""

    async def beat() -> Predecessor:
        link = MemberLink(url, EAST.name)
        try:
            await link.beat(store.incarnation)
            standing = await link.look()
            return Predecessor(standing.incarnation, standing.beat)
        finally:
            await link.close()

    return asyncio.run(beat())


def never() -> bool:
    return False


def test_nobody_takes_over_from_a_hall_that_beats_again(url: str, store: PostgresStore) -> None:
    seen = beat_once(url, store)
    now = beat_once(url, store)
    with pytest.raises(StoreError, match="beats again: nothing was taken over"):
        successor(url, seen).load(100)
    store.commit(batch(inserts=[job(2)]), NOW_US)
    with closing(successor(url, now)) as in_time:
        in_time.load(100)
        with pytest.raises(Fenced):
            store.commit(batch(inserts=[job(3)]), NOW_US)


class SlowConnection:
    """A connection to the database, on the way to which something else happens before certain words."""

    def __init__(self, connection: Any, words: str, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._connection = connection
        self._words = words
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: str, *values: object) -> object:
        if self._words in statement:
            await self._meanwhile()
        return await self._connection.execute(statement, *values)


def test_of_two_members_that_take_over_at_once_the_slower_leaves_the_faster_alone(
    url: str, store: PostgresStore
) -> None:
    """Both have seen that the first hall is silent. The slower one comes to end its connection when the faster
    one is active already.
    """
    seen = beat_once(url, store)

    async def race() -> tuple[Claim, int]:
        fast, slow = [
            await asyncpg.connect(url, server_settings={"search_path": "hiringhall"}) for _ in range(2)
        ]
        claims: list[Claim] = []

        async def be_faster() -> None:
            claims.append(await take_over(fast, WEST, seen))

        try:
            with pytest.raises(StoreError, match="is not active any more"):
                await take_over(SlowConnection(slow, "pg_terminate_backend", be_faster), NORTH, seen)
            return claims[0], await fast.fetchval(
                "SELECT incarnation FROM writer WHERE backend = pg_backend_pid()"
            )
        finally:
            await fast.close()
            await slow.close()

    claim, incarnation = asyncio.run(race())
    assert claim.incarnation == incarnation, "the faster one is active, on the connection that it had"


class TestReadAhead:
    """The table of jobs is changed past the halls, to see whether it is read again."""

    def test_what_was_read_ahead_is_not_read_again(self, url: str, store: PostgresStore) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            read = read_ahead(taken)
            sql(url, "UPDATE jobs SET payload = 'changed'")
            loaded = taken.load(100)
            assert (loaded.unchanged, loaded.epoch) == (True, taken.incarnation)
            assert not [*loaded.jobs, *loaded.ended]
            assert [row.payload for row in read.jobs] == [job(1).payload]
            assert ids(taken) == [1]

    def test_it_is_read_again_if_the_active_hall_has_committed_since(
        self, url: str, store: PostgresStore
    ) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            read_ahead(taken)
            store.commit(batch(inserts=[job(2)]), NOW_US)
            assert read_again(taken) == [1, 2]

    def test_a_commit_that_leaves_as_many_jobs_counts_too(self, url: str, store: PostgresStore) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            read_ahead(taken)
            store.commit(batch(inserts=[job(2)], deletes=[1]), NOW_US)
            assert read_again(taken) == [2]

    def test_it_is_read_again_if_a_job_was_taken_out_without_a_commit(
        self, url: str, store: PostgresStore
    ) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            read_ahead(taken)
            sql(url, "UPDATE writer SET jobs = 0; DELETE FROM jobs")
            assert read_again(taken) == []

    def test_it_is_read_again_on_a_new_connection(self, url: str, store: PostgresStore) -> None:
        """The server may be another one now."""
        with closing(successor(url, beat_once(url, store))) as taken:
            read_ahead(taken)
            end_backends(url)
            assert read_again(taken) == [1]

    def test_it_is_read_again_by_a_store_that_was_closed(self, url: str, store: PostgresStore) -> None:
        seen = beat_once(url, store)
        with closing(successor(url, seen)) as taken:
            read_ahead(taken)
            taken.close()
            assert read_again(taken) == [1]

    def test_reading_ends_when_the_jobs_are_unwanted(self, url: str, store: PostgresStore) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            assert taken.read_ahead(100, lambda: True) is None
            assert read_again(taken) == [1]

    def test_a_job_that_cannot_be_decoded_is_set_aside_by_the_hall_that_is_active(
        self, url: str, store: PostgresStore
    ) -> None:
        store.commit(batch(inserts=[job(2)]), NOW_US)
        sql(url, "UPDATE jobs SET state = 99 WHERE id = 1")
        with closing(successor(url, beat_once(url, store))) as taken:
            assert taken.read_ahead(100, never) is None
            assert sql(url, "SELECT count(*) FROM quarantine") == "0"
            assert read_again(taken) == [2]
            assert sql(url, "SELECT count(*) FROM quarantine") == "1"

    def test_the_latest_lines_are_read_ahead_too(self, url: str, store: PostgresStore) -> None:
        store.commit(batch(ends=[end(10 + n, ended_us=NOW_US - n) for n in range(5)]), NOW_US)
        with closing(successor(url, beat_once(url, store))) as taken:
            read = read_ahead(taken, 3)
            sql(url, "UPDATE history SET worker = 'changed'")
            assert taken.load(3).unchanged
            lines = list(read.ended)
            assert [row.id for row in lines] == [12, 11, 10], "oldest first"
            assert {row.worker for row in lines} == {end(10).worker}

    def test_all_else_that_a_hall_loads_is_read_ahead_too(self, url: str, store: PostgresStore) -> None:
        changed = batch()
        changed.fired["nightly"] = Firing(5, b"plan")
        changed.paused[b"q"] = True
        changed.rules[b"q"] = QueueRules(running_max=3)
        changed.windows[b"q", b"k"] = WindowRow(b"q", b"k", 1, NOW_US)
        changed.flows[b"f"] = FlowRow(b"f", 1, 2, 3, 4, 5)
        store.commit(changed, NOW_US)
        with closing(successor(url, beat_once(url, store))) as taken:
            read = read_ahead(taken)
            assert taken.load(100).unchanged
        with closing(PostgresStore(url, Retention(), ignore, NORTH)) as another:
            assert read[3:] == another.load(100)[3:]
        assert (read.fired, read.paused) == ({"nightly": Firing(5, b"plan")}, [b"q"])

    def test_it_is_read_again_if_a_queue_was_paused_since(self, url: str, store: PostgresStore) -> None:
        with closing(successor(url, beat_once(url, store))) as taken:
            read_ahead(taken)
            changed = batch()
            changed.paused[b"q"] = True
            store.commit(changed, NOW_US)
            loaded = taken.load(100)
            assert (loaded.unchanged, loaded.paused) == (False, [b"q"])

    def test_rules_that_cannot_be_read_are_named_by_the_hall_that_is_active(
        self, url: str, store: PostgresStore
    ) -> None:
        sql(url, "INSERT INTO queue_rules (queue, rules) VALUES ('q', 'nonsense')")
        with closing(successor(url, beat_once(url, store))) as taken:
            assert taken.read_ahead(100, never) is None
            assert read_again(taken) == [1]

    def test_a_line_that_cannot_be_decoded_is_set_aside_by_the_hall_that_is_active(
        self, url: str, store: PostgresStore
    ) -> None:
        store.commit(batch(ends=[end(10), end(11)]), NOW_US)
        sql(url, "UPDATE history SET state = 99 WHERE id = 10")
        with closing(successor(url, beat_once(url, store))) as taken:
            assert taken.read_ahead(100, never) is None
            assert sql(url, "SELECT count(*) FROM quarantine") == "0"
            loaded = taken.load(100)
            assert [row.id for row in loaded.ended] == [11]
            assert [row.id for row in loaded.jobs] == [1]
            assert sql(url, "SELECT count(*) FROM quarantine") == "1"

    def test_nothing_is_read_ahead_if_the_lines_have_large_payloads(
        self, url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ahead, "END_BYTES_MAX", 1000)
        store.commit(batch(ends=[end(n, state=FAILED, payload=bytes(300)) for n in range(10, 14)]), NOW_US)
        with closing(successor(url, beat_once(url, store))) as taken:
            assert taken.read_ahead(100, never) is None
            assert read_again(taken) == [1]


def read_ahead(store: PostgresStore, ended_max: int = 100) -> Loaded:
    """What a standby reads."""
    read = store.read_ahead(ended_max, never)
    assert read is not None
    return read


def read_again(store: PostgresStore) -> list[int]:
    """Load the store, which uses nothing that was read ahead: the ids of its jobs."""
    loaded = store.load(100)
    assert not loaded.unchanged
    return [row.id for row in loaded.jobs]
