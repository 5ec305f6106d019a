"""The example of a small LiveJournal: one command does the ten tasks of the draft's summary, and cleans up."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from typing import Any, Final

import pytest
from hall_process import CODE, wait_until
from PIL import Image

from hiringhall.records import History
from hiringhall.storage.contract import StoreError

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "livejournal"
TIME_S: Final = 60.0

Row = dict[str, Any]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, str(EXAMPLE / "run.py"), *map(str, arguments)]


def surroundings(folder: Path) -> dict[str, str]:
    """An environment by which the example's processes can be told, and its temporary files."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "PYTHONPATH": CODE, "PYTHONWARNINGS": "error", "TMPDIR": str(temporary)}


def left_over(folder: Path) -> list[int]:
    """Processes of the example that are there still."""
    mark = f"TMPDIR={folder / 'temporary'}\0".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (process / "environ").read_bytes()
        except OSError:  # it has just ended, or is not ours
            continue
        if marked:
            pids.append(int(process.name))
    return pids


def run(folder: Path, *arguments: str | Path) -> str:
    """Run the example to its end; what it printed."""
    ended = subprocess.run(
        command(*arguments),
        cwd=folder,
        env=surroundings(folder),
        capture_output=True,
        text=True,
        timeout=TIME_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert left_over(folder) == []
    assert list((folder / "temporary").iterdir()) == []
    return ended.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("livejournal")


@pytest.fixture(scope="module")
def kept(place: Path) -> Path:
    """Where the tasks left what they made."""
    return place / "kept"


@pytest.fixture(scope="module")
def days() -> set[str]:
    """The days, at most two, on which the example may have thought it ran; as it writes them into keys."""
    return set()


@pytest.fixture(scope="module")
def log(place: Path, kept: Path, days: set[str]) -> dict[str, list[Row]]:
    """One run for all the tests that look at what came of it: the lines of its log, by name."""
    days.add(today())
    rows: list[Row] = json.loads(run(place, "--json", "--keep", kept))
    days.add(today())
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    return by_name


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def query(kept: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(kept / "journal.sqlite3")) as database:
        return database.execute(statement).fetchall()


def mailbox(kept: Path, recipient: str) -> list[str]:
    """The subjects of the messages that somebody got."""
    messages = [message_from_bytes(file.read_bytes()) for file in (kept / "mailbox").iterdir()]
    return [message["Subject"] for message in messages if message["To"] == recipient]


def check(row: Row, task: str, kind: str, *, key: str = "", tries: int = 1, result: str) -> None:
    expected = {"task": task, "dupkey": key, "type": kind, "state": "done", "tries": tries, "result": result}
    assert {name: row[name] for name in expected} == expected
    assert 0 <= row["elapsed_s"] < TIME_S


def test_every_task_of_the_summary_is_in_the_log(log: dict[str, list[Row]]) -> None:
    numbers = {int(row["task"].split()[0]) for rows in log.values() for row in rows}
    assert numbers == {1, 2, 3, 4, 6, 7, 8, 9, 10, 11}


def test_mail_arrives_although_the_server_first_said_come_again(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["mail"]
    check(row, "1 mail", "async+handle", tries=2, result="sent to ben@example.org")
    assert mailbox(kept, "ben@example.org") == ["Welcome"]


def test_a_gallery_is_resized(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["resize"]
    check(row, "2 gal resize", "async+handle", key="1-4-640-480", result="images made to fit 640x480: 3")
    for name in ("sea", "sand", "sun"):
        with Image.open(kept / "gallery" / "4" / f"{name}-640x480.png") as image:
            assert image.size == (640, 400)


def test_thumbnails_are_made_ahead(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["thumbgen"]
    check(row, "3 thumb pregen", "async+handle", key="1-9-100-100", result="thumbnails of 100x100: 1")
    with Image.open(kept / "userpic" / "9-100x100.png") as image:
        assert image.size == (100, 100)


def test_the_schedules_of_the_hall_run_the_crons(log: dict[str, list[Row]], kept: Path) -> None:
    for name, result in (("pay_updateaccounts", "accounts lapsed"), ("clean_caches", "pages removed")):
        first, *later = sorted(log[name], key=lambda row: str(row["result"]), reverse=True)
        check(first, "4 LJ crons", "async", result=f"{result}: 1")
        for row in later:
            check(row, "4 LJ crons", "async", result=f"{result}: 0")
    assert query(kept, "SELECT name, account FROM user ORDER BY uid") == [
        ("ann", "paid"),
        ("ben", "free"),
        ("news", "free"),
    ]
    assert list((kept / "cache").iterdir()) == []


def test_what_is_dirty_is_flushed(log: dict[str, list[Row]], kept: Path) -> None:
    friends, backup = log["dirty"]
    check(friends, "6 dirty flushing", "async+handle", key="friends-1", result="friend of ben news")
    check(backup, "6 dirty flushing", "async+handle", key="backup-1", result="entries: 2")
    assert query(kept, "SELECT uid, names FROM friend_of") == [(1, "ben news")]
    assert json.loads((kept / "backup-1.json").read_text()) == ["Hello, world", "We went to the sea"]


def test_weblogscom_is_pinged(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["weblogscom"]
    check(row, "7 CmdBuffer jobs", "async+throw-away", key="1", result="thanks for the ping")
    assert (kept / "pings.txt").read_text() == "ann http://livejournal.example/users/ann/\n"


def test_a_feed_is_fetched(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["rss"]
    check(row, "8 RSS fetching", "async+handle", key="3", result="new items: 3")
    assert query(kept, "SELECT uid, guid, title FROM item ORDER BY guid") == [
        (3, "1", "Sea level unchanged"),
        (3, "2", "Gears: are they round?"),
        (3, "3", "Local man restarts web node"),
    ]


def test_captchas_are_drawn(log: dict[str, list[Row]], kept: Path) -> None:
    (row,) = log["captcha"]
    now = datetime.now(UTC)
    assert row["dupkey"] in {f"{now:%d-%H}", f"{now - timedelta(hours=1):%d-%H}"}
    check(row, "9 captcha generation", "async+throw-away", key=row["dupkey"], result="new captchas: 5")
    captchas = query(kept, "SELECT picture, answer FROM captcha")
    assert len({answer for _, answer in captchas}) == 5
    for picture, answer in captchas:
        with Image.open(kept / picture) as image:
            assert image.size == (40 * len(answer), 60)
            assert image.getextrema() == (0, 255)


def test_a_birthday_mail_is_sent_once_though_three_ask_for_it(
    log: dict[str, list[Row]], kept: Path, days: set[str]
) -> None:
    (row,) = log["bday"]
    assert row["dupkey"] in days
    check(row, "10 birthday emails", "async+handle", key=row["dupkey"], tries=2, result="people greeted: 1")
    assert mailbox(kept, "ann@example.org") == ["Happy birthday, ann!"]
    assert query(kept, "SELECT uid, day FROM greeted") == [(1, row["dupkey"])]


def test_a_task_done_outside_the_hall_is_in_its_log(log: dict[str, list[Row]], days: set[str]) -> None:
    (row,) = log["restart_web_nodes"]
    assert row["dupkey"] in days
    check(row, "11 restart web nodes", "logged only", key=row["dupkey"], result="nodes restarted: 2")


def steady(table: str) -> set[tuple[str, ...]]:
    """The lines of a table, without what is another time each time."""
    header, *lines = table.splitlines()
    starts = {heading: header.index(heading) for heading in header.split()}
    ends = dict(zip(starts, [*list(starts.values())[1:], None], strict=True))
    columns = [slice(starts[name], ends[name]) for name in ("task", "name", "type", "state", "tries", "result")]
    return {tuple(line[column].strip() for column in columns) for line in lines}


def test_people_get_the_table_of_the_readme(tmp_path: Path) -> None:
    _, shown, _ = (EXAMPLE / "README.md").read_text().split("```\n")
    printed = steady(run(tmp_path))
    assert steady(shown) <= printed
    # A slow machine sees the crons once more.
    assert {line[0] for line in printed - steady(shown)} <= {"4 LJ crons"}


def test_told_to_stop_it_takes_everybody_along(tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    def all_is_handed_in() -> bool:
        """From here on it waits: birthday mails are told to come again, which takes them a second at least."""
        try:
            with History(kept / "hall") as history:
                return any(row.queue == b"bday" for row in history.unfinished())
        except StoreError:  # the hall has not made its files yet
            return False

    with subprocess.Popen(
        command("--keep", kept), cwd=tmp_path, env=surroundings(tmp_path), stderr=subprocess.PIPE, text=True
    ) as example:
        try:
            wait_until(all_is_handed_in, "birthday mails are asked for", TIME_S)
            example.send_signal(signal.SIGTERM)
            assert (example.communicate(timeout=TIME_S)[1], example.returncode) == ("told to stop\n", 1)
        finally:
            example.kill()
    assert left_over(tmp_path) == []
