"""`hall backup` while a hall works, and `hall restore` of what it made."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess
from native_peer import NativePeer
from remote_stage import RemoteStage
from running import HALL, run

from hiringhall.cli.backup import MANIFEST
from hiringhall.storage.sqlite import DATABASE

if TYPE_CHECKING:
    from pathlib import Path

JOBS = 200


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_backup_of_a_working_hall_has_all_that_was_acknowledged_before(tmp_path: Path, name: str) -> None:
    with RemoteStage(tmp_path) as stage:
        before = [stage.submit(b"kept", b"p" * 1000) for _ in range(JOBS)]
        (stage.data / "schedules.json").write_text('{"version": 1, "schedules": []}', encoding="utf-8")
        ending = threading.Event()
        submitting = threading.Thread(target=_submit_until, args=(stage.port, ending))
        submitting.start()
        try:
            made = run(HALL, "backup", name, "--data", str(stage.data), "--json", cwd=tmp_path)
        finally:
            ending.set()
            submitting.join()
        assert made.returncode == 0, made.stderr
        facts = json.loads(made.stdout)
        assert facts["jobs"] >= JOBS
        assert facts["files"] == [DATABASE, "schedules.json"]
    restored = run(HALL, "restore", name, "--data", "again/data", "--json", cwd=tmp_path)
    assert restored.returncode == 1
    (tmp_path / "again").mkdir()
    restored = run(HALL, "restore", name, "--data", "again/data", "--json", cwd=tmp_path)
    assert facts.pop("backup") == name
    assert json.loads(restored.stdout) == {"restored": "again/data", **facts}
    with HallProcess(tmp_path / "again", door={"dialect": "native"}) as hall, NativePeer(hall.port) as peer:
        assert [peer.ask("job", [number])["state"] for number in before] == ["queued"] * JOBS
    assert "without its log" not in hall.errors()


def _submit_until(port: int, ending: threading.Event) -> None:
    with NativePeer(port) as peer:
        while not ending.is_set():
            peer.submit(b"more", b"p" * 1000)


@pytest.fixture
def backed_up(tmp_path: Path) -> Path:
    with RemoteStage(tmp_path) as stage:
        stage.submit(b"kept")
    assert run(HALL, "backup", "copy", "--data", str(stage.data), cwd=tmp_path).returncode == 0
    return tmp_path / "copy"


def test_a_backup_replaces_nothing_and_leaves_nothing_half_made(backed_up: Path) -> None:
    folder = backed_up.parent
    again = run(HALL, "backup", "copy", "--data", str(folder / "data"), cwd=folder)
    assert (again.returncode, again.stderr) == (
        1,
        "hall: copy exists already: move it away, or choose another name\n",
    )
    nowhere = run(HALL, "backup", "x", "--data", str(folder / "nothing"), cwd=folder)
    assert nowhere.returncode == 1
    assert [path.name for path in folder.iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize("file", [DATABASE, MANIFEST])
def test_a_damaged_backup_is_not_restored(backed_up: Path, file: str) -> None:
    data = bytearray((backed_up / file).read_bytes())
    data[len(data) // 2] ^= 0xFF
    (backed_up / file).write_bytes(data)
    refused = run(HALL, "restore", "copy", "--data", "new", cwd=backed_up.parent)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert not (backed_up.parent / "new").exists()


def test_a_data_folder_is_not_replaced_by_a_restore(backed_up: Path) -> None:
    refused = run(HALL, "restore", "copy", "--data", "data", cwd=backed_up.parent)
    assert refused.returncode == 1
    assert "data exists already" in refused.stderr
