"""Somebody adds, lists and removes schedules at the command line, where no hall is running."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running import HALL, Running, run

from hiringhall.config.quantities import Interval
from hiringhall.core.changes import Batch, Firing
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import Book
from hiringhall.schedules.keeper import machine_us
from hiringhall.schedules.plan import Plan
from hiringhall.storage.contract import Retention
from hiringhall.storage.data_folder import DataFolder
from hiringhall.storage.sqlite import DATABASE, SqliteStore, find_holder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

CONFIG = '[[schedule]]\nname = "filed"\nqueue = "q"\nevery = "1h"\n'


def schedule(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(HALL, "schedule", *words, cwd=folder)


def listed(folder: Path, *words: str) -> list[dict[str, object]]:
    ended = schedule(folder, "list", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_the_table_of_schedules_holds_nothing_that_a_terminal_acts_on(tmp_path: Path) -> None:
    odd = "\x1b]0;title\x07 \u009b31m"
    added = schedule(tmp_path, "add", "odd", "--queue", odd, "--key", odd, "--every", "1h", "--data", "data")
    assert added.returncode == 0, added.stderr
    shown = schedule(tmp_path, "list", "--data", "data")
    assert "\\x9b31m" in shown.stdout.replace("\n", "")
    assert not [char for char in shown.stdout if not char.isprintable() and char != "\n"]
    (line,) = listed(tmp_path, "--data", "data")
    assert line["key"] == odd


def test_all_that_is_said_of_a_schedule_is_written_down(tmp_path: Path) -> None:
    ended = schedule(
        tmp_path,
        *("add", "birthdays", "--queue", "mail", "--cron", "0 6 * * *", "--timezone", "Europe/Vienna"),
        *("--payload", '{"day": "{due:%d}"}', "--key", "{due:%Y-%m-%d}", "--priority", "high"),
        *("--retries", "3", "--quits-max", "7", "--missed", "all", "--late-s", "5", "--data", "data"),
        *("--limit-key", "post", "--tenant", "acme", "--resource", "cpus=2", "--resource", "mem=8G"),
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(
        'schedule "birthdays" was added in the new data folder data; it is due next at 20'
    )
    assert ended.stdout.endswith("; no hall is running, the next one to start reads it\n")
    assert Book(DataFolder(tmp_path / "data")).read() == {
        "birthdays": Plan(
            name="birthdays",
            queue="mail",
            cron="0 6 * * *",
            timezone="Europe/Vienna",
            payload='{"day": "{due:%d}"}',
            key="{due:%Y-%m-%d}",
            priority="high",
            retries=3,
            quits_max=7,
            limit_key="post",
            tenant="acme",
            resources="cpus=2 mem=8G",
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
    assert shown.stderr == "hall: no hall is running, so no schedule fires\n"


def test_what_a_hall_has_fired_and_what_it_is_behind_with_is_listed(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG.replace("1h", "1s"))
    with Running(HALL, "serve", "--json", "--door", "gearman=127.0.0.1:0", cwd=tmp_path) as hall:
        pid = hall.opened()["pid"]
        holder = find_holder(tmp_path / "hall-data" / DATABASE)
        assert holder is not None
        assert (holder.pid, holder.kind, holder.in_same_namespace) == (pid, "hall", True)
        (line,) = listed(tmp_path)
        while line["last"] is None:
            (line,) = listed(tmp_path)
        assert (line["hall"], line["begun"], line["behind"]) == (pid, True, 0)
    (line,) = listed(tmp_path)
    while line["behind"] == 0:
        (line,) = listed(tmp_path)
    assert line["hall"] is None
    assert "hall: no hall is running" in schedule(tmp_path, "list").stderr


def test_a_due_time_that_has_been_handed_in_ahead_is_the_last_and_not_the_next(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG)
    plan = Plan(name="filed", queue="q", every_us=3600 * SECOND_US)
    due_us = plan.next_due_us(machine_us())
    handed_in = Batch()
    handed_in.fired = {"filed": Firing(due_us, plan.digest)}
    store = SqliteStore(tmp_path / "hall-data" / DATABASE, Retention(), lambda _: None)
    try:
        store.load(machine_us())
        store.commit(handed_in, machine_us())
    finally:
        store.close()
    (line,) = listed(tmp_path)
    following = [
        datetime.fromtimestamp(due_us / SECOND_US + hours * 3600, UTC).isoformat() for hours in range(4)
    ]
    assert (line["last"], line["next"]) == (following[0], following[1:])


def test_without_schedules_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "hall-data").mkdir()
    assert schedule(tmp_path, "list").stdout == "No schedules.\n"
    assert list((tmp_path / "hall-data").iterdir()) == [], "looking leaves nothing behind"


@pytest.mark.parametrize("words", [("list",), ("list", "--json"), ("remove", "x")])
def test_a_data_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = schedule(tmp_path, *words, "--data", "typo")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "hall: typo does not exist; use --data to name the hall's data folder\n"
    assert list(tmp_path.iterdir()) == []


def test_what_a_file_plans_is_listed_before_a_hall_was_started(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG)
    ended = schedule(tmp_path, "list")
    assert (ended.returncode, "filed" in ended.stdout) == (0, True)
    assert ended.stderr.splitlines() == [
        "hall: hall-data does not exist: no hall has used it yet",
        "hall: no hall is running, so no schedule fires",
    ]
    assert schedule(tmp_path, "remove", "filed").stderr.startswith(
        'hall: schedule "filed" is defined as schedule[0] of hall'
    )
    assert [path.name for path in tmp_path.iterdir()] == ["hall.toml"]


WRONG = [
    (("--every", "5"), f'--every: "5" is not allowed; it takes {Interval.allowed}'),
    (("--every", "0.5s"), f'--every: "0.5s" is not allowed; it takes {Interval.allowed}'),
    ((), "--cron: is missing; set cron or every"),
    (("--cron", "* * * * *", "--every", "1s"), "--cron: and every are both set: remove one of them"),
    (("--cron", "0 25 * * *"), '--cron: "0 25 * * *" is not a cron expression: bad hour; write minute hour '),
    (("--every", "1s", "--timezone", "Mars/Base"), '--timezone: "Mars/Base" is not a known time zone'),
    (
        ("--every", "1s", "--missed", "some"),
        '--missed: "some" is not allowed; it takes one of latest, all, skip',
    ),
    (
        ("--every", "1s", "--priority", "top"),
        '--priority: "top" is not allowed; it takes one of high, normal, low',
    ),
    (("--every", "1s", "--key", "{due:%Q}"), '--key: "{due:%Q}" is not a date format'),
    (
        ("--every", "1s", "--key", "k" * 4097),
        "--key: is too long: at most 4096 bytes are allowed (limits.key_bytes_max)",
    ),
    (("--every", "1s", "--retries", "-1"), "--retries"),
    (("--every", "1s", "--quits-max", "-1"), "--quits-max"),
    (("--every", "1s", "--resource", "cpus"), "--resource: 'cpus' must be NAME=AMOUNT"),
    (
        ("--every", "1s", "--late-s", "inf"),
        '--late-s: "inf" is not allowed; it takes seconds from 0 to',
    ),
    (("--every", "1s", "--late-s", "nan"), '--late-s: "nan" is not allowed'),
    (("--every", "1s", "--late-s", "-1"), '--late-s: "-1" is not allowed'),
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
    assert (ended.returncode, ended.stderr) == (2, 'hall: NAME: "filed" is used by schedule[0] of hall.toml\n')
    assert schedule(tmp_path, "add", "booked", *more).returncode == 0
    ended = schedule(tmp_path, "add", "booked", *more)
    assert (ended.returncode, ended.stderr) == (
        1,
        'hall: there is already a schedule "booked"; remove it first, or choose another name\n',
    )
    ended = schedule(tmp_path, "remove", "filed")
    assert (ended.returncode, ended.stderr) == (
        1,
        'hall: schedule "filed" is defined as schedule[0] of hall.toml: delete it there and restart the hall\n',
    )
    ended = schedule(tmp_path, "remove", "boked")
    assert ended.stderr == (
        'hall: there is no schedule "boked" in hall-data/schedules.json; did you mean booked?\n'
    )
    ended = schedule(tmp_path, "remove", "booked")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line["name"] for line in listed(tmp_path)] == ["filed"]
    Book(DataFolder(tmp_path / "hall-data")).add(Plan(name="filed", queue="q", every_us=SECOND_US))
    ended = schedule(tmp_path, "remove", "filed")
    assert (ended.returncode, ended.stderr) == (
        0,
        "hall: schedule[0] of hall.toml has the same name and stays active\n",
    )


def test_a_hall_in_memory_has_no_book(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(f'[hall]\nstorage = "memory"\n{CONFIG}')
    ended = schedule(tmp_path, "add", "x", "--queue", "q", "--every", "1s")
    assert ended.returncode == 1
    assert ended.stderr.startswith("hall: hall.storage is memory, so no schedules are stored")
    assert [line["name"] for line in listed(tmp_path)] == ["filed"]


@contextmanager
def held(folder: Path, content: str) -> Iterator[list[int]]:
    """Somebody has the folder open, whose lock says this. It is this process: the signals that it gets."""
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    lock = os.open(folder / f"{DATABASE}.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.ftruncate(lock, 0)
        os.write(lock, content.encode())
        yield heard
    finally:
        os.close(lock)
        signal.signal(signal.SIGHUP, before)


PID = os.getpid()
HERE = "pid:[1]" if not Path("/proc/self/ns/pid").exists() else str(Path("/proc/self/ns/pid").readlink())


@pytest.mark.parametrize(
    ("content", "told", "complaint"),
    [
        (f"{PID}\nhall\n{HERE}\n", f"; the hall (process {PID}) was notified\n", ""),
        (f"{PID}\n", f"; the hall (process {PID}) was notified\n", ""),
        (f"{PID}\nimport\n{HERE}\n", "; no hall is running, the next one to start reads it\n", ""),
        (
            f"{PID}\ngearmand\n{HERE}\n",
            "\n",
            f"hall: hall-gearmand (process {PID}) reads it at its next start: restart it\n",
        ),
        (
            f"{PID}\nhall\npid:[77]\n",
            "\n",
            f"hall: the hall runs in another container as process {PID}: send it SIGHUP there\n",
        ),
    ],
    ids=["a hall", "a hall of an earlier version", "an import", "a gearmand", "a hall in a container"],
)
def test_only_a_hall_that_is_near_is_signalled(tmp_path: Path, content: str, told: str, complaint: str) -> None:
    Book(DataFolder(tmp_path)).add(Plan(name="x", queue="q", every_us=SECOND_US))
    with held(tmp_path, content) as heard:
        ended = schedule(tmp_path, "remove", "x", "--data", ".")
        assert heard == ([signal.SIGHUP] if "was notified" in told else [])
    assert (ended.returncode, ended.stdout) == (0, f'schedule "x" was removed{told}')
    assert ended.stderr == complaint


def test_an_import_is_no_hall_that_runs(tmp_path: Path) -> None:
    Book(DataFolder(tmp_path)).add(Plan(name="x", queue="q", every_us=SECOND_US))
    with held(tmp_path, f"{PID}\nimport\n{HERE}\n"):
        (line,) = listed(tmp_path, "--data", ".")
        assert line["hall"] is None
    with held(tmp_path, f"{PID}\ngearmand\n{HERE}\n"):
        (line,) = listed(tmp_path, "--data", ".")
        assert line["hall"] == PID


def test_a_lock_that_a_dead_hall_left_behind_means_nothing(tmp_path: Path) -> None:
    lock = tmp_path / f"{DATABASE}.lock"
    assert find_holder(tmp_path / DATABASE) is None
    for content in (
        b"",
        b"nonsense",
        b"4194304\n",
        b"1\n",
        b"1\nhall\npid:[77]\n",
        b"9999999999\n",
        b"\xff\n" * 200,
    ):
        lock.write_bytes(content)
        assert find_holder(tmp_path / DATABASE) is None
