"""Every command of `hall` as tests call it: with hostile names, and with what `--json` prints.

A new command needs a line here: a test compares this table with the table of commands.
"""

from __future__ import annotations

import itertools
import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from database_stage import DatabaseStage
from native_peer import NativePeer
from remote_stage import HOSTILE, RemoteStage
from running import HALL, run

from hiringhall.access.tokens import TokenList
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import Book
from hiringhall.schedules.plan import Plan
from hiringhall.storage.data_folder import DataFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME: Final = HOSTILE.replace(b"\0", b"").decode(errors="surrogateescape")
"""A hostile name as an argument, which cannot have a NUL."""
TEXT: Final = "\x1b[2J\x1b]0;title\x07\u009b31m\x7f\r\n" + "ü" * 240
"""A hostile name that is UTF-8, 500 bytes long."""
HALL_NAME: Final = TEXT[:64]
"""A hostile name of a hall, which may have 64 characters."""
FILE: Final = "\x1b[2J\u009b31m\x7f\udcff" + "f" * 100
"""A hostile name of a file."""

JOB: Final = (
    *("id", "queue", "key", "state", "situation", "created", "started", "ended", "due", "attempts"),
    *("attempts_max", "losses", "worker", "dialect", "priority", "durable", "code", "flow"),
    *("payload", "result"),
)
ONE_JOB: Final = (
    *JOB,
    *("why", "failures", "terms", "progress", "remaining_s", "payload_bytes", "result_bytes"),
    *("truncated", "parents", "children", "children_count", "tries", "error"),
)
QUEUE: Final = (
    *(
        "name",
        "ready",
        "parked",
        "running",
        "held",
        "delayed",
        "failed",
        "workers",
        "paused",
        "oldest",
        "oldest_s",
    ),
    *("average_run_s", "done_total", "failed_total", "cancelled_total", "rules", "rules_set"),
)
SCHEDULE: Final = (
    *("name", "cron", "every", "timezone", "queue", "key", "payload", "priority", "retries", "quits_max"),
    *("terms", "missed", "late_s", "defined", "begun", "last", "behind", "next", "hall", "paused"),
    *("paused_since", "last_id", "last_state"),
)
DOOR: Final = ("--door", "native=127.0.0.1:0")
FLOW: Final = (
    *("name", "created", "ended", "state", "jobs", "held", "delayed", "ready", "running", "done", "failed"),
    "cancelled",
)
CHANGED: Final = ("changed", "failed", "failed_count")


class Setting:
    """A running hall with hostile jobs, and a folder with a hostile name to run commands in."""

    def __init__(self, stage: RemoteStage, folder: Path) -> None:
        self.stage = stage
        self.data = str(stage.data)
        self.folder = folder / FILE
        self.folder.mkdir()
        self._folders = folder
        self._closing: list[DatabaseStage] = []
        self._numbers = itertools.count()
        stage.fill()
        self.ids = {name: str(number) for name, number in stage.ids.items()}
        self.submit()
        self.backup, self.known_schedule = self.fresh(), self.plain()
        for words in (
            ("backup", self.backup),
            ("schedule", "add", self.known_schedule, "--queue", TEXT, "--every", "1h"),
        ):
            made = run(HALL, *words, "--data", self.data, cwd=self.folder)
            assert made.returncode == 0, made.stderr

    @cached_property
    def database(self) -> DatabaseStage:
        """Halls on a PostgreSQL; it is started for the first command that needs one."""
        self._closing.append(stage := DatabaseStage(self._folders, HALL_NAME[:-1]))
        return stage

    def close(self) -> None:
        for stage in self._closing:
            stage.close()

    @cached_property
    def stopped(self) -> str:
        """The data folder of a hall that has stopped."""
        name = self.fresh()
        made = run(HALL, "restore", self.backup, "--data", name, cwd=self.folder)
        assert made.returncode == 0, made.stderr
        return name

    def fresh(self) -> str:
        """A hostile name that was not used before, for a file or a schedule."""
        return f"{next(self._numbers)}{FILE}"

    def plain(self) -> str:
        """A name without anything special."""
        return f"n{next(self._numbers)}"

    def submit(self) -> str:
        """The id of a new job that waits."""
        name = TEXT.encode()
        return str(self.stage.submit(name, name, key=name + str(next(self._numbers)).encode()))

    def fail(self) -> str:
        """The id of a new dead letter."""
        queue = self.fresh().encode(errors="surrogateescape")
        with NativePeer(self.stage.port).work(queue) as worker:
            number = self.stage.submit(queue)
            worker.ask("fail", [worker.hear("assign")[0], 1, HOSTILE, False])
        return str(number)

    def flow(self) -> str:
        """The name of a new flow, with a job that waits and one that needs it."""
        name = self.fresh()
        terms = {"flow": os.fsencode(name)}
        body = TEXT.encode()
        [first] = self.stage.peer.ask("submit", [0, [[body, body, terms, body + os.fsencode(name), 0, []]]])
        self.stage.peer.ask("submit", [0, [[body, body, terms, b"", 0, [first]]]])
        return name

    def flow_file(self) -> str:
        """A new file of tasks."""
        name = f"{self.fresh()}.yaml"
        task = TEXT[:100]  # YAML limits the length of a key
        tasks = {task: {"command": TEXT}, "second": {"command": "true", "needs": task}}
        # YAML takes JSON.
        (self.folder / name).write_text(json.dumps({"name": self.plain(), "tasks": tasks}), encoding="utf-8")
        return name

    def schedule(self) -> str:
        """The name of a new schedule."""
        name = self.plain()
        Book(DataFolder(self.stage.data)).add(
            Plan(name=name, queue=TEXT, key=TEXT, payload=TEXT, every_us=3600 * SECOND_US)
        )
        return name

    def data_with_token(self) -> str:
        """The data folder, which has a token."""
        self.token()
        return self.data

    def token(self) -> str:
        """The name of a new token."""
        name = self.plain()
        TokenList(DataFolder(self.stage.data)).add(name, "viewer", datetime.now(UTC), None)
        return name

    def jobs_file(self) -> str:
        """A new file of `hall export`."""
        name = self.fresh()
        (self.folder / name).write_text(json.dumps({"queue": TEXT, "key": TEXT, "payload": TEXT}) + "\n")
        return name

    def gearmand_file(self) -> str:
        """A new file of gearmand's SQLite queue."""
        name = self.fresh()
        with closing(sqlite3.connect(os.fsencode(self.folder / name))) as connection, connection:
            connection.execute(
                "CREATE TABLE gearman_queue (unique_key TEXT, function_name TEXT, priority INTEGER, "
                "data BLOB, when_to_run INTEGER, PRIMARY KEY (unique_key, function_name))"
            )
            connection.execute(
                "INSERT INTO gearman_queue VALUES (CAST(? AS TEXT), CAST(? AS TEXT), 1, ?, 0)",
                (HOSTILE, HOSTILE, HOSTILE),
            )
        return name

    def config_file(self) -> str:
        """A new file of settings."""
        name = self.fresh()
        (self.folder / name).write_text(f"[hall]\ndata = {json.dumps(TEXT)}\n", encoding="utf-8")
        return name

    def module(self) -> str:
        """A new module with job functions."""
        name = self.plain()
        (self.folder / f"{name}.py").write_text(
            "from hiringhall import Hall\n"
            "hall = Hall()\n"
            f"@hall.job(name={TEXT!a})\n"
            "def hostile() -> None:\n"
            f"    raise ValueError({TEXT!a})\n",
            encoding="utf-8",
        )
        return name


class Case(NamedTuple):
    """A call of a command."""

    command: str
    words: Callable[[Setting], list[str]]
    """What follows the command: new for each call, since most things can be changed once."""
    fields: tuple[str, ...]
    """Of the first object that --json prints."""
    page: str = "command.md"
    """The page of docs/ that has the fields."""
    until: str = ""
    """Of a command that serves: what it prints when it is ready."""
    until_json: str = ""
    fits: bool = False
    """Its lines fit the terminal; others are sentences, which the terminal wraps."""


CASES: Final = (
    Case(
        "serve",
        lambda s: [
            "--data",
            s.plain(),
            "--door",
            "native=127.0.0.1:0",
            "--no-web",
            "--set",
            f"hall.name={HALL_NAME}",
        ],
        ("hall", "pid", "data", "doors", "recovered", "web", "standby"),
        until="Press it twice",
        until_json="recovered",
    ),
    Case(
        "work",
        lambda s: [s.module(), "--processes", "1"],
        ("event", "at", "text", "functions", "worker", "pid"),
        until="connected to",
        until_json='"serving"',
        page="workers.md",
    ),
    Case(
        "run",
        lambda s: ["--data", s.plain(), "-j", "1", "echo", ":::", NAME],
        (
            *("number", "id", "command", "arguments", "state", "code", "seconds", "error", "stdout", "stderr"),
            "truncated",
        ),
        page="run.md",
    ),
    Case("flow run", lambda s: [s.flow_file(), "--no-wait"], (*FLOW, "failures"), page="flows.md"),
    Case("flow list", lambda s: [s.flow()], FLOW, page="flows.md", fits=True),
    Case("flow show", lambda s: [s.flow()], FLOW, page="flows.md", fits=True),
    Case("flow cancel", lambda s: [s.flow()], ("cancelled",), page="flows.md"),
    Case("flow retry", lambda s: [s.flow()], ("retried", "refused"), page="flows.md"),
    Case(
        "dev",
        lambda s: [s.module(), "--processes", "1", "--port", "0", "--no-web", "--data", s.plain()],
        ("event", "at", "text", "url", "data"),
        until="connected to",
        until_json='"serving"',
        page="workers.md",
    ),
    Case(
        "web", lambda _: ["--listen", "127.0.0.1:0"], ("web", "hall", "pid"), until="web on", until_json='"web"'
    ),
    Case(
        "device",
        lambda _: ["--manager", "127.0.0.1:1", "--listen", "127.0.0.1:0"],
        ("device", "pid", "managers"),
        until="device on",
        until_json='"device"',
    ),
    Case(
        "top", lambda _: ["--interval", "0.25"], ("queues", "jobs", "workers", "busy", "rates"), until="q quit"
    ),
    Case("queues", lambda _: [], QUEUE, fits=True),
    Case("jobs", lambda _: [], JOB, fits=True),
    Case("job", lambda s: [s.ids["running"]], (*ONE_JOB, "output"), fits=True),
    Case("result", lambda s: [s.ids["done"]], ONE_JOB),
    Case(
        "workers",
        lambda _: [],
        (
            *("number", "name", "dialect", "door", "address", "queues", "skills", "slots", "jobs", "state"),
            *("draining", "since", "heard", "until", "resident", "resources"),
        ),
        fits=True,
    ),
    Case("doors", lambda _: [], ("dialect", "role", "address", "connections"), fits=True),
    Case(
        "halls",
        lambda s: ["--data", s.database.url],
        ("name", "role", "incarnation", "version", "doors"),
        fits=True,
    ),
    Case(
        "history",
        lambda s: ["--data", s.data, "--limit", "500"],
        ("id", "state", "code", "queue", "key", "worker", "result"),
        page="history.md",
        fits=True,
    ),
    Case("submit", lambda s: [NAME, NAME, "--key", s.fresh(), "--flow", s.plain()], ("ids",)),
    Case("cancel", lambda s: [s.submit(), "--reason", NAME], CHANGED),
    Case("retry", lambda s: [s.fail()], CHANGED),
    Case("pause", lambda _: [NAME], QUEUE),
    Case("resume", lambda _: [NAME], QUEUE),
    Case("limit", lambda _: [NAME, "--running-max", "7"], ("queue", "rules", "set")),
    Case("switch-over", lambda s: ["--data", s.database.settled()], ("active", "seconds")),
    Case(
        "schedule add",
        lambda s: [s.plain(), "--queue", TEXT, "--key", TEXT, "--every", "1h", "--data", s.data],
        SCHEDULE,
        page="schedules.md",
    ),
    Case("schedule list", lambda s: ["--data", s.data], SCHEDULE, page="schedules.md", fits=True),
    Case(
        "schedule remove",
        lambda s: [s.schedule(), "--data", s.data],
        ("removed", "defined"),
        page="schedules.md",
    ),
    Case("schedule pause", lambda s: [s.schedule(), "--data", s.data], SCHEDULE, page="schedules.md"),
    Case("schedule resume", lambda s: [s.schedule(), "--data", s.data], SCHEDULE, page="schedules.md"),
    Case(
        "schedule run", lambda s: [s.known_schedule, "--data", s.data], ("schedule", "job"), page="schedules.md"
    ),
    Case(
        "backup",
        lambda s: [s.fresh(), "--data", s.data],
        ("backup", "made", "jobs", "history", "files"),
    ),
    Case(
        "restore",
        lambda s: [s.backup, "--data", s.fresh()],
        ("restored", "made", "jobs", "history", "files"),
    ),
    Case(
        "migrate",
        lambda s: ["--from", s.stopped, "--to", s.database.empty()],
        ("jobs", "history", "documents", "to"),
    ),
    Case("export", lambda s: [s.fresh(), "--data", s.data], ("exported",), page="history.md"),
    Case(
        "import",
        lambda s: [s.jobs_file(), "--data", s.fresh()],
        ("imported", "already_there", "failed", "data"),
    ),
    Case("gearmand-import", lambda s: [s.gearmand_file()], ("imported",)),
    Case(
        "bench",
        lambda _: ["--seconds", "0.2", "--folder", "."],
        ("hiringhall", "python", "cpus", "fsync_s", "submits_s", "memory_submits_s", "round_trip_ms"),
        fits=True,
    ),
    Case(
        "check-config",
        lambda s: ["--config", s.config_file()],
        ("file", "doors", "storage", "data"),
        page="configuration.md",
    ),
    Case(
        "config",
        lambda _: [],
        ("setting", "dialect", "variable", "default", "takes", "description"),
        page="configuration.md",
    ),
    Case(
        "token add",
        lambda s: [s.plain(), "--role", "viewer", "--data", s.data],
        ("token", "name", "role", "expires"),
        page="security.md",
    ),
    Case(
        "token list",
        lambda s: ["--data", s.data_with_token()],
        ("name", "role", "made", "expires", "used"),
        page="security.md",
        fits=True,
    ),
    Case("token revoke", lambda s: [s.token(), "--data", s.data], ("revoked",), page="security.md"),
    Case("version", lambda _: [], ("version", "python")),
)
"""A call of each command that succeeds."""
