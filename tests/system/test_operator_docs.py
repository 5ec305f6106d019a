"""The pages for operators: their shell blocks do on a real hall what the pages say."""

from __future__ import annotations

import json
import stat
import threading
from typing import TYPE_CHECKING

from hall_process import HallProcess
from shell_pages import Shell, shell_blocks

if TYPE_CHECKING:
    from pathlib import Path

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


def test_deployment_a_backup_under_load_has_every_acknowledged_job(tmp_path: Path) -> None:
    blocks = shell_blocks("deployment.md")
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
    assert ": fine; gearman on 127.0.0.1:4730;" in shell.run(settings)

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
        saved = exported_keys(tmp_path / "backups/jobs.jsonl")
        assert set(promised) <= saved <= set(load.acknowledged)
        for file in (tmp_path / "backups").iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file

    (tmp_path / "data").rename(tmp_path / "data.old")
    shell.run(restore)
    with HallProcess(tmp_path) as restored:
        assert restored.counts("mail")[0] == len(saved)
        assert "hall.sqlite3 is a copy" in restored.errors()
        assert "nightly" in shell.run("hall schedule list --data /var/lib/hall")
        restored.drain()
        assert restored.wait() == 0

    shell.run(move)
    with HallProcess(tmp_path, hall={"data": str(tmp_path / "other")}) as other:
        assert other.counts("mail")[0] == len(saved)


def test_deployment_the_command_lines_backup_ends_on_an_idle_hall(hall: HallProcess, tmp_path: Path) -> None:
    with hall.client() as client:
        client.submit_background("mail", PAYLOAD, unique="one")
    shell = Shell(tmp_path, {})
    copy = tmp_path / "copy"
    copy.mkdir()
    shell.run(f'sqlite3 -readonly {hall.data}/hall.sqlite3 ".backup {copy}/hall.sqlite3"')
    shell.run(f"hall export --data {copy} jobs.jsonl")
    assert exported_keys(tmp_path / "jobs.jsonl") == {"one"}


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
