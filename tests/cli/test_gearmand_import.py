"""`hall gearmand-import`: jobs of a real gearmand with its SQLite queue come into a hall."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hall_process import Gearmand
from remote_stage import HOSTILE, RemoteStage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = (
    "CREATE TABLE gearman_queue (unique_key TEXT, function_name TEXT, priority INTEGER, data BLOB, "
    "when_to_run INTEGER, PRIMARY KEY (unique_key, function_name))"
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStage]:
    with RemoteStage(tmp_path_factory.mktemp("hall")) as stage:
        yield stage


def jobs_of(stage: RemoteStage, queue: bytes) -> list[dict[str, object]]:
    listed, _ = stage.peer.ask("jobs", {"queue": queue})
    return [stage.peer.ask("job", [line["id"]]) for line in listed]


def test_the_jobs_of_a_real_gearmand_are_imported_once(stage: RemoteStage, tmp_path: Path) -> None:
    file = tmp_path / "gearmand.db"
    gearmand = Gearmand(tmp_path)
    gearmand.options = ("--queue-type", "libsqlite3", f"--libsqlite3-db={file}", "--user=root")
    with gearmand:
        for key, *options in (("one",), ("urgent", "-I"), ("late", "-L")):
            words = ["gearman", "-h", "127.0.0.1", "-p", str(gearmand.port), "-b", "-f", "reverse", "-u", key]
            subprocess.run([*words, *options, f"data of {key}"], check=True, timeout=30)
    assert stage.run("gearmand-import", str(file), "--dry-run").stdout == f"3 jobs found in {file}\n"
    assert stage.json("gearmand-import", str(file), "--retries", "2") == [{"imported": 3}]
    assert stage.json("gearmand-import", str(file)) == [{"imported": 3}]
    found = jobs_of(stage, b"reverse")
    assert [(job["key"], job["payload"], job["priority"]) for job in found] == [
        (b"urgent", b"data of urgent", "high"),
        (b"one", b"data of one", "normal"),
        (b"late", b"data of late", "low"),
    ]
    assert {job["attempts_max"] for job in found} == {3}


def test_times_and_any_bytes_are_kept(stage: RemoteStage, tmp_path: Path) -> None:
    file = tmp_path / "queue.db"
    due_s = int(time.time()) + 3600
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(SCHEMA)
        row = (HOSTILE, HOSTILE, 1, HOSTILE, due_s)
        connection.execute("INSERT INTO gearman_queue VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?, ?, ?)", row)
    assert stage.json("gearmand-import", str(file)) == [{"imported": 1}]
    [job] = jobs_of(stage, HOSTILE)
    assert (job["key"], job["payload"], job["state"]) == (HOSTILE, HOSTILE, "delayed")
    assert abs(int(str(job["due_us"])) / 1e6 - due_s) < 60


def test_jobs_are_imported_into_the_data_folder_of_a_stopped_hall(stage: RemoteStage, tmp_path: Path) -> None:
    file = tmp_path / "queue.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO gearman_queue VALUES ('k', 'f', 0, x'00ff', 0)")
        connection.execute("INSERT INTO gearman_queue VALUES ('l', 'f', 1, 'text', 4102444800)")
    folder = str(tmp_path / "data")
    words = ("gearmand-import", str(file), "--data", folder)
    assert stage.json(*words) == [{"imported": 2, "already_there": 0, "failed": 0, "data": folder}]
    assert stage.json(*words) == [{"imported": 0, "already_there": 2, "failed": 0, "data": folder}]
    exported = stage.run("export", "--data", folder)
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [(line["key"], line["terms"].get("priority", "normal")) for line in lines] == [
        ("k", "high"),
        ("l", "normal"),
    ]
    assert lines[1]["due"].startswith(("2099-12-31T23:59:59", "2100-01-01T00:00:00"))


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_a_file_that_is_no_queue_is_one_line(stage: RemoteStage, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "no.db"
    file.write_bytes(content)
    ended = stage.run("gearmand-import", str(file))
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert stage.run("gearmand-import", str(tmp_path / "none")).exit_code == 1
