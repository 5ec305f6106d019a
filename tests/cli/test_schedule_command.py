"""Somebody adds, lists and removes schedules at the command line, where no hall is running."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from running import HALL, Running, run

from hiringhall.cli.schedule import find_hall
from hiringhall.config.quantities import Interval
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import Book
from hiringhall.schedules.plan import Plan

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

CONFIG = '[[schedule]]\nname = "filed"\nqueue = "q"\nevery = "1h"\n'


def schedule(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(HALL, "schedule", *words, cwd=folder)


def listed(folder: Path, *words: str) -> list[dict[str, object]]:
    ended = schedule(folder, "list", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_all_that_is_said_of_a_schedule_is_written_down(tmp_path: Path) -> None:
    ended = schedule(
        tmp_path,
        *("add", "birthdays", "--queue", "mail", "--cron", "0 6 * * *", "--timezone", "Europe/Vienna"),
        *("--payload", '{"day": "{due:%d}"}', "--key", "{due:%Y-%m-%d}", "--priority", "high"),
        *("--retries", "3", "--missed", "all", "--late-s", "5", "--data", "data"),
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith('schedule "birthdays" is added, and due next at 20')
    assert ended.stdout.endswith("; no hall is running here, the next to start reads it\n")
    assert Book(tmp_path / "data").read() == {
        "birthdays": Plan(
            name="birthdays",
            queue="mail",
            cron="0 6 * * *",
            timezone="Europe/Vienna",
            payload='{"day": "{due:%d}"}',
            key="{due:%Y-%m-%d}",
            priority="high",
            retries=3,
            missed="all",
            late_us=5 * SECOND_US,
        )
    }


def test_schedules_are_listed_with_where_they_stand_and_what_comes(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG)
    assert schedule(tmp_path, "add", "booked", "--queue", "r", "--every", "90s", "--key", "k").returncode == 0
    booked, filed = listed(tmp_path)
    assert (booked["name"], filed["name"]) == ("booked", "filed")
    assert (booked["every"], filed["every"], filed["cron"]) == ("90s", "1h", None)
    assert (booked["defined"], filed["defined"]) == ("hall-data/schedules.json", "hall.toml")
    assert (booked["key"], booked["begun"], booked["last"], booked["hall"]) == ("k", False, None, None)
    upcoming = booked["next"]
    assert isinstance(upcoming, list)
    moments = [datetime.fromisoformat(moment).timestamp() for moment in upcoming]
    assert [moment % 90 for moment in moments] == [0, 0, 0]
    assert moments[2] - moments[0] == 180
    assert 0 < moments[0] - datetime.now(UTC).timestamp() + 5 < 100
    shown = schedule(tmp_path, "list")
    assert "every 90s" in shown.stdout
    assert upcoming[2] in shown.stdout
    assert shown.stderr == "hall: no hall is running: nothing fires\n"


def test_what_a_hall_has_fired_and_what_it_is_behind_with_is_listed(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG.replace("1h", "1s"))
    with Running(HALL, "serve", "--json", "--door", "gearman=127.0.0.1:0", cwd=tmp_path) as hall:
        pid = hall.opened()["pid"]
        assert find_hall(tmp_path / "hall-data") == pid
        (line,) = listed(tmp_path)
        while line["last"] is None:
            (line,) = listed(tmp_path)
        assert (line["hall"], line["begun"], line["behind"]) == (pid, True, 0)
    (line,) = listed(tmp_path)
    while line["behind"] == 0:
        (line,) = listed(tmp_path)
    assert line["hall"] is None
    assert "hall: no hall is running" in schedule(tmp_path, "list").stderr


def test_without_schedules_there_are_none(tmp_path: Path) -> None:
    assert schedule(tmp_path, "list").stdout == "No schedules.\n"
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


WRONG = [
    (("--every", "5"), f'--every: "5" is not allowed; it takes {Interval.allowed}'),
    (("--every", "0.5s"), f'--every: "0.5s" is not allowed; it takes {Interval.allowed}'),
    ((), "--cron: is missing; give a cron expression, or every"),
    (("--cron", "* * * * *", "--every", "1s"), "--cron: and every are two ways to say when: give one of them"),
    (("--cron", "0 25 * * *"), '--cron: "0 25 * * *" is no cron expression: bad hour; write minute hour '),
    (("--every", "1s", "--timezone", "Mars/Base"), '--timezone: "Mars/Base" is not a known time zone'),
    (
        ("--every", "1s", "--missed", "some"),
        '--missed: "some" is not allowed; it takes one of latest, all, skip',
    ),
    (
        ("--every", "1s", "--priority", "top"),
        '--priority: "top" is not allowed; it takes one of high, normal, low',
    ),
    (("--every", "1s", "--key", "{due:%Q}"), '--key: "{due:%Q}" is no format of a date'),
    (
        ("--every", "1s", "--key", "k" * 513),
        "--key: is too long: it has at most 512 bytes (limits.key_bytes_max)",
    ),
    (("--every", "1s", "--retries", "-1"), "--retries"),
]


@pytest.mark.parametrize(("words", "problem"), WRONG)
def test_a_wrong_schedule_is_refused_with_what_is_allowed(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    ended = schedule(tmp_path, "add", "x", "--queue", "q", *words)
    assert ended.returncode == 2
    assert problem in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_and_names_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG)
    more = ("--queue", "q", "--every", "1s")
    ended = schedule(tmp_path, "add", "filed", *more)
    assert (ended.returncode, ended.stderr) == (2, 'hall: NAME: "filed" is taken by schedule[0] of hall.toml\n')
    assert schedule(tmp_path, "add", "booked", *more).returncode == 0
    ended = schedule(tmp_path, "add", "booked", *more)
    assert (ended.returncode, ended.stderr) == (
        1,
        'hall: there is a schedule "booked" already; remove it first, or take another name\n',
    )
    ended = schedule(tmp_path, "remove", "filed")
    assert (ended.returncode, ended.stderr) == (
        1,
        'hall: schedule "filed" is schedule[0] of hall.toml: take it out there, and start the hall anew\n',
    )
    ended = schedule(tmp_path, "remove", "boked")
    assert ended.stderr == (
        'hall: there is no schedule "boked" in hall-data/schedules.json; did you mean booked?\n'
    )
    ended = schedule(tmp_path, "remove", "booked")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line["name"] for line in listed(tmp_path)] == ["filed"]


def test_a_hall_in_memory_has_no_book(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(f'[hall]\nstorage = "memory"\n{CONFIG}')
    ended = schedule(tmp_path, "add", "x", "--queue", "q", "--every", "1s")
    assert ended.returncode == 1
    assert ended.stderr.startswith("hall: hall.storage is memory, and keeps no book of schedules")
    assert [line["name"] for line in listed(tmp_path)] == ["filed"]


def test_a_lock_that_a_dead_hall_left_behind_means_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "hall.sqlite3.lock"
    assert find_hall(tmp_path) is None
    for content in (b"", b"nonsense", b"4194304\n", b"1\n"):
        lock.write_bytes(content)
        assert find_hall(tmp_path) is None
