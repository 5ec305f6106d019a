"""Unfinished jobs move: out of a hall that was killed, into another one, and are done there."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from history_stage import run_at_terminal
from moving_stage import done_by_worker, live, read, serve, write
from running import DEADLINE_S, ENVIRONMENT, HALL, run
from typer.testing import CliRunner

from hiringhall.cli.main import app
from hiringhall.core.changes import Batch, EndRow
from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE
from hiringhall.core.terms import Terms
from hiringhall.engine.recovery import open_scheduler
from hiringhall.peers.gearman import Client, Worker
from hiringhall.records import History
from hiringhall.storage.contract import QueueRetention, Retention
from hiringhall.storage.sqlite import DATABASE, SqliteStore, find_holder

if TYPE_CHECKING:
    from pathlib import Path

BINARY = b"\xff\x00\xfe"


def test_what_a_killed_hall_left_is_done_in_another(tmp_path: Path) -> None:
    later_s = int(time.time()) + 3600
    with serve(tmp_path, "first") as hall:
        with Client(hall.opened()["doors"][0]["address"], timeout_s=DEADLINE_S) as client:
            for number in range(20):
                client.submit_background("mail", b"letter %d" % number, unique=f"to-{number}")
            client.submit_background("mail", BINARY, priority="high")
            client.submit_background("mail", b"same", unique="-")
            client.submit_at("mail", b"not now", epoch_s=later_s, unique="later")
        hall.signal(signal.SIGKILL)
        hall.wait()

    exported = run(HALL, "export", "--data", "first", "jobs.jsonl", cwd=tmp_path)
    assert (exported.returncode, exported.stderr) == (0, "")
    assert exported.stdout == "23 jobs exported from first\n"
    lines = read(tmp_path / "jobs.jsonl")
    assert [line["key"] for line in lines[:20]] == [f"to-{number}" for number in range(20)]
    assert lines[20]["payload_base64"] == base64.b64encode(BINARY).decode()

    imported = run(HALL, "import", "jobs.jsonl", "--data", "second", cwd=tmp_path)
    assert (imported.returncode, imported.stdout) == (0, "23 jobs imported into second\n"), imported.stderr
    again = run(HALL, "import", "jobs.jsonl", "--data", "second", "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {
        "imported": 1,
        "already_there": 22,
        "failed": 0,
        "data": "second",
    }, "only the one without a key cannot be told from another"
    (delayed,) = [record for record in live(tmp_path / "second") if record.state == "delayed"]
    assert delayed.due is not None
    assert delayed.due.timestamp() == later_s

    with serve(tmp_path, "second") as hall:
        opened = hall.opened()
        assert opened["recovered"] == 24
        seen = done_by_worker(opened["doors"][0]["address"], ["mail"], 23)
    assert [data for _, data in seen] == [
        BINARY,
        BINARY,
        *(b"letter %d" % number for number in range(20)),
        b"same",
    ]
    assert [unique for unique, _ in seen[2:22]] == [b"to-%d" % number for number in range(20)]


def test_an_export_is_taken_beside_a_running_hall_and_changes_nothing(tmp_path: Path) -> None:
    with serve(tmp_path, "data") as hall:
        address = hall.opened()["doors"][0]["address"]
        with Client(address, timeout_s=DEADLINE_S) as client:
            client.submit_background("mail", b"one", unique="a")
        said = run(HALL, "export", "--data", "data", cwd=tmp_path)
        assert said.stderr == "1 job exported from data\n"
        assert json.loads(said.stdout)["payload"] == "one"
        assert done_by_worker(address, ["mail"], 1) == [(b"a", b"one")]


def test_a_running_hall_keeps_its_folder_to_itself(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "mail"})
    with serve(tmp_path, "data") as hall:
        hall.opened()
        failed = run(HALL, "import", "jobs.jsonl", "--data", "data", cwd=tmp_path)
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith(f"hall: another hall (process {hall.process.pid}) has ")
        assert failed.stderr.endswith(", or submit the jobs at its Gearman door with --door\n")
        assert failed.stderr.count("\n") == 1


def test_an_import_that_is_interrupted_tells_how_far_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hiringhall.cli.transfer.COMMIT_ROWS_MAX", 2)
    write(tmp_path / "jobs.jsonl", *({"queue": "a", "key": str(number)} for number in range(5)))
    commit, commits = SqliteStore.commit, 0

    def interrupted(self: SqliteStore, batch: Batch, now_us: int) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            raise KeyboardInterrupt
        commit(self, batch, now_us)

    monkeypatch.setattr(SqliteStore, "commit", interrupted)
    ended = CliRunner().invoke(app, ["import", "jobs.jsonl"])
    assert (ended.exit_code, ended.stdout) == (130, "")
    assert ended.stderr == "hall: interrupted; 2 of 5 jobs were imported, and 2 more may have been\n"
    assert [record.key for record in live(tmp_path / "hall-data")] == [b"0", b"1"]


def test_while_it_has_the_folder_an_import_says_what_it_is_and_heeds_no_hangup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "jobs.jsonl", {"queue": "a"})
    commit = SqliteStore.commit
    kinds: list[str] = []

    def signalled(self: SqliteStore, batch: Batch, now_us: int) -> None:
        holder = find_holder(tmp_path / "hall-data" / DATABASE)
        assert holder is not None
        kinds.append(holder.kind)
        os.kill(os.getpid(), signal.SIGHUP)
        commit(self, batch, now_us)

    monkeypatch.setattr(SqliteStore, "commit", signalled)
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    try:
        ended = CliRunner().invoke(app, ["import", "jobs.jsonl"])
        assert (ended.exit_code, ended.stdout) == (0, "1 job imported into hall-data\n")
        assert (kinds, heard) == (["import"], [])
        os.kill(os.getpid(), signal.SIGHUP)
        assert heard == [signal.SIGHUP], "afterwards all is as it was"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_children_wait_for_their_parents_under_new_ids(tmp_path: Path) -> None:
    write(
        tmp_path / "jobs.jsonl",
        {"id": 3, "queue": "work", "key": "roof", "parents": [{"id": 2}, {"queue": "work", "key": "walls"}]},
        {"id": 2, "queue": "work", "payload": "floor", "parents": [{"id": 1}]},
        {"id": 1, "queue": "work", "payload": "ground", "extras": {"note": "x"}},
        {"queue": "work", "key": "walls", "parents": [{"id": 2}]},
        {
            "queue": "work",
            "key": "garden",
            "parents": [{"queue": "work", "key": "nobody has come under this name"}],
        },
    )
    imported = run(HALL, "import", "jobs.jsonl", "--data", "data", cwd=tmp_path)
    assert imported.stdout == "5 jobs imported into data\n", imported.stderr
    by_name = {record.key or record.payload: record for record in live(tmp_path / "data")}
    assert by_name[b"ground"].extras == {"note": b"x"}
    assert by_name[b"floor"].parents == (by_name[b"ground"].id,)
    assert by_name[b"roof"].parents == (by_name[b"floor"].id, (b"work", b"walls"))

    exported = run(HALL, "export", "--data", "data", "again.jsonl", "--json", cwd=tmp_path)
    assert json.loads(exported.stdout) == {"exported": 5}
    twice = run(HALL, "import", "again.jsonl", "--data", "other", cwd=tmp_path)
    assert twice.stdout == "5 jobs imported into other\n", twice.stderr

    with serve(tmp_path, "other") as hall:
        seen = done_by_worker(hall.opened()["doors"][0]["address"], ["work"], 4)
        hall.signal(signal.SIGTERM)
        assert hall.wait() == 0
    assert [unique or data for unique, data in seen] == [b"ground", b"floor", b"walls", b"roof"]
    (garden,) = live(tmp_path / "other")
    assert (garden.key, garden.state) == (b"garden", "held")


def test_what_jobs_need_moves_with_them_and_a_queue_gives_its_needs_to_the_others(tmp_path: Path) -> None:
    write(
        tmp_path / "jobs.jsonl",
        {"queue": "render", "key": "skilled", "terms": {"skill": 3, "takes_us": 90_000_000}},
        {"queue": "render", "key": "plain"},
    )
    (tmp_path / "hall.toml").write_text(
        '[[queue]]\nname = "render"\nskill = 5\ntime = "1h"\n', encoding="utf-8"
    )
    imported = run(HALL, "import", "jobs.jsonl", "--data", "first", cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    (tmp_path / "hall.toml").unlink()
    for data, copy in (("first", "first.jsonl"), ("second", "second.jsonl")):
        assert run(HALL, "export", copy, "--data", data, cwd=tmp_path).returncode == 0
        terms = {line["key"]: line["terms"] for line in read(tmp_path / copy)}
        assert {key: (one["skill"], one["takes_us"]) for key, one in terms.items()} == {  # type: ignore[index]
            "skilled": (3, 90_000_000),
            "plain": (5, 3_600_000_000),
        }
        run(HALL, "import", copy, "--data", "second", cwd=tmp_path)


def test_an_import_takes_nothing_out_of_the_history(tmp_path: Path) -> None:
    """Whatever the settings say that happen to be found: those of the hall may be elsewhere."""
    now_us = time.time_ns() // 1000
    rules = {b"apart": QueueRetention(age_us=10**18, dead_age_us=10**18)}
    retention = Retention(age_us=10**18, dead_age_us=10**18, queues=rules)
    store = SqliteStore(tmp_path / "hall-data" / DATABASE, retention, print)
    store.load(0)
    past = Batch()
    past.ends = [
        old_end(number, b"apart" if number % 2 else b"mail", now_us - (30 + number) * 86_400_000_000)
        for number in range(1, 101)
    ]
    store.commit(past, now_us)
    store.close()
    shelves = shelved(tmp_path / "hall-data" / DATABASE)
    assert len(shelves) == 100
    (tmp_path / "hall.toml").write_text('[history]\nage = "1d"\nrows_max = 3\n', encoding="utf-8")
    write(tmp_path / "jobs.jsonl", {"queue": "mail"})
    imported = run(HALL, "import", "jobs.jsonl", cwd=tmp_path)
    assert imported.stdout == "1 job imported into hall-data\n", imported.stderr
    assert shelved(tmp_path / "hall-data" / DATABASE) == shelves


def old_end(job_id: int, queue: bytes, ended_us: int) -> EndRow:
    terms = Terms(durable=True, detached=True)
    return EndRow(
        job_id, queue, b"", DONE, 0, b"", b"ann", ended_us, ended_us, ended_us, 1, 0, terms, b"", None
    )


def shelved(database: Path) -> list[tuple[int, int]]:
    """The lines of the history, and where each stands."""
    with closing(sqlite3.connect(database)) as file:
        return file.execute("SELECT id, shelf FROM history ORDER BY id").fetchall()


def test_a_child_of_a_failed_parent_fails_as_it_would_at_a_door(tmp_path: Path) -> None:
    with serve(tmp_path, "data") as hall:
        address = hall.opened()["doors"][0]["address"]
        worker = Worker(address)
        worker.register("work", lambda job: 1 / 0)  # type: ignore[arg-type,return-value]
        with worker, Client(address, timeout_s=DEADLINE_S) as client:
            client.submit_background("work", b"", unique="parent")
            _until_ended(tmp_path / "data")
        hall.signal(signal.SIGTERM)
        assert hall.wait() == 0
    write(tmp_path / "jobs.jsonl", {"queue": "next", "parents": [{"queue": "work", "key": "parent"}]})
    imported = run(HALL, "import", "jobs.jsonl", "--data", "data", cwd=tmp_path)
    assert imported.stdout == "1 job imported into data; 1 failed at once because a parent had failed\n"
    with History(tmp_path / "data") as history:
        (child,) = history.find(queue="next")
    assert (child.state, child.code) == ("failed", 126)


def _until_ended(data: Path) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    with History(data) as history:
        while next(history.find(limit=1), None) is None:
            assert time.monotonic() < deadline_s


def test_many_jobs_go_in_by_several_commits(tmp_path: Path) -> None:
    count = 12_000
    write(tmp_path / "jobs.jsonl", *({"queue": "q", "key": str(number)} for number in range(count)))
    source = (tmp_path / "jobs.jsonl").read_bytes()
    command = [*HALL, "import", "-", "--data", "data"]
    imported = subprocess.run(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        input=source,
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert imported.stdout == b"12000 jobs imported into data\n"
    assert [record.key for record in live(tmp_path / "data")] == [b"%d" % number for number in range(count)]


def test_a_bar_shows_how_far_an_import_is(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", *({"queue": "q"} for _ in range(3000)))
    shown = run_at_terminal(
        "import", "jobs.jsonl", "--data", "data", cwd=tmp_path, environment={"COLUMNS": "90"}
    )
    assert (shown.code, shown.stdout) == (0, "3000 jobs imported into data\n")
    assert "stored" in shown.stderr
    assert "/3000" in shown.stderr


# --- mistakes


def test_every_bad_line_is_told_and_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_bytes(b'{"queue":"fine"}\nnonsense\n\n{"queue":""}\n{"queue":"a","x":1}\n')
    failed = run(HALL, "import", "jobs.jsonl", "--data", "data", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    said = failed.stderr.splitlines()
    assert [line.split(": ")[2] for line in said[:3]] == ["line 2", "line 4", "line 5"]
    assert said[3:] == ["hall: jobs.jsonl: nothing was imported"]
    assert not (tmp_path / "data").exists()


def test_what_the_limits_refuse_is_told_and_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(
        "[limits]\nkey_bytes_max = 4\npayload_bytes_max = 9\n", encoding="utf-8"
    )
    write(
        tmp_path / "jobs.jsonl",
        {"queue": "a", "key": "good"},
        {"queue": "a", "key": "too long", "id": 1},
        {"queue": "a", "payload": "much too long"},
        {"queue": "a", "parents": [{"id": 1}]},
    )
    failed = run(HALL, "import", "jobs.jsonl", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.splitlines() == [
        "hall: jobs.jsonl: line 2: a key may have 4 bytes (key_bytes_max)",
        "hall: jobs.jsonl: line 3: a payload may have 9 bytes (payload_bytes_max)",
        "hall: jobs.jsonl: nothing was imported",
    ]
    assert live(tmp_path / "hall-data") == []


def test_a_hundred_problems_are_enough(tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text("x\n" * 150, encoding="utf-8")
    failed = run(HALL, "import", "jobs.jsonl", cwd=tmp_path)
    said = failed.stderr.splitlines()
    assert len(said) == 102
    assert said[-2:] == ["hall: jobs.jsonl: 50 further problems", "hall: jobs.jsonl: nothing was imported"]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("import", "nowhere.jsonl"), 1, "nowhere.jsonl cannot be read: No such file or directory"),
        (("import", "."), 1, ". cannot be read: Is a directory"),
        (
            ("import", "x.jsonl", "--door", "nonsense"),
            2,
            '--door: "nonsense" is not allowed; it takes a host and',
        ),
        (
            ("import", "x.jsonl", "--door", "127.0.0.1:0"),
            2,
            '--door: "127.0.0.1:0" has no port; add the port of the',
        ),
        (
            ("import", "x.jsonl", "--door", "h:1", "--data", "d"),
            2,
            "--door: cannot be used with --data",
        ),
        (
            ("import", "x.jsonl", "--config", "memory.toml"),
            1,
            "hall.storage is memory: there is no data folder",
        ),
        (
            ("export", "--data", "nowhere"),
            1,
            "there is no history in nowhere; use --data to name the hall's data folder",
        ),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, words: tuple[str, ...], code: int, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x.jsonl", {"queue": "a"})
    (tmp_path / "memory.toml").write_text('[hall]\nstorage = "memory"\n', encoding="utf-8")
    failed = CliRunner().invoke(app, list(words))
    assert (failed.exit_code, failed.stdout) == (code, "")
    assert failed.stderr.startswith(f"hall: {complaint}")
    assert failed.stderr.count("\n") == 1


def test_an_export_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "a"})
    assert run(HALL, "import", "jobs.jsonl", cwd=tmp_path).returncode == 0
    failed = run(HALL, "export", "nowhere/jobs.jsonl", cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == "hall: nowhere/jobs.jsonl cannot be written: No such file or directory\n"


def test_an_export_into_a_fifo_goes_to_whoever_reads_it(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "a", "key": "k"})
    assert run(HALL, "import", "jobs.jsonl", cwd=tmp_path).returncode == 0
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        exported = run(HALL, "export", "pipe", cwd=tmp_path)
        assert (exported.returncode, exported.stdout) == (0, "1 job exported from hall-data\n")
        assert json.loads(reader.read())["key"] == "k"
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_with_letters_that_stdout_does_not_have_is_told_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "jobs.jsonl", {"queue": "a"})
    imported = subprocess.run(
        [*HALL, "import", "jobs.jsonl", "--data", "hütte"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert imported.stdout == b"1 job imported into h\\xfctte\n"


def test_what_has_no_place_in_an_export_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "hall-data" / DATABASE, Retention(), print)
    hall = open_scheduler(store, Limits(), 1)
    durable = Terms(durable=True, detached=True)
    parent = hall.submit(JobSpec(b"q", b"", b"", Terms(detached=True)), None).id
    child = hall.submit(JobSpec(b"q", b"", b"", durable, 0, (parent,)), None).id
    hall.reports.start(JobSpec(b"q", b"", b"a task", durable), b"cron", 1)
    store.commit(hall.seal(), 1)
    store.close()
    exported = run(HALL, "export", "jobs.jsonl", cwd=tmp_path)
    assert (exported.returncode, exported.stdout) == (0, "1 job exported from hall-data\n")
    assert exported.stderr.splitlines() == [
        "hall: 1 job not exported: the work is done outside the hall and only reported",
        f"hall: job {child} waits for job {parent}, which was not exported because it is not durable",
    ]
    refused = run(HALL, "import", "jobs.jsonl", "--data", "other", cwd=tmp_path)
    assert f"line 1: its parent {parent} is not in the file; remove it from the parents\n" in refused.stderr
