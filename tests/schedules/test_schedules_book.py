"""Somebody adds and removes schedules: the book is whole at every moment, and understood or left alone."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hiringhall.core.limits import SECOND_US
from hiringhall.schedules import book as book_module
from hiringhall.schedules.book import Book, BookError, BookFull, put
from hiringhall.schedules.plan import Plan
from hiringhall.storage import data_folder
from hiringhall.storage.data_folder import DataFolder

if TYPE_CHECKING:
    from collections.abc import Callable

DAILY = Plan(name="daily", queue="q", cron="0 6 * * *", timezone="Europe/Vienna", payload="ü", missed="all")
OFTEN = Plan(name="often", queue="q", every_us=90 * SECOND_US, priority="low", retries=2, late_us=5)


def test_what_was_added_is_read_again_and_what_was_removed_is_not(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path / "data"))
    assert book.read() == {}
    book.add(DAILY)
    book.add(OFTEN)
    assert Book(DataFolder(tmp_path / "data")).read() == {"daily": DAILY, "often": OFTEN}
    assert book.remove("daily")
    assert not book.remove("daily")
    assert book.read() == {"often": OFTEN}
    assert list((tmp_path / "data").iterdir()) == [Path(book.where)]
    assert Path(book.where).stat().st_mode & 0o777 == 0o600


def test_to_remove_from_a_folder_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert not Book(DataFolder(tmp_path / "data")).remove("daily")
    assert list(tmp_path.iterdir()) == []


def test_what_stands_where_it_is_written_is_neither_followed_nor_in_the_way(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path / "data"))
    book.add(DAILY)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o644)
    beside = Path(book.where).with_name("schedules.json.new")
    beside.symlink_to(victim)
    book.add(OFTEN)
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o644)
    beside.write_text("left by one that died")
    book.remove("daily")
    assert Book(DataFolder(tmp_path / "data")).read() == {"often": OFTEN}
    assert list((tmp_path / "data").iterdir()) == [Path(book.where)]


def test_a_schedule_is_replaced_if_that_is_wanted(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    later = Plan(name="daily", queue="q", cron="0 7 * * *")
    assert book.add(later, replace=True) == book.read() == {"daily": later}
    assert book.discard("daily") == ({}, True)
    assert book.discard("daily") == ({}, False)


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    before = Path(book.where).read_bytes()
    with pytest.raises(BookError, match='there is already a schedule "daily"'):
        book.add(Plan(name="daily", queue="r", every_us=SECOND_US))
    assert Path(book.where).read_bytes() == before


BROKEN = [
    (b"", "was not written by `hall schedule`"),
    (b"{", "was not written by `hall schedule`"),
    (b"\xff", "was not written by `hall schedule`"),
    (b"[]", "was not written by `hall schedule`"),
    (b'{"version": 2, "schedules": []}', "version"),
    (b'{"schedules": [{"name": "x"}]}', "queue"),
    (b'{"schedules": [{"name": "x", "queue": "q", "every_us": 1000000, "when": 1}]}', "when"),
    (b'{"schedules": [{"name": "x", "queue": "q", "every_us": 1000000, "missed": "some"}]}', "missed"),
    (
        b'{"schedules": [{"name": "x", "queue": "q", "every_us": 1}]}',
        'schedule "x": every: must be "1s" or more',
    ),
    (b'{"schedules": [{"name": "x", "queue": "q", "cron": "x"}]}', 'schedule "x": cron: '),
    (
        b'{"schedules": [%s, %s]}' % ((b'{"name": "x", "queue": "q", "every_us": 1000000}',) * 2),
        "two schedules with the same name",
    ),
]


@pytest.mark.parametrize(("content", "words"), BROKEN)
def test_a_book_that_is_not_understood_is_named_and_never_written_over(
    tmp_path: Path, content: bytes, words: str
) -> None:
    book = Book(DataFolder(tmp_path))
    Path(book.where).write_bytes(content)
    actions: tuple[Callable[[], object], ...] = (book.read, lambda: book.add(DAILY), lambda: book.remove("x"))
    for action in actions:
        with pytest.raises(BookError) as caught:
            action()
        assert book.where in str(caught.value)
        assert words in str(caught.value)
    assert Path(book.where).read_bytes() == content


def test_a_book_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    Path(book.where).mkdir()
    with pytest.raises(BookError, match="cannot be read: Is a directory"):
        book.read()
    with pytest.raises(BookError, match=r"data folder .* cannot be used"):
        Book(DataFolder(Path("/dev/null/nowhere"))).add(DAILY)


def test_a_write_that_fails_leaves_the_book_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    before = Path(book.where).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(data_folder.os, "fsync", full)
        with pytest.raises(BookError, match="cannot be written: No space left on device"):
            book.add(OFTEN)
    assert Path(book.where).read_bytes() == before
    book.add(OFTEN)
    assert sorted(book.read()) == ["daily", "often"]


def test_the_book_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book_module, "PLANS_MAX", 1)
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    with pytest.raises(BookError, match="is full: it has 1 schedules"):
        book.add(OFTEN)
    monkeypatch.setattr(book_module, "BYTES_MAX", 10)
    with pytest.raises(BookError, match="is longer than 10 bytes"):
        book.read()


def test_a_book_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book_module, "BYTES_MAX", 1000)
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    for payload in ("x" * 1000, "\0" * 300):  # The second is longer in the file than in memory.
        with pytest.raises(BookFull, match="is full: all schedules together may have 1000 bytes"):
            book.add(Plan(name="long", queue="q", every_us=90 * SECOND_US, payload=payload))
    assert book.read() == {"daily": DAILY}
    plans = {"daily": DAILY}
    with pytest.raises(BookFull, match="the memory is full: all schedules together"):
        put(plans, Plan(name="long", queue="q", payload="x" * 1000), replace=False, where="the memory")


def test_many_who_add_at_once_lose_nothing_and_readers_never_see_half_a_book(tmp_path: Path) -> None:
    names = [[f"{writer}-{count}" for count in range(10)] for writer in range(4)]
    wrong: list[Exception] = []
    done = threading.Event()

    def write(mine: list[str]) -> None:
        for name in mine:
            Book(DataFolder(tmp_path)).add(Plan(name=name, queue="q", every_us=SECOND_US))

    def read() -> None:
        seen = 0
        while not done.is_set():
            try:
                now = len(Book(DataFolder(tmp_path)).read())
                assert now >= seen
                seen = now
            except Exception as error:  # noqa: BLE001 (whatever it is, the test tells it)
                wrong.append(error)
                return

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(mine,)) for mine in names]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert wrong == []
    assert sorted(Book(DataFolder(tmp_path)).read()) == sorted(name for mine in names for name in mine)


def test_people_can_read_it(tmp_path: Path) -> None:
    book = Book(DataFolder(tmp_path))
    book.add(DAILY)
    assert json.loads(Path(book.where).read_text()) == {
        "version": 1,
        "schedules": [
            {
                "name": "daily",
                "queue": "q",
                "cron": "0 6 * * *",
                "timezone": "Europe/Vienna",
                "payload": "ü",
                "missed": "all",
            }
        ],
    }
