"""Documents of a data folder and of a database: replaced as a whole, and not by a hall that was replaced."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from postgres_stage import end_backends
from store_house import ignore
from store_rows import NOW_US, batch, job

from hiringhall.access.tokens import TokenList, TokensError
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.plan import Plan
from hiringhall.storage.contract import Retention, StoreError
from hiringhall.storage.documents import DocumentError
from hiringhall.storage.opening import find_active, open_documents
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres import documents as postgres_documents
from stage.databases import postgres_server, postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.storage.documents import Documents

NAME = "some.json"
LONG = 1 << 20
HOURLY = Plan(name="hourly", queue="q", cron="0 * * * *")


@pytest.fixture(params=["folder", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return postgres_url(tmp_path) if request.param == "database" else str(tmp_path / "data")


@pytest.fixture
def documents(place: str) -> Iterator[Documents]:
    with closing(open_documents(place)) as opened:
        yield opened


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


def put(documents: Documents, content: bytes, name: str = NAME) -> None:
    documents.change(name, LONG, lambda _: content)


def test_a_document_is_what_was_written_last(documents: Documents, place: str) -> None:
    assert documents.read(NAME, LONG) is None
    assert documents.stamp(NAME) is None
    put(documents, b"one")
    stamps = [documents.stamp(NAME)]
    put(documents, b"\x00two")
    stamps.append(documents.stamp(NAME))
    documents.change(NAME, LONG, lambda _: None)
    assert documents.stamp(NAME) == stamps[-1], "nothing was changed"
    put(documents, b"", "empty")
    with closing(open_documents(place)) as other:
        assert other.read(NAME, LONG) == b"\x00two"
        assert other.read("empty", LONG) == b""
        assert other.stamp(NAME) == stamps[-1]
    assert len({*stamps, None}) == 3


def test_an_edit_that_fails_changes_nothing(documents: Documents) -> None:
    put(documents, b"before")

    def fail(_content: bytes | None) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        documents.change(NAME, LONG, fail)
    assert documents.read(NAME, LONG) == b"before"
    put(documents, b"after")
    assert documents.read(NAME, LONG) == b"after"


def test_a_document_that_is_too_long_is_not_read(documents: Documents) -> None:
    put(documents, b"x" * 11)
    assert documents.read(NAME, 11) == b"x" * 11
    for use in (lambda: documents.read(NAME, 10), lambda: documents.change(NAME, 10, lambda _: b"")):
        with pytest.raises(DocumentError, match=r"some\.json.* is longer than 10 bytes"):
            use()


def test_changes_at_the_same_time_are_all_kept(place: str) -> None:
    def count_up(content: bytes | None) -> bytes:
        return b"%d" % (int(content or 0) + 1)

    def change_often() -> None:
        with closing(open_documents(place)) as own:
            for _ in range(20):
                own.change(NAME, LONG, count_up)

    writers = [threading.Thread(target=change_often) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with closing(open_documents(place)) as documents:
        assert documents.read(NAME, LONG) == b"80"


def test_of_a_log_the_latest_lines_are_read(documents: Documents, place: str) -> None:
    documents.change(NAME, LONG, lambda _: b"the place exists")
    assert documents.tail("log", 10) == []
    documents.append("log", [b"1", b"2"])
    documents.append("log", [b"\xff" * 2000, b"4"])
    with closing(open_documents(place)) as other:
        assert other.tail("log", 2) == [b"\xff" * 2000, b"4"]
        assert other.tail("log", 1000) == [b"1", b"2", b"\xff" * 2000, b"4"]


def test_a_log_of_a_database_is_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_documents, "LOG_LINES_MAX", 3)
    with closing(open_documents(url)) as documents:
        for number in range(5):
            documents.append("log", [b"%d" % number])
        assert documents.tail("log", 10) == [b"2", b"3", b"4"]


def test_a_command_makes_the_tables_of_an_empty_database() -> None:
    server = postgres_server()
    server.sql("CREATE DATABASE quite_empty")
    with closing(open_documents(server.url("quite_empty"))) as documents:
        put(documents, b"kept")
        assert documents.read(NAME, LONG) == b"kept"


def test_a_database_of_an_older_version_is_left_to_a_hall(url: str) -> None:
    postgres_server().sql("UPDATE hiringhall.meta SET value = 1", url.rpartition("/")[2])
    with (
        closing(open_documents(url)) as documents,
        pytest.raises(DocumentError, match="start a hall of this version on it once"),
    ):
        documents.read(NAME, LONG)


def test_a_database_of_the_version_before_documents_is_brought_up_to_date(url: str) -> None:
    """Version 2 had the functions, and documents without a version."""
    postgres_server().sql(
        "SET search_path = hiringhall; UPDATE meta SET value = 2; DROP TABLE log_lines, queue_rules, windows;"
        " ALTER TABLE documents DROP COLUMN version; INSERT INTO documents VALUES ('some.json', 'old')",
        url.rpartition("/")[2],
    )
    with closing(PostgresStore(url, Retention(), ignore, Member("new"))) as store:
        store.load(0)
        store.commit(batch(inserts=[job(1)]), NOW_US)
    with closing(open_documents(url)) as documents:
        assert documents.read(NAME, LONG) == b"old"
        put(documents, b"new")
        assert documents.read(NAME, LONG) == b"new"


def test_a_hall_that_was_replaced_changes_no_document_and_a_command_still_does(url: str) -> None:
    first = PostgresStore(url, Retention(), ignore, Member("first"))
    first.load(0)
    second = PostgresStore(url, Retention(), ignore, Member("second"), take_over=True)
    with closing(first), closing(second), closing(open_documents(url, first.incarnation)) as documents:
        book, tokens = Book(documents), TokenList(documents)
        book.add(HOURLY)
        assert find_active(url) == "first"
        second.load(0)
        with pytest.raises(BookError, match="another hall has taken over"):
            book.remove("hourly")
        with pytest.raises(TokensError, match="another hall has taken over"):
            tokens.add("anna", "viewer", datetime.now(UTC), None)
        with (
            closing(open_documents(url, second.incarnation)) as seconds,
            closing(open_documents(url)) as command,
        ):
            Book(seconds).pauses.change("hourly", paused=True, at_us=5)
            TokenList(command).add("anna", "viewer", datetime.now(UTC), None)
        assert list(book.read()) == ["hourly"]
        assert list(book.pauses.read()) == ["hourly"]
        assert list(tokens.read() or {}) == ["anna"]
        assert find_active(url) == "second"
    assert find_active(url) == ""


def test_a_database_that_is_away_is_an_error_and_then_works_again(url: str) -> None:
    name = url.rpartition("/")[2]
    with closing(open_documents(url)) as documents:
        put(documents, b"kept")
        end_backends(url)
        postgres_server().sql(f"ALTER DATABASE {name} RENAME TO {name}_away")
        with pytest.raises(DocumentError, match="does not exist"):
            documents.read(NAME, LONG)
        postgres_server().sql(f"ALTER DATABASE {name}_away RENAME TO {name}")
        assert documents.read(NAME, LONG) == b"kept"
    with pytest.raises(StoreError, match="cannot be reached"):
        find_active("postgresql://hall@127.0.0.1:1/hall")


def test_a_check_of_the_tables_that_fails_is_an_error_and_then_works_again(url: str) -> None:
    """As when the server crashes just after a hall has connected again, which must not end the hall."""

    def rename(column: str, to: str) -> None:
        statement = f"ALTER TABLE hiringhall.meta RENAME {column} TO {to}"
        postgres_server().sql(statement, url.rpartition("/")[2])

    with closing(open_documents(url)) as documents:
        put(documents, b"kept")
        end_backends(url)
        rename("value", "away")
        for _ in range(2):  # a connection whose tables were not checked is not used
            with pytest.raises(DocumentError, match=r"column .* does not exist"):
                documents.read(NAME, LONG)
        rename("away", "value")
        assert documents.read(NAME, LONG) == b"kept"
