"""The pages for operators: their shell blocks do on a real hall what the pages say."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import stat
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from hall_process import CODE, HallProcess, wait_until
from page_blocks import ROOT, Shell, read_blocks

from hiringhall.peers.gearman import Worker
from stage import forking

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.peers.gearman import WorkerJob

PAYLOAD = b"x" * 10_000
"""Large enough that a backup has something to copy."""
BEFORE_BACKUP = 300


class Load:
    """Clients that submit durable jobs one after the other, until they are told to stop."""

    def __init__(self, hall: HallProcess, clients: int = 2) -> None:
        self._hall = hall
        self._stop = threading.Event()
        self._many = threading.Event()
        self.acknowledged: list[str] = []
        """The keys of all jobs of which a client knows that they are on disk."""
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(clients)]

    def _submit(self, number: int) -> None:
        with self._hall.client() as client:
            count = 0
            while not self._stop.is_set():
                key = f"job-{number}-{count}"
                client.submit_background("mail", PAYLOAD, unique=key)
                self.acknowledged.append(key)
                count += 1
                if len(self.acknowledged) >= BEFORE_BACKUP:
                    self._many.set()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        assert self._many.wait(60), "the hall takes no jobs"

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def exported_keys(file: Path) -> set[str]:
    return {json.loads(line)["key"] for line in file.read_text().splitlines()}


@pytest.mark.sqlite
def test_deployment_a_backup_under_load_has_every_acknowledged_job(tmp_path: Path) -> None:
    blocks = read_blocks("deployment.md", "sh")
    assert [block.heading for block in blocks] == [
        "Install",
        "Backup",
        "Restore",
        "Restore",
        "Move to another machine",
    ]
    settings, backup, restore, look, move = (block.text for block in blocks)
    places = {
        "/etc/hall": str(tmp_path / "settings"),
        "/var/lib/hall": str(tmp_path / "data"),
        "/var/lib/other": str(tmp_path / "other"),
        "/var/backups/hall": str(tmp_path / "backups"),
    }
    (tmp_path / "settings").mkdir()
    shell = Shell(tmp_path, places)
    assert ": fine; gearman on 127.0.0.1:4730, native on 127.0.0.1:4731;" in shell.run(settings)

    with HallProcess(tmp_path) as hall:
        shell.run("hall schedule add nightly --data /var/lib/hall --every 1d --queue backup")
        load = Load(hall)
        load.start()
        try:
            promised = list(load.acknowledged)
            shell.run(backup)
            assert len(load.acknowledged) > len(promised), "the backup ran beside a load"
        finally:
            load.stop()
        shell.run(look)
        saved = exported_keys(tmp_path / "jobs.jsonl")
        assert set(promised) <= saved <= set(load.acknowledged)
        for file in (tmp_path / "backups/2026-03-01").iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file

    (tmp_path / "data").rename(tmp_path / "data.old")
    shell.run(restore)
    with HallProcess(tmp_path) as restored:
        assert restored.counts("mail")[0] == len(saved)
        assert "is a copy" not in restored.errors()
        assert "nightly" in shell.run("hall schedule list --data /var/lib/hall")
        restored.drain()
        assert restored.wait() == 0

    shell.run(move)
    with HallProcess(tmp_path, hall={"data": str(tmp_path / "other")}) as other:
        assert other.counts("mail")[0] == len(saved)


@pytest.mark.sqlite
def test_deployment_the_command_lines_backup_ends_on_an_idle_hall(hall: HallProcess, tmp_path: Path) -> None:
    with hall.client() as client:
        client.submit_background("mail", PAYLOAD, unique="one")
    shell = Shell(tmp_path, {})
    copy = tmp_path / "copy"
    copy.mkdir()
    shell.run(f'sqlite3 -readonly {hall.data}/hall.sqlite3 ".backup {copy}/hall.sqlite3"')
    shell.run(f"hall export --data {copy} jobs.jsonl")
    assert exported_keys(tmp_path / "jobs.jsonl") == {"one"}


@pytest.mark.sqlite
def test_deployment_a_folder_copied_after_a_stop_or_a_kill_is_the_same_hall(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {})
    handles: list[str] = []
    with HallProcess(tmp_path) as hall:
        for end in ("stop", "kill"):
            with hall.client() as client:
                handles.append(client.submit_background("mail", b"x", unique=end).handle.decode())
            if end == "stop":
                hall.drain()
                assert hall.wait() == 0
            else:
                hall.kill()
            shell.run(f"cp -a data moved-{end}")
            with HallProcess(tmp_path / f"moved-{end}", hall={"data": str(tmp_path / f"moved-{end}")}) as moved:
                assert [line.split("\t")[0] for line in moved.admin("show jobs")] == handles
                assert "is a copy" not in moved.errors()
            hall.start()


# --- security


class PageHall(HallProcess):
    """A hall with the settings that a page has written, at ports that the system chooses."""

    def __init__(self, folder: Path, settings: Path) -> None:
        super().__init__(folder, door={}, environment={"HALL_DATA": str(folder / "data")})
        self._settings = settings
        self.opened: dict[str, str] = {}
        """The address of each door, by its role."""

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = forking.popen(
                [*forking.HALL, "serve", "--json", "--config", str(self._settings)],
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.folder,
                env=self._environment,
            )
        self.opened = {door["role"]: door["address"] for door in json.loads(self._first_line())["doors"]}


def promised(program: str) -> str:
    """What a program says, in a comment, that it prints."""
    (said,) = re.findall(r"# (b'.*')$", program, re.MULTILINE)
    return f"{said}\n"


def security_shell(folder: Path) -> Shell:
    (folder / "settings").mkdir()
    places = {
        "/etc/hall": str(folder / "settings"),
        "hall.example.org": "localhost",
        "/var/lib/hall": str(folder / "data"),
        "0.0.0.0:4730": "127.0.0.1:0",
        "0.0.0.0:4731": "127.0.0.1:0",
        "0.0.0.0:5555": "127.0.0.1:0",
        "0.0.0.0:5556": "127.0.0.1:0",
    }
    return Shell(folder, places)


def answer_without_certificate(port: int, ca: Path) -> bytes:
    """What a client that shows no certificate gets from a door with TLS: nothing, when it is refused."""
    context = ssl.create_default_context(cafile=str(ca))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
            context.wrap_socket(connection, server_hostname="localhost") as wrapped,
        ):
            wrapped.sendall(b"version\n")
            return wrapped.recv(100)
    except (ssl.SSLError, ConnectionError):
        return b""


def test_security_every_block_of_the_page_is_run_here() -> None:
    blocks = read_blocks("security.md")
    assert [(block.heading, block.language) for block in blocks] == [
        ("TLS and client certificates", "sh"),
        ("TLS and client certificates", "sh"),
        ("TLS and client certificates", "python"),
        ("CURVE at ZeroMQ doors", "sh"),
        ("CURVE at ZeroMQ doors", "python"),
        ("Tokens and roles", "sh"),
        ("Tokens and roles", "sh"),
        ("Tokens and roles", "python"),
    ]


def test_security_the_tls_of_the_page_lets_in_who_has_a_certificate(tmp_path: Path) -> None:
    make_files, write_settings, connect, *_ = (block.text for block in read_blocks("security.md"))
    shell = security_shell(tmp_path)
    shell.run(make_files)
    assert ": fine; gearman on 127.0.0.1:0;" in shell.run(write_settings)
    with PageHall(tmp_path, tmp_path / "settings/hall.toml") as hall:
        port = hall.opened[""].rpartition(":")[2]
        shell.places["localhost:4730"] = f"localhost:{port}"
        assert shell.run_python(connect) == promised(connect)
        assert answer_without_certificate(int(port), tmp_path / "settings/ca.pem") == b""
        wait_until(lambda: "tls failure: " in hall.errors(), "the log tells of the failed handshake")
        assert "permissions" not in hall.errors(), "umask 077 makes keys that only their owner can read"


def test_security_the_curve_of_the_page_lets_in_who_has_a_key(tmp_path: Path) -> None:
    make_files, connect = (block.text for block in read_blocks("security.md") if "CURVE" in block.heading)
    shell = security_shell(tmp_path)
    assert ": fine; pingpong on 127.0.0.1:0;" in shell.run(make_files)
    with PageHall(tmp_path, tmp_path / "settings/hall.toml") as hall:
        shell.places["127.0.0.1:5556"] = hall.opened["backend"]
        shell.places["127.0.0.1:5555"] = hall.opened["frontend"]
        assert shell.run_python(connect) == promised(connect)
        assert "permissions" not in hall.errors()


def test_security_the_token_of_the_page_lets_in_until_it_is_revoked(tmp_path: Path) -> None:
    make_token, write_settings, connect = (
        block.text for block in read_blocks("security.md") if block.heading == "Tokens and roles"
    )
    shell = security_shell(tmp_path)
    shell.run(next(block.text for block in read_blocks("security.md")))
    assert "operator" in shell.run(make_token)
    assert ": fine; native on 127.0.0.1:0;" in shell.run(write_settings)
    with PageHall(tmp_path, tmp_path / "settings/native.toml") as hall:
        shell.places["localhost:4731"] = f"localhost:{hall.opened[''].rpartition(':')[2]}"
        assert shell.run_python(connect) == "queued\n"
        token = (tmp_path / "settings/anna.token").read_text()
        assert token.strip() not in hall.errors()
        shell.run(f"hall token revoke anna --data {tmp_path / 'data'}")
        wait_until(lambda: "the token" in _error_of(shell, connect), "the token is refused")
        wait_until(lambda: "unauthorized: " in hall.errors(), "the log tells of the wrong token")


def _error_of(shell: Shell, program: str) -> str:
    """What a program raises; empty: nothing."""
    try:
        shell.run_python(program)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("dialect", ["gearman", "hire", "dwork", "pingpong", "wmp", "hire-bus"])
def test_security_a_door_for_other_machines_needs_a_protection_or_a_word(tmp_path: Path, dialect: str) -> None:
    def check(*words: str) -> int:
        command = [*forking.HALL, "check-config", "--door", f"{dialect}=0.0.0.0:4730", *words]
        variables = {**os.environ, "PYTHONPATH": CODE}
        ended = forking.run(command, cwd=tmp_path, env=variables, capture_output=True, timeout=60)
        return ended.returncode

    assert check() == 2
    assert check("--set", "door[0].insecure=true") == 0


def test_security_new_files_are_for_their_owner_alone(hall: HallProcess, tmp_path: Path) -> None:
    with hall.client() as client:
        client.submit_background("mail", b"x")
    shell = Shell(tmp_path, {})
    shell.run(
        f"umask 022; hall export --data {hall.place} jobs.jsonl;"
        f" hall history --data {hall.place} --output h.csv"
    )
    files = [tmp_path / "jobs.jsonl", tmp_path / "h.csv", *hall.data.iterdir()]
    assert {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in files} == {
        file.name: "0o600" for file in files
    }
    assert stat.S_IMODE(hall.data.stat().st_mode) == 0o700


# --- monitoring


def stand_in_for_journalctl(shell: Shell, hall: HallProcess) -> None:
    """A `journalctl` that writes the log of this hall, as the journal would with --output=cat."""
    program = shell.folder / "bin/journalctl"
    program.write_text(f"#!/bin/sh\nexec cat {hall.folder}/stderr\n")
    program.chmod(0o755)


def fail_one_job(hall: HallProcess) -> None:
    """Have one durable job done, and one end as a dead letter."""

    def work(job: WorkerJob) -> bytes:
        if job.data == b"bad":
            raise ValueError("no such address")
        return b"sent"

    worker = Worker(hall.address)
    worker.register("mail", work)
    with worker, hall.client() as client:
        client.submit_background("mail", b"good", unique="good")
        client.submit_background("mail", b"bad", unique="bad")
        wait_until(lambda: len(hall.history()) == 2, "both jobs have ended")
    wait_until(lambda: '"dead_letter"' in hall.errors(), "the log tells of it")


def test_monitoring_every_block_says_what_the_page_says(tmp_path: Path) -> None:
    blocks = read_blocks("monitoring.md", "sh", "python")
    assert [(block.heading, block.language) for block in blocks] == [
        ("Is it up", "sh"),
        ("Queues and workers", "sh"),
        ("Queues and workers", "sh"),
        ("What became of jobs", "sh"),
        ("What became of jobs", "python"),
        ("The log", "sh"),
        ("The log", "sh"),
    ]
    alive, tables, idle, dead, times, alerts, counted = (block.text for block in blocks)
    with HallProcess(tmp_path, hall={"log_format": "json"}) as hall:
        shell = Shell(tmp_path, {"/var/lib/hall": hall.place, "--port=4730": f"--port={hall.port}"})
        stand_in_for_journalctl(shell, hall)
        fail_one_job(hall)
        with hall.client() as client:
            client.submit_background("print", b"x")

        assert "hiringhall" in shell.run(alive)
        status, priorities, workers = shell.run(tables).split(".\n")[:3]
        assert "print\t1\t0\t0" in status.splitlines()
        assert "print\t0\t1\t0\t0" in priorities.splitlines()
        # The connection of the gearadmin before may not have ended yet.
        assert re.fullmatch(r"(\d+ 127\.0\.0\.1 - :\n){1,2}", workers), "gearadmin itself is there"
        assert shell.run(idle) == "print: 1 jobs and no worker\n"

        count, *table = shell.run(dead).splitlines()
        assert count.strip() == "1"
        assert any("bad" in line for line in table)
        assert shell.run_python(times).startswith("mail 1 done; median wait and run in seconds: ")

        found = [json.loads(line)["event"] for line in shell.run(alerts).splitlines()]
        assert found == ["dead_letter"]
        assert ["1", '"event":', '"dead_letter"'] in [line.split() for line in shell.run(counted).splitlines()]
        hall.drain()
        assert hall.wait() == 0
        with pytest.raises(AssertionError):
            shell.run(alive)


def test_monitoring_the_page_names_every_event_of_the_log() -> None:
    documented = set(
        re.findall(r"^\| `(\w+)` \| warning \|", (ROOT / "docs/logging.md").read_text(), re.MULTILINE)
    )
    page = (ROOT / "docs/monitoring.md").read_text()
    assert documented
    assert {event for event in documented if f"`{event}`" not in page} == set()
