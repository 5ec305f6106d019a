"""What a store on PostgreSQL does when the server, the connection or another hall fails it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from postgres_stage import EAST, WEST, Blocker, Copy, Proxy, end_backends, ids, name_of, opened
from store_house import ignore
from store_rows import DAY_US, NOW_US, TERMS, batch, end, job

from hiringhall.storage.contract import OutcomeUnknown, QueueRetention, Retention, StoreError
from hiringhall.storage.opening import open_history, open_store, shown
from hiringhall.storage.postgres import (
    Fenced,
    Member,
    PostgresStore,
    connecting,
    receipts,
    schema,
    shelving,
)
from hiringhall.storage.postgres.members import MemberLink
from stage.databases import postgres_server, postgres_url
from stage.ports import free_port
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(opened(url)) as made:
        yield made


@pytest.fixture
def crashing() -> Iterator[PostgresServer]:
    """A server that may crash: it syncs."""
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))  # its user cannot enter the folders of pytest
    server = PostgresServer(folder, safe=True)
    server.create()
    server.start()
    yield server
    server.remove()
    shutil.rmtree(folder, ignore_errors=True)


def warm_up(store: PostgresStore) -> None:
    """Commit jobs 1 and 2. The statement is prepared then: the next commit is a single question."""
    store.commit(batch(inserts=[job(1)]), NOW_US)
    store.commit(batch(inserts=[job(2)]), NOW_US)


def test_a_beat_does_not_count_once_another_process_has_the_name(url: str) -> None:
    async def beat() -> list[bool]:
        ann, other = MemberLink(url, "ann"), MemberLink(url, "ann")
        try:
            incarnation = await ann.join(Member("ann"))
            before = await ann.beat(incarnation)
            await other.join(Member("ann"))
            return [standing.counted for standing in (before, await ann.beat(incarnation), await ann.look())]
        finally:
            await ann.close()
            await other.close()

    assert asyncio.run(beat()) == [True, False, False]


def test_a_beat_does_not_count_for_another_member_that_got_the_same_incarnation(url: str) -> None:
    """A crash may undo that a number was given: then it is given again."""

    async def beat() -> list[bool]:
        ann, bob = MemberLink(url, "ann"), MemberLink(url, "bob")
        try:
            incarnation = await bob.join(Member("bob"))
            return [(await link.beat(incarnation)).counted for link in (ann, bob)]
        finally:
            await ann.close()
            await bob.close()

    assert asyncio.run(beat()) == [False, True]


def test_the_questions_of_a_member_wait_for_each_other(url: str) -> None:
    async def ask() -> int:
        link = MemberLink(url, "ann")
        try:
            incarnation = await link.join(Member("ann"))
            many = [link.beat(incarnation) for _ in range(5)]
            await asyncio.gather(*many, link.publish(incarnation, "[]"))
            (state,) = await link.members()
            return state.beat
        finally:
            await link.close()

    assert asyncio.run(ask()) == 5


class TestLostConnections:
    def test_a_connection_that_was_ended_between_two_commits_is_not_noticed(
        self, url: str, store: PostgresStore
    ) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        end_backends(url)
        store.commit(batch(inserts=[job(2)]), NOW_US)
        end_backends(url)
        assert ids(store) == [1, 2]

    def test_a_store_displaced_by_a_connection_that_was_given_up_connects_again(
        self, url: str, store: PostgresStore
    ) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        postgres_server().sql("UPDATE hiringhall.writer SET backend = 1", name_of(url))
        with pytest.raises(OutcomeUnknown):
            store.commit(batch(inserts=[job(2)]), NOW_US)
        assert not store.settle()
        store.commit(batch(inserts=[job(2)]), NOW_US)
        assert ids(store) == [1, 2]

    def test_a_commit_whose_answer_is_lost_is_found_to_be_kept(self, url: str) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            warm_up(store)
            proxy.cut_answers()
            with pytest.raises(OutcomeUnknown, match="it is not known whether the last commit is kept"):
                store.commit(batch(inserts=[job(3)]), NOW_US)
            proxy.heal()
            assert store.settle() is True
            assert ids(store) == [1, 2, 3]
            assert store.count() == (3, 0)
            store.commit(batch(ends=[end(1), end(2), end(3)], deletes=[1, 2, 3]), NOW_US)
            assert store.count() == (0, 3)

    def test_a_commit_that_did_not_arrive_is_found_not_to_be_kept(self, url: str) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            proxy.cut_questions()
            with pytest.raises(OutcomeUnknown):
                store.commit(batch(inserts=[job(2)]), NOW_US)
            with pytest.raises(StoreError):
                store.commit(batch(inserts=[job(3)]), NOW_US)
            proxy.heal()
            assert store.settle() is False
            store.commit(batch(inserts=[job(2)]), NOW_US)
            assert ids(store) == [1, 2]

    def test_settling_fails_while_the_server_cannot_be_reached(self, url: str) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            warm_up(store)
            proxy.cut_answers()
            with pytest.raises(OutcomeUnknown):
                store.commit(batch(inserts=[job(3)]), NOW_US)
            proxy.close_listener()
            with pytest.raises(StoreError, match="cannot be reached"):
                store.settle()
            proxy.heal()
            assert store.settle() is True

    def test_a_backend_that_still_works_on_a_commit_is_waited_for(self, url: str) -> None:
        """Its answer is lost, and it is held up by a lock: the outcome is known when it is through."""
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            blocker = Blocker(url, "LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
            proxy.cut_when_silent()
            with pytest.raises(OutcomeUnknown):
                store.commit(batch(inserts=[job(2)]), NOW_US)
            proxy.heal()
            blocker.release()
            kept = store.settle()
            assert ids(store) == ([1, 2] if kept else [1])
            store.commit(batch(inserts=[job(3)]), NOW_US)
            assert ids(store) == ([1, 2, 3] if kept else [1, 3])

    def test_a_commit_stays_in_doubt_until_the_store_has_found_out_all_it_needs(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first question is answered, and the next one is not: then all is asked again."""
        monkeypatch.setitem(connecting._SESSION, "lock_timeout", "100ms")
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            warm_up(store)
            proxy.cut_answers()
            with pytest.raises(OutcomeUnknown):
                store.commit(batch(inserts=[job(3)]), NOW_US)
            proxy.heal()
            blocker = Blocker(url, "LOCK TABLE counts IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError, match="somebody has locked a table"):
                store.settle()
            blocker.release()
            assert store.settle() is True
            assert store.count() == (3, 0)


"""The size of a job in the tests of large commits."""


class TestTheServer:
    def test_a_crash_loses_nothing_and_the_store_goes_on(self, crashing: PostgresServer) -> None:
        with closing(opened(crashing.url())) as store:
            store.commit(batch(inserts=[job(1)], ends=[end(5)]), NOW_US)
            crashing.stop("immediate")
            with pytest.raises(StoreError, match=r"cannot be reached|starting up"):
                store.commit(batch(inserts=[job(2)]), NOW_US)
            with pytest.raises(StoreError):
                store.probe()
            crashing.start()
            store.probe()
            store.commit(batch(inserts=[job(2)]), NOW_US)
            assert ids(store) == [1, 2]
            assert store.count() == (2, 1)

    def test_a_database_that_went_back_is_brought_up_to_date(self, url: str) -> None:
        """As after a fail-over to a replica that lagged behind."""
        said: list[str] = []
        with closing(opened(url, warn=said.append)) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            go_back = Copy(url)
            store.commit(batch(inserts=[job(2)], ends=[end(1)], deletes=[1]), NOW_US)
            store.commit(batch(ends=[end(3, ended_us=NOW_US + DAY_US)]), NOW_US)
            go_back.restore()
            store.commit(batch(inserts=[job(4)]), NOW_US)
            assert ids(store) == [2, 4]
            assert store.count() == (2, 2)
        assert [line for line in said if "lost 2 commits" in line and "all of them were written again" in line]

    def test_lost_commits_that_are_not_known_any_more_are_named(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receipts, "KEPT_BYTES", 0)
        said: list[str] = []
        with closing(opened(url, warn=said.append)) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            go_back = Copy(url)
            lost = [*range(77, 100), *range(200, 400, 2)]
            store.commit(batch(inserts=[job(number) for number in lost]), NOW_US)
            go_back.restore()
            store.commit(batch(inserts=[job(4)]), NOW_US)
            assert ids(store) == [1, 4]
        assert [line for line in said if "lost 1 commits" in line and "123 jobs had changed" in line]
        named = [line for line in said if line.startswith("lost changes of jobs: ")]
        assert named[0].startswith("lost changes of jobs: 77-99, 200, 202, ")
        assert named[-1].endswith(" 398")
        assert max(map(len, named)) < 1000, "the log cuts longer lines"

    def test_a_database_that_went_back_is_brought_up_to_date_when_that_failed_at_first(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(connecting._SESSION, "lock_timeout", "100ms")
        with closing(opened(url)) as store:
            store.commit(batch(inserts=[job(1)]), NOW_US)
            go_back = Copy(url)
            for number in range(2, 5):
                store.commit(batch(inserts=[job(number)]), NOW_US)
            go_back.restore()
            blocker = Blocker(url, "LOCK TABLE jobs IN SHARE MODE")
            with pytest.raises(StoreError, match="somebody has locked a table"):
                store.commit(batch(inserts=[job(5)]), NOW_US)
            blocker.release()
            store.commit(batch(inserts=[job(5)]), NOW_US)
            assert ids(store) == [1, 2, 3, 4, 5]
            assert store.count() == (5, 0)

    def test_a_read_only_server_is_refused(self, url: str) -> None:
        name = name_of(url)
        postgres_server().sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(StoreError, match="is read-only, as a standby is: give the address of the primary"):
            opened(url)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"password": "wrong"}, "refuses this user: check the user and the password"),
            ({"user": "nobody"}, "refuses this user"),
            ({"database": "nothing_here"}, "does not exist: create it with createdb"),
        ],
    )
    def test_what_is_wrong_with_the_url_is_said(self, changed: dict[str, str], message: str) -> None:
        with pytest.raises(StoreError, match=message) as raised:
            opened(postgres_server().url(**changed))
        assert "secret" not in str(raised.value)
        assert "wrong@" not in str(raised.value)

    def test_a_server_that_is_not_there(self) -> None:
        with pytest.raises(StoreError, match="cannot be reached: is PostgreSQL running there"):
            opened(f"postgresql://hall@127.0.0.1:{free_port()}/hall")

    def test_a_database_of_a_newer_version_is_left_alone(self, url: str) -> None:
        postgres_server().sql("UPDATE hiringhall.meta SET value = 99", name_of(url))
        with pytest.raises(StoreError, match="was written by a newer hiringhall"):
            opened(url)

    def test_settings_that_lose_commits_are_warned_of(self, url: str) -> None:
        said: list[str] = []
        postgres_server().sql(f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
        opened(url, warn=said.append).close()
        assert [line for line in said if "synchronous_commit is off" in line]


class TestOtherHalls:
    def test_a_database_that_a_hall_has_open_is_refused(
        self, url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("hiringhall.storage.postgres.membership.IN_USE_S", 0.2)
        with pytest.raises(StoreError, match=r"hall east has .* open: stop it first"):
            opened(url, WEST)
        store.commit(batch(inserts=[job(1)]), NOW_US)

    def test_whoever_was_replaced_commits_nothing_more(self, url: str, store: PostgresStore) -> None:
        store.commit(batch(inserts=[job(1)]), NOW_US)
        with closing(opened(url, WEST, take_over=True)) as other:
            assert ids(other) == [1]
            with pytest.raises(Fenced, match="another hall has taken over"):
                store.commit(batch(inserts=[job(2)]), NOW_US)
            with pytest.raises(Fenced):
                store.check()
            other.commit(batch(inserts=[job(3)]), NOW_US)
            assert ids(other) == [1, 3]

    def test_whoever_was_replaced_drops_nothing_more(self, url: str, store: PostgresStore) -> None:
        store.commit(batch(ends=[end(1)]), NOW_US)
        with closing(opened(url, WEST, take_over=True)) as other:
            with pytest.raises(StoreError):
                store.commit(batch(), NOW_US + 30 * DAY_US)
            assert other.count() == (0, 1)

    @pytest.mark.parametrize("arrives", [True, False])
    def test_a_hall_that_was_replaced_still_learns_what_became_of_its_last_commit(
        self, url: str, *, arrives: bool
    ) -> None:
        with closing(Proxy(postgres_server().port)) as proxy, closing(opened(proxy.url(url))) as store:
            warm_up(store)
            if arrives:
                proxy.cut_answers()
            else:
                proxy.cut_questions()
            with pytest.raises(OutcomeUnknown):
                store.commit(batch(inserts=[job(3)]), NOW_US)
            with closing(opened(url, WEST, take_over=True)) as other:
                assert ids(other) == ([1, 2, 3] if arrives else [1, 2])
                proxy.heal()
                assert store.settle() is arrives
                with pytest.raises(Fenced):
                    store.commit(batch(inserts=[job(4)]), NOW_US)

    def test_each_opening_has_a_larger_incarnation(self, url: str) -> None:
        found = []
        for member in (EAST, WEST, EAST):
            with closing(opened(url, member, take_over=True)) as made:
                found.append(made.incarnation)
        assert found == [1, 2, 3]


class TestHistory:
    def test_unused_terms_are_swept_when_there_are_many(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "TERMS_MAX", 1)
        terms = [TERMS.replace(lease_us=number) for number in range(1, 5)]
        with closing(opened(url)) as store:
            store.commit(batch(inserts=[job(n, terms=terms[n - 1]) for n in range(1, 5)]), NOW_US)
            store.commit(batch(ends=[end(1, terms=terms[1])], deletes=[1]), NOW_US)
        postgres_server().sql("DELETE FROM hiringhall.jobs WHERE id = 4", name_of(url))
        with closing(opened(url)) as store:
            assert [row.terms.lease_us for row in store.live()] == [2, 3]
        assert postgres_server().sql("SELECT count(*) FROM hiringhall.terms", name_of(url)) == "2"

    def test_a_large_day_is_dropped_as_a_whole_when_all_of_it_is_too_old(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(shelving, "DAY_LINES_MIN", 10)
        day_us = NOW_US - NOW_US % DAY_US
        with closing(PostgresStore(url, Retention(age_us=DAY_US), ignore, EAST)) as store:
            store.load(0)
            store.commit(batch(ends=[end(i, ended_us=day_us + i) for i in range(1, 21)]), day_us + 100)
            store.commit(batch(ends=[end(30, ended_us=day_us + DAY_US)]), day_us + DAY_US)
            store.commit(batch(), day_us + DAY_US + DAY_US // 2)
            assert store.count() == (0, 21)
            store.commit(batch(), day_us + 2 * DAY_US)
            assert store.count() == (0, 1)
        tables = postgres_server().sql(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'hiringhall.history'::regclass", name_of(url)
        )
        assert tables == "1"

    def test_a_row_that_cannot_be_read_is_moved_to_the_quarantine(self, url: str) -> None:
        said: list[str] = []
        with closing(opened(url, warn=said.append)) as store:
            store.commit(batch(inserts=[job(1), job(2)], ends=[end(3), end(4)]), NOW_US)
        postgres_server().sql(
            "UPDATE hiringhall.jobs SET extras = '\\xff' WHERE id = 1;"
            " UPDATE hiringhall.history SET state = 9 WHERE id = 3",
            name_of(url),
        )
        store = PostgresStore(url, Retention(), said.append, EAST)
        with closing(store):
            loaded = store.load(100)
            assert [row.id for row in loaded.jobs] == [2]
            assert [row.id for row in loaded.ended] == [4]
            assert store.count() == (1, 1)
        with closing(open_history(url)) as reader:
            found = reader.quarantined()
        assert [(row.source, row.id) for row in found] == [("jobs", 1), ("history", 3)]
        assert len([line for line in said if "was moved to the quarantine" in line]) == 2

    def test_lines_follow_the_rules_of_their_queue_when_these_change(self, url: str) -> None:
        with closing(opened(url)) as store:
            store.commit(batch(ends=[end(1, queue=b"own"), end(2), end(3, queue=b"own", state=5)]), NOW_US)
        ruled = Retention(queues={b"own": QueueRetention(rows_max=1)})
        with closing(PostgresStore(url, ruled, ignore, EAST)) as store:
            store.load(0)
            assert store.count() == (0, 3)
            store.commit(batch(ends=[end(4, queue=b"own", ended_us=NOW_US + 1)]), NOW_US)
            assert store.count() == (0, 2)
        with closing(opened(url)) as store:
            assert store.count() == (0, 2)
            assert [row.id for row in store.latest_ends([2, 3, 4])] == [2, 3]


def test_a_place_is_shown_without_its_password(tmp_path: Path) -> None:
    assert shown("postgresql://ann:secret@db.example:5432/hall?sslmode=require") == (
        "postgresql://ann@db.example:5432/hall"
    )
    assert shown(f"sqlite:{tmp_path}") == str(tmp_path)
    assert shown("postgresql://ann@one:1,two:2/hall") == "postgresql://ann@one:1,two:2/hall"
    assert shown("postgresql:///hall?host=/run/postgresql") == "postgresql:///hall"
    assert shown("postgresql://ann:a@b@one/hall") == "postgresql://ann@one/hall"
    assert shown("mysql://ann:secret@one/hall") == "mysql://..."


@pytest.mark.parametrize("password", ["sec/ret", "sec?ret", "sec#ret", "s@sec/ret", "[secret"])
def test_a_password_that_is_not_encoded_is_not_shown(password: str) -> None:
    url = f"postgresql://ann:{password}@127.0.0.1:1/hall"
    with pytest.raises(StoreError) as caught, closing(open_history(url)):
        pass
    assert "sec" not in str(caught.value)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ann@127.0.0.1:port/hall", "is not a URL of a database: give postgresql://USER"),
        ("postgresql://[bad/hall", "is not a URL of a database: give postgresql://USER"),
        ("postgresql://ann@127.0.0.1:1/hall?sslmode=bogus", "cannot be used: `sslmode` parameter must be"),
    ],
)
def test_a_url_that_cannot_be_read_is_named(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says), closing(open_history(url)):
        pass


@pytest.mark.parametrize("scheme", ["mysql", "postgress", "Postgresql"])
def test_a_url_of_something_else_is_not_taken_for_a_folder(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"{scheme}://... is no place for data: give a folder"):
        open_store(f"{scheme}://ann:secret@host/{tmp_path}", None, ignore)


def test_a_database_without_a_hall_is_named() -> None:
    server = postgres_server()
    server.sql("CREATE DATABASE without_a_hall")

    async def look() -> None:
        link = MemberLink(server.url("without_a_hall"), "operator")
        try:
            await link.members()
        finally:
            await link.close()

    with pytest.raises(StoreError, match=r"has no tables of a hall .*: start a hall on it once"):
        asyncio.run(look())


def test_a_store_is_opened_inside_a_running_event_loop(url: str) -> None:
    async def run() -> list[int]:
        store = open_store(url, Retention(), ignore)
        with closing(store):
            list(store.load(0).jobs)
            store.commit(batch(inserts=[job(1)]), NOW_US)
            return [row.id for row in store.live()]

    assert asyncio.run(run()) == [1]
