"""Somebody types `hall history`, on ten thousand ended jobs, and beside a hall that runs."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from history_stage import COUNT, FIRST_ID, LAST_ID, fill_past, run_at_terminal
from pyarrow import parquet
from running import DEADLINE_S, ENVIRONMENT, HALL, Running, run
from typer.testing import CliRunner

from hiringhall.cli.main import app
from hiringhall.peers.gearman import Client, Worker

if TYPE_CHECKING:
    from pathlib import Path

DOOR = ("--door", "gearman=127.0.0.1:0")
MORE = re.compile(r"hall: there are more jobs; these are .*; next page: --before \d+\n")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `hall-data` in it."""
    folder = tmp_path_factory.mktemp("past")
    fill_past(folder / "hall-data")
    return folder


def listed(past: Path, *words: str) -> list[dict[str, object]]:
    """What `hall history --json` says; on stderr at most that there are more."""
    ended = run(HALL, "history", "--json", *words, cwd=past)
    assert ended.returncode == 0
    assert ended.stderr == "" or MORE.fullmatch(ended.stderr)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def ids(past: Path, *words: str) -> list[object]:
    return [line["id"] for line in listed(past, *words)]


# --- asking


def test_fifty_are_shown_and_the_footer_says_how_to_go_on(past: Path) -> None:
    shown = run(HALL, "history", cwd=past)
    heading, *lines = shown.stdout.splitlines()
    assert heading.split() == ["id", "when", "state", "queue", "key", "code", "tries", "worker", "result"]
    assert len(lines) == 50
    assert lines[0].split()[0] == str(LAST_ID)
    assert shown.stderr == (
        "hall: there are more jobs; these are the newest 50 (see --limit); "
        f"next page: --before {lines[-1].split()[0]}\n"
    )
    further = run(HALL, "history", "--before", lines[-1].split()[0], "--limit", "2", cwd=past)
    assert [line.split()[0] for line in further.stdout.splitlines()[1:]] == [
        str(LAST_ID - 50),
        str(LAST_ID - 51),
    ]
    assert "these are the newest 2 before " in further.stderr


def test_pages_come_to_the_whole_and_the_last_has_no_footer(past: Path) -> None:
    seen: list[int] = []
    pages = 0
    before: tuple[str, ...] = ()
    while pages == 0 or before:
        page = run(HALL, "history", "--limit", "3000", *before, cwd=past)
        seen += [int(line.split()[0]) for line in page.stdout.splitlines()[1:]]
        footer = re.search(r"next page: (--before) (\d+)", page.stderr)
        before = footer.groups() if footer is not None else ()
        pages += 1
    assert (pages, page.stderr) == (4, "")
    assert seen == list(range(LAST_ID, FIRST_ID - 1, -1))


def test_json_has_a_line_for_each(past: Path) -> None:
    lines = listed(past, "--limit", str(COUNT + 1))
    assert [line["id"] for line in lines] == list(range(LAST_ID, FIRST_ID - 1, -1))
    failed = next(line for line in lines if line["state"] == "failed")
    assert failed["tries"] == [
        {
            "started": "1970-01-01T00:00:01+00:00",
            "ended": "1970-01-01T00:00:02+00:00",
            "worker": "bob",
            "code": 125,
            "dialect": "gearman",
        },
        {"started": "1970-01-01T00:00:03+00:00", "ended": None, "worker": "bob", "code": 123, "dialect": ""},
    ]
    assert (failed["attempts"], failed["code"]) == (3, 3)


def test_json_says_beside_its_lines_that_there_are_more(past: Path) -> None:
    shown = run(HALL, "history", "--json", cwd=past)
    assert shown.stdout.count("\n") == 50
    assert shown.stderr == (
        "hall: there are more jobs; these are the newest 50 (see --limit); "
        f"next page: --before {LAST_ID - 49}\n"
    )
    assert run(HALL, "history", "--json", "--key", "key-7", cwd=past).stderr == ""


def test_every_option_narrows_the_list(past: Path) -> None:
    assert ids(past, "--key", "key-7") == [FIRST_ID + 7]
    assert ids(past, "--key", "key-7", "--queue", "mail") == []
    assert ids(past, "--queue", "mail", "--limit", "2") == [LAST_ID - 1, LAST_ID - 3]
    assert ids(past, "--state", "failed", "--limit", "1") == [LAST_ID - 1]
    assert ids(past, "--state", "cancelled", "--limit", "1") == [LAST_ID]
    assert ids(past, "--state", "queued") == [LAST_ID + 1]
    assert ids(past, "--state", "delayed") == [LAST_ID + 2]
    assert ids(past, "--state", "held") == [LAST_ID + 3]
    assert ids(past, "--state", "running") == []
    assert ids(past, "--key", "live-1") == [LAST_ID + 1]
    assert ids(past, "--id", str(FIRST_ID)) == ids(past, "--handle", f"H:hall:{FIRST_ID}") == [FIRST_ID]


def test_times_are_ages_or_dates(past: Path) -> None:
    lately = ids(past, "--since", "2 h", "--limit", "20000")
    older = ids(past, "--until", "2h", "--limit", "20000")
    assert 5000 < len(lately) <= 7200
    assert lately == list(range(LAST_ID, LAST_ID - len(lately), -1))
    assert older == list(range(FIRST_ID + len(older) - 1, FIRST_ID - 1, -1))
    assert len(lately) + len(older) >= COUNT, "some grew too old between the two questions"
    then = datetime.fromisoformat(str(listed(past, "--id", str(FIRST_ID + 5))[0]["ended"]))
    until = (then + timedelta(seconds=1)).astimezone().replace(tzinfo=None)
    both = ("--since", then.isoformat(), "--until", until.isoformat())
    assert ids(past, *both) == [FIRST_ID + 6, FIRST_ID + 5], "without a zone it is the time of this machine"
    assert ids(past, "--since", "2100-01-01") == []
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    assert ids(past, "--until", tomorrow, "--limit", "1") == [LAST_ID]


def test_a_date_means_its_beginning_for_since_and_its_end_for_until(past: Path) -> None:
    (line,) = listed(past, "--id", str(FIRST_ID + 5))
    day = datetime.fromisoformat(str(line["ended"])).astimezone().date()
    whole = ids(past, "--since", day.isoformat(), "--until", day.isoformat(), "--limit", "20000")
    assert FIRST_ID + 5 in whole
    before = (day - timedelta(days=1)).isoformat()
    assert FIRST_ID + 5 not in ids(past, "--until", before, "--limit", "20000")


def test_the_table_is_harmless_and_says_what_unfinished_jobs_wait_for(past: Path) -> None:
    table = run(HALL, "history", "--id", str(FIRST_ID), cwd=past).stdout
    assert "\x1b" not in table
    listing = run(HALL, "history", "--limit", "10000", cwd=past)
    assert listing.stdout.count("\n") == COUNT + 1
    assert "\\xff\\x1b[31m\\nréd" in listing.stdout
    assert "\x1b" not in listing.stdout
    assert "waits for mail never" in run(HALL, "history", "--state", "held", cwd=past).stdout
    assert re.search(r"due \d{4}-", run(HALL, "history", "--state", "delayed", cwd=past).stdout)
    assert run(HALL, "history", "--key", "nobody", cwd=past).stdout == "No jobs found.\n"


def test_a_terminal_with_few_letters_is_shown_what_it_can(past: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    command = [*HALL, "history", "--queue", "mail", "--limit", "100"]
    shown = subprocess.run(
        command, cwd=past, env=environment, capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert b"\\nr\\xe9d\n" in shown.stdout
    assert shown.stdout.isascii()


def test_one_job_is_shown_in_full(past: Path) -> None:
    job_id = LAST_ID - 1
    by_id = run(HALL, "history", "--id", str(job_id), cwd=past)
    by_handle = run(HALL, "history", "--handle", f"H:hall:{job_id}", cwd=past)
    assert (by_id.returncode, by_id.stderr) == (0, "")
    assert by_id.stdout == by_handle.stdout
    fields = dict(line.split(None, 1) for line in by_id.stdout.splitlines() if line[0] != " ")
    assert fields["job"] == str(job_id)
    assert fields["state"] == "failed, code 3"
    assert fields["key"] == f"key-{COUNT - 2}"
    assert fields["attempts"] == "3, 0 of them lost with their worker"
    assert by_id.stdout.count("code 125, bob") == 1
    assert "to unknown, code 123, bob" in by_id.stdout
    assert f"    payload {COUNT - 2}\n" in by_id.stdout
    nasty = run(HALL, "history", "--id", str(FIRST_ID), cwd=past).stdout
    assert nasty.endswith("result    11 bytes\n    \\xff\\x1b[31m\n    réd\n")


def test_a_job_that_is_not_there_is_one_line(past: Path) -> None:
    for words in ((), ("--json",)):
        missing = run(HALL, "history", "--handle", "H:hall:12", *words, cwd=past)
        assert (missing.returncode, missing.stdout) == (1, "")
        assert (
            missing.stderr
            == "hall: there is no job 12 in hall-data: it is neither unfinished nor in the history\n"
        )


def test_a_hall_in_memory_shows_what_an_earlier_one_has_left_and_says_so(past: Path, tmp_path: Path) -> None:
    config = tmp_path / "memory.toml"
    config.write_text('[hall]\nstorage = "memory"\n', encoding="utf-8")
    shown = run(HALL, "history", "--config", str(config), "--data", "hall-data", "--id", str(LAST_ID), cwd=past)
    assert shown.returncode == 0
    assert shown.stderr == ("hall: hall.storage is memory: this history in hall-data is from an earlier hall\n")
    assert f"{LAST_ID}" in shown.stdout
    failed = run(HALL, "history", "--config", str(config), cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (
        1,
        "hall: there is no history in hall-data; hall.storage is memory\n",
    )


# --- files


def test_the_history_goes_to_files_and_comes_back(past: Path, tmp_path: Path) -> None:
    for suffix in ("jsonl", "csv", "parquet"):
        path = tmp_path / f"all.{suffix}"
        saved = run(HALL, "history", "--output", str(path), cwd=past)
        assert (saved.returncode, saved.stdout, saved.stderr) == (0, f"{COUNT} records written to {path}\n", "")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert lines == listed(past, "--limit", str(COUNT))
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["id"]), row["state"], row["ended"]) for row in rows] == [
        (line["id"], line["state"], line["ended"]) for line in lines
    ]
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table["id"].to_pylist() == [line["id"] for line in lines]
    assert [at.isoformat() for at in table["ended"].to_pylist()] == [line["ended"] for line in lines]
    assert [len(tries) for tries in table["tries"].to_pylist()] == [len(line["tries"]) for line in lines]


def test_a_part_goes_to_stdout_in_any_format(past: Path) -> None:
    words = ("--state", "failed", "--limit", "2", "--output", "-")
    said = run(HALL, "history", *words, "--format", "csv", cwd=past)
    assert [row["payload"] for row in csv.DictReader(said.stdout.splitlines())] == [
        "payload 9998",
        "payload 9993",
    ]
    said = run(HALL, "history", *words, "--format", "jsonl", cwd=past)
    assert [json.loads(line)["code"] for line in said.stdout.splitlines()] == [3, 3]
    command = [*HALL, "history", *words, "--format", "parquet"]
    written = subprocess.run(
        command, cwd=past, env=ENVIRONMENT, capture_output=True, timeout=DEADLINE_S, check=True
    )
    assert written.stdout[:4] == written.stdout[-4:] == b"PAR1"


def test_a_format_beats_the_suffix(past: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    assert (
        run(HALL, "history", "--output", str(path), "--format", "csv", "--limit", "1", cwd=past).returncode == 0
    )
    assert path.read_text().startswith("id,state,code,")


def test_without_pyarrow_the_command_says_what_to_install(past: Path, tmp_path: Path) -> None:
    bare = (sys.executable, "-c", "import sys; sys.modules['pyarrow'] = None; import hiringhall.__main__")
    failed = run(bare, "history", "--output", str(tmp_path / "x.parquet"), cwd=past)
    assert failed.stderr == 'hall: Parquet needs pyarrow: pip install "hiringhall[parquet]"\n'
    assert failed.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_one_line(past: Path, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "x.csv"
    failed = run(HALL, "history", "--output", str(path), cwd=past)
    assert (failed.returncode, failed.stderr) == (
        1,
        f"hall: {path} cannot be written: No such file or directory\n",
    )


def test_a_reader_that_leaves_ends_it_quietly(past: Path) -> None:
    for words in (("--json", "--limit", "10000"), ("--output", "-", "--format", "csv"), ("--limit", "10000")):
        read_end, write_end = os.pipe()
        os.close(read_end)
        try:
            failed = run(HALL, "history", *words, cwd=past, stdout=write_end)
        finally:
            os.close(write_end)
        assert (failed.returncode, failed.stderr) == (1, "")


# --- mistakes


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("--state", "lost"),
            '--state: "lost" is not allowed; it takes one of done, failed, cancelled, ',
        ),
        (
            ("--handle", "H:hall"),
            '--handle: "H:hall" is not a valid handle; handles look like H:hall:68719476737',
        ),
        (("--handle", "H:hall:1", "--id", "2"), "--handle: it names job 1, but --id names another"),
        (("--id", "0"), "--id: 0 is not a valid job id; ids are from 1 to 9223372036854775807"),
        (("--id", "9223372036854775808"), "--id: 9223372036854775808 is not a valid job id"),
        (("--before", "-5"), "--before: -5 is not a valid job id"),
        (
            ("--since", "yesterday"),
            '--since: "yesterday" is not allowed; it takes a time such as',
        ),
        (("--since", "-2h"), '--since: "-2h" is not allowed'),
        (("--since", ""), '--since: "" is not allowed'),
        (("--since", "2026"), '--since: "2026" is not allowed; it takes a time such as 2026-03-01 or '),
        (("--until", "7"), '--until: "7" is not allowed; it takes a time such as 2026-03-01 or '),
        (("--until", "2026-13-01"), '--until: "2026-13-01" is not allowed'),
        (("--since", "1h", "--until", "2h"), "--since: is later than --until; swap them"),
        (("--format", "csv"), "--format: needs --output; --output - writes to stdout"),
        (
            ("--output", "x.csv", "--json"),
            "--json: cannot be used with --output; for JSON in a file",
        ),
        (
            ("--output", "x.xml"),
            "--output: x.xml has no known suffix; add --format",
        ),
        (("--output", "-"), "--output: - has no known suffix"),
        (
            ("--output", "x", "--format", "xml"),
            '--format: "xml" is not allowed; it takes one of jsonl, csv',
        ),
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    past: Path, words: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(past)
    failed = CliRunner().invoke(app, ["history", *words])
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert failed.stderr.startswith(f"hall: {complaint}")
    assert failed.stderr.count("\n") == 1


def test_all_mistakes_are_told_at_once(past: Path) -> None:
    failed = run(HALL, "history", "--state", "x", "--since", "x", "--before", "0", "--handle", "x", cwd=past)
    assert (failed.returncode, failed.stdout) == (2, "")
    said = [line.split(":")[1].strip() for line in failed.stderr.splitlines()]
    assert said == ["--handle", "--before", "--state", "--since"]


@pytest.mark.parametrize("command", ["history", "export", "import"])
def test_the_command_explains_itself(command: str) -> None:
    helped = CliRunner().invoke(app, [command, "--help"])
    assert (helped.exit_code, helped.stderr) == (0, "")
    assert f"Usage: hall {command}" in helped.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--limit", "0"),
        ("--limit", "1000000001"),
        ("--limit", "x"),
        ("--id", "x"),
        ("--before", "x"),
        ("--nonsense",),
        ("word",),
    ],
)
def test_what_is_no_number_or_option_leaves_with_2(
    past: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(past)
    failed = CliRunner().invoke(app, ["history", *words])
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert "Usage: " in failed.stderr


# --- at a terminal


def pager(folder: Path, script: str) -> dict[str, str]:
    """A pager that notes that it was there."""
    path = folder / "pager"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PAGER": f"{path} --of-mine"}


def test_at_a_terminal_a_pager_has_the_table(past: Path, tmp_path: Path) -> None:
    environment = pager(tmp_path, 'echo "paged with $1 and $LESS"; cat')
    shown = run_at_terminal("history", "--limit", "3", cwd=past, environment=environment)
    assert shown.code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "paged with --of-mine and FRX"
    assert len(lines) == 6
    assert f"next page: --before {LAST_ID - 2}" in lines[-1]
    assert "\x1b[32mdone\x1b[0m" in shown.stdout
    assert shown.stderr == ""


def test_who_leaves_the_pager_early_is_not_kept_waiting(past: Path, tmp_path: Path) -> None:
    environment = pager(tmp_path, "head -n 2")
    started_s = time.monotonic()
    shown = run_at_terminal("history", "--limit", "10000", cwd=past, environment=environment)
    assert shown.code == 0
    assert len(shown.stdout.splitlines()) == 2
    assert shown.stderr == ""
    assert time.monotonic() - started_s < DEADLINE_S


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--no-pager",), {}),
        ((), {"PAGER": ""}),
        ((), {"PAGER": "cat"}),
        ((), {"PAGER": "no-such-pager-anywhere -x"}),
        ((), {"PAGER": "less 'unclosed"}),
    ],
)
def test_without_a_pager_the_terminal_has_it_straight(
    past: Path, words: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    settings = environment or pager(tmp_path, "echo paged")
    shown = run_at_terminal("history", "--limit", "3", *words, cwd=past, environment=settings)
    assert shown.code == 0
    assert len(shown.stdout.splitlines()) == 5
    assert "paged" not in shown.stdout


def test_colours_can_be_refused(past: Path) -> None:
    environment = {"PAGER": "cat", "NO_COLOR": "1"}
    shown = run_at_terminal("history", "--limit", "3", cwd=past, environment=environment)
    assert "\x1b[32m" not in shown.stdout


def test_a_bar_shows_how_far_a_file_is(past: Path, tmp_path: Path) -> None:
    words = ("history", "--output", str(tmp_path / "x.csv"))
    shown = run_at_terminal(*words, cwd=past, environment={"COLUMNS": "100"})
    assert shown.code == 0
    assert shown.stdout == f"{COUNT} records written to {tmp_path / 'x.csv'}\n"
    assert "records" in shown.stderr
    assert re.search(r"\d+/10003", shown.stderr)


def test_parquet_is_kept_from_a_terminal(past: Path) -> None:
    words = ("history", "--output", "-", "--format", "parquet")
    shown = run_at_terminal(*words, cwd=past, environment={})
    assert (shown.code, shown.stdout) == (2, "")
    assert shown.stderr == (
        "hall: --format: parquet cannot be written to a terminal; name a file with --output\n"
    )


# --- beside a hall that runs


def test_a_job_is_followed_through_its_life(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        address = hall.opened()["doors"][0]["address"]
        with Client(address, timeout_s=DEADLINE_S) as client:
            handle = client.submit_background("slow", b"work", unique="mine").handle.decode()
            (line,) = listed(tmp_path, "--handle", handle)
            assert (line["state"], line["payload"], line["key"]) == ("queued", "work", "mine")
            release, hold = os.pipe()
            worker = Worker(address, client_id="ann")
            worker.register("slow", lambda job: os.read(release, 1) + job.data)
            with worker:
                line = _wait_for(tmp_path, handle, "running")
                assert (line["worker"], line["attempts"], line["ended"]) == ("ann", 1, None)
                assert ids(tmp_path, "--state", "running") == [line["id"]]
                os.write(hold, b"!")
                line = _wait_for(tmp_path, handle, "done")
            os.close(release)
            os.close(hold)
        assert line["result"] == "!work"
        assert ids(tmp_path, "--key", "mine") == [line["id"]]
        hall.signal(signal.SIGTERM)
        assert hall.wait() == 0
    assert listed(tmp_path) == [line]


def _wait_for(folder: Path, handle: str, state: str) -> dict[str, object]:
    """The job's record once it is in that state. Each look is a process, so there is no hurry."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        (line,) = listed(folder, "--handle", handle)
        if line["state"] == state:
            return line
        assert time.monotonic() < deadline_s, line
