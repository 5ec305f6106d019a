"""Somebody types `hall`: opens one, stops it, does it wrong, and looks into the history."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from running import HALL, Running, ask, connect, run

from hiringhall import __version__
from stage.needs import skip_without

if TYPE_CHECKING:
    from pathlib import Path

DOOR = ("--door", "gearman=127.0.0.1:0")

CAN_DO, GRAB_JOB, NO_JOB, JOB_ASSIGN, WORK_COMPLETE, WORK_FAIL, SUBMIT_JOB_BG, JOB_CREATED = (
    1,
    9,
    10,
    11,
    13,
    14,
    18,
    8,
)


def say(connection: socket.socket, kind: int, *arguments: bytes) -> None:
    body = b"\0".join(arguments)
    connection.sendall(b"\0REQ" + struct.pack(">II", kind, len(body)) + body)


def hear(connection: socket.socket) -> tuple[int, bytes]:
    kind, size = struct.unpack(">4xII", connection.recv(12, socket.MSG_WAITALL))
    return kind, connection.recv(size, socket.MSG_WAITALL) if size else b""


def submit(address: str, *payloads: bytes) -> None:
    with connect(address) as client:
        for payload in payloads:
            say(client, SUBMIT_JOB_BG, b"work", b"key-" + payload, payload)
            assert hear(client)[0] == JOB_CREATED


def take(worker: socket.socket) -> bytes:
    """Ask for a job of the queue; its handle."""
    say(worker, CAN_DO, b"work")
    say(worker, GRAB_JOB)
    kind, body = hear(worker)
    assert kind == JOB_ASSIGN
    return body.split(b"\0")[0]


# --- opening and closing


def test_a_hall_opens_says_where_and_closes_when_it_is_told(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, "--door", "gearman=[::1]:0", cwd=tmp_path) as hall:
        opened = hall.opened()
        assert opened["hall"] == "hall"
        assert opened["pid"] == hall.process.pid
        assert opened["data"] == str(tmp_path / "hall-data")
        assert opened["recovered"] == 0
        assert [door["dialect"] for door in opened["doors"]] == ["gearman", "gearman"]
        for door in opened["doors"]:
            assert ask(door["address"], "getpid") == f"OK {hall.process.pid}"
            assert ask(door["address"], "version") == f"OK 1.1.20+hiringhall-{__version__}"
        hall.signal(signal.SIGTERM)
        assert hall.wait() == 0
        assert "draining" in hall.errors()


def test_the_settings_file_is_what_is_served(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(
        '[hall]\nname = "mine"\nstorage = "memory"\n[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"',
        encoding="utf-8",
    )
    with Running(HALL, "serve", "--json", cwd=tmp_path) as hall:
        opened = hall.opened()
        assert (opened["hall"], opened["data"]) == ("mine", "")
        assert not (tmp_path / "hall-data").exists()


def test_people_read_the_doors_the_folder_and_a_line_that_works(tmp_path: Path) -> None:
    skip_without("gearman")
    with Running(HALL, "serve", *DOOR, cwd=tmp_path) as hall:
        assert hall.process.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(hall.process.stdout.readline())
        shown = "".join(lines)
        assert str(tmp_path / "hall-data") in shown
        assert "0 recovered" in shown
        (first_job,) = [line.strip() for line in lines if "gearman -h" in line]
        done = subprocess.run(["sh", "-c", first_job], capture_output=True, text=True, timeout=30, check=True)
        assert done.stdout.strip() == "olleh"


def test_acknowledged_jobs_are_there_after_a_kill(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        submit(hall.opened()["doors"][0]["address"], b"a", b"b", b"c")
        hall.signal(signal.SIGKILL)
        hall.wait()
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        assert hall.opened()["recovered"] == 3


def test_a_drain_waits_for_the_job_that_runs(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        address = hall.opened()["doors"][0]["address"]
        submit(address, b"a", b"b")
        with connect(address) as worker:
            handle = take(worker)
            hall.signal(signal.SIGTERM)
            hall.line_like("draining")
            with pytest.raises(OSError, match="refused"):
                connect(address)
            say(worker, GRAB_JOB)
            assert hear(worker)[0] == NO_JOB
            say(worker, WORK_COMPLETE, handle, b"done")
            assert hall.wait() == 0
    listed = run(HALL, "history", "--json", "--data", "hall-data", cwd=tmp_path)
    assert [json.loads(line)["result"] for line in listed.stdout.splitlines()] == ["done"]
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        assert hall.opened()["recovered"] == 1


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        address = hall.opened()["doors"][0]["address"]
        submit(address, b"a")
        with connect(address) as worker:
            take(worker)
            hall.signal(signal.SIGINT)
            hall.line_like("draining")
            hall.signal(signal.SIGTERM)
            assert hall.wait() == 1
            assert "stopping at once" in hall.errors()


def test_when_the_grace_is_over_the_job_goes_back_without_a_loss(tmp_path: Path) -> None:
    words = ("--set", "hall.drain_grace_s=0.1", "--set", "door[0].losses_max=1")
    with Running(HALL, "serve", "--json", *DOOR, *words, cwd=tmp_path) as hall:
        address = hall.opened()["doors"][0]["address"]
        submit(address, b"a")
        with connect(address) as worker:
            take(worker)
            hall.signal(signal.SIGTERM)
            assert hall.wait() == 0
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        assert hall.opened()["recovered"] == 1


# --- trouble: one line, no traceback


def test_a_default_door_whose_port_is_in_use_keeps_the_other_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        places = ("--set", f"door[0].address={taken}", "--set", "door[1].address=127.0.0.1:0")
        with Running(HALL, "serve", "--json", "--storage", "memory", *places, cwd=tmp_path) as hall:
            assert [door["dialect"] for door in hall.opened()["doors"]] == ["native"]
            hall.process.terminate()
            hall.wait()
            assert f"{taken} is in use by another program, so the gearman door is not opened" in hall.errors()


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        failed = run(HALL, "serve", "--door", f"gearman={address}", cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == (
        f"hall: door[0]: {address} is in use by another program; stop it or choose another port\n"
    )


def test_an_address_of_another_machine_is_one_line(tmp_path: Path) -> None:
    words = ("--door", "gearman=203.0.113.1:0", "--set", "door.0.insecure=true", "--storage", "memory")
    failed = run(HALL, "serve", *words, cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == "hall: door[0]: 203.0.113.1:0 is not an address of this machine\n"


def test_two_halls_on_one_folder_is_one_line(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        hall.opened()
        failed = run(HALL, "serve", *DOOR, cwd=tmp_path)
        assert failed.returncode == 1
        assert failed.stderr.startswith(f"hall: another hall (process {hall.process.pid}) ")
        assert failed.stderr.count("\n") == 1


def test_a_data_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    failed = run(HALL, "serve", *DOOR, "--data", "file/data", cwd=tmp_path)
    assert failed.returncode == 1
    assert failed.stderr == f"hall: data folder {tmp_path}/file/data cannot be created: Not a directory\n"


def test_a_stdout_that_nobody_reads_is_one_line(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        for words in (("serve", *DOOR), ("serve", "--json", *DOOR), ("config",)):
            failed = run(HALL, *words, cwd=tmp_path, stdout=write_end)
            assert failed.returncode == 1
            assert failed.stderr.splitlines()[-1] == "hall: stdout was closed before everything was written"
            assert "Traceback" not in failed.stderr
    finally:
        os.close(write_end)


def test_wrong_settings_leave_with_2(tmp_path: Path) -> None:
    for command in ("serve", "check-config"):
        failed = run(HALL, command, "--set", "limits.jobs_mx=1", "--set", "hall.storage=disk", cwd=tmp_path)
        assert (failed.returncode, failed.stdout) == (2, "")
        assert failed.stderr.splitlines() == [
            'hall: --set: hall.storage: "disk" is not allowed; it takes one of "sqlite", "memory"',
            "hall: --set: limits.jobs_mx: no such setting; did you mean jobs_max?",
        ]
    failed = run(HALL, "serve", "--set", "door.lease_s=4", cwd=tmp_path)
    assert (failed.returncode, failed.stderr) == (
        2,
        "hall: --set: door: write each door as a separate table headed [[door]]\n",
    )
    assert run(HALL, "serve", "--nonsense", cwd=tmp_path).returncode == 2
    assert run(HALL, "nonsense", cwd=tmp_path).returncode == 2


def test_a_certificate_that_is_not_there_is_found_by_the_check(tmp_path: Path) -> None:
    words = (
        "--set",
        "door.0.tls.certificate=c.pem",
        "--set",
        "door.0.tls.key=k.pem",
        "--set",
        "door.0.tls.ca=a.pem",
    )
    for command in ("check-config", "serve"):
        failed = run(HALL, command, *DOOR, *words, cwd=tmp_path)
        assert failed.returncode == 1
        assert failed.stderr == "hall: door[0].tls: c.pem and k.pem cannot be used: No such file or directory\n"


BROKEN_HALL = """
import asyncio, sys
from pathlib import Path
from hiringhall.config.loading import Flags, load
from hiringhall.core.errors import invariant
from hiringhall.server import DOOR_SETTINGS, run

config = load(Flags(doors=["gearman=127.0.0.1:0"]), {}, DOOR_SETTINGS, ()).config
sys.exit(run(config, lambda opened: asyncio.get_running_loop().call_soon(invariant, False, "a planted law")))
"""


def test_a_broken_law_stops_the_hall_loudly(tmp_path: Path) -> None:
    stopped = run((sys.executable, "-c", BROKEN_HALL), cwd=tmp_path)
    assert stopped.returncode == 70
    assert "BrokenLaw: a planted law" in stopped.stderr


# --- the other commands


def test_the_version_is_printed(tmp_path: Path) -> None:
    for word in ("version", "--version"):
        printed = run(HALL, word, cwd=tmp_path)
        assert (printed.returncode, printed.stdout) == (0, f"hiringhall {__version__}\n")


def test_the_printed_settings_pass_the_check(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(run(HALL, "config", cwd=tmp_path).stdout, encoding="utf-8")
    checked = run(HALL, "check-config", cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    doors = "gearman on 127.0.0.1:4730, native on 127.0.0.1:4731"
    assert checked.stdout == f"hall.toml: fine; {doors}; data in hall-data\n"


@pytest.mark.parametrize(
    "command", ["serve", "check-config", "config", "history", "export", "import", "schedule", "version"]
)
def test_every_command_explains_itself(command: str, tmp_path: Path) -> None:
    helped = run(HALL, command, "--help", cwd=tmp_path)
    assert helped.returncode == 0
    assert "Usage: hall" in helped.stdout


def test_the_history_shows_what_became_of_jobs(tmp_path: Path) -> None:
    with Running(HALL, "serve", "--json", *DOOR, cwd=tmp_path) as hall:
        address = hall.opened()["doors"][0]["address"]
        submit(address, b"good", b"bad")
        with connect(address) as worker:
            say(worker, WORK_COMPLETE, take(worker), b"\xff\x1b[31m")
            say(worker, WORK_FAIL, take(worker))
            say(worker, GRAB_JOB)
            assert hear(worker)[0] == NO_JOB
        assert run(HALL, "history", cwd=tmp_path).returncode == 0
        hall.signal(signal.SIGTERM)
        assert hall.wait() == 0

    lines = [json.loads(line) for line in run(HALL, "history", "--json", cwd=tmp_path).stdout.splitlines()]
    assert [(line["state"], line["key"]) for line in lines] == [("failed", "key-bad"), ("done", "key-good")]
    assert lines[1]["result_base64"] == "/xtbMzFt"
    assert lines[0]["payload"] == "bad"

    table = run(HALL, "history", cwd=tmp_path).stdout
    assert "\x1b" not in table
    assert len(table.splitlines()) == 3
    dead = run(HALL, "history", "--state", "failed", "--queue", "work", cwd=tmp_path).stdout
    assert "key-bad" in dead
    assert "key-good" not in dead
    assert run(HALL, "history", "--key", "nobody", cwd=tmp_path).stdout == "No jobs found.\n"
    assert "the newest 1 " in run(HALL, "history", "--limit", "1", cwd=tmp_path).stderr


def test_a_history_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    missing = run(HALL, "history", "--data", "nowhere", cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr == "hall: there is no history in nowhere; use --data to name the hall's data folder\n"
    serve = ("serve", "--json", "--data", ".hall-dev", "--door", "gearman=127.0.0.1:0")
    with Running(HALL, *serve, cwd=tmp_path) as hall:
        hall.opened()
    missing = run(HALL, "history", cwd=tmp_path)
    why = "there is one in .hall-dev: use --data .hall-dev"
    assert missing.stderr == f"hall: there is no history in hall-data; {why}\n"
    wrong = run(HALL, "history", "--state", "lost", cwd=tmp_path)
    assert wrong.returncode == 2
    known = "done, failed, cancelled, running, queued, delayed, held"
    assert wrong.stderr == f'hall: --state: "lost" is not allowed; it takes one of {known}\n'


def test_a_message_holds_nothing_that_a_terminal_acts_on(tmp_path: Path) -> None:
    ended = run(HALL, "serve", "--set", "limits.\x1b\u009b31m=5", cwd=tmp_path)
    assert ended.returncode == 2
    assert "\\x9b31m" in ended.stderr
    assert not [char for char in ended.stderr if not char.isprintable() and char != "\n"]
