"""Somebody removes or moves the hall's files: no durable job is acknowledged that no start would find."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess, wait_until

from hiringhall.peers.gearman import Client, GearmanError
from hiringhall.storage.sqlite import DATABASE
from stage import forking
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sqlite
WAL = f"{DATABASE}-wal"
NOTICED_S_MAX = 3.0
"""The hall looks once a second."""


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path) as hall:
        yield hall


def submit(client: Client, count: int) -> list[str]:
    """Durable submits; the words of each refusal."""
    refused: list[str] = []
    for number in range(count):
        try:
            client.submit_background("keep", b"%d" % number)
        except GearmanError as error:
            refused.append(str(error))
    return refused


@pytest.mark.parametrize("what", ["folder", "data file", "log"])
def test_durable_jobs_are_refused_when_the_files_are_removed(hall: HallProcess, what: str) -> None:
    with hall.client() as client:
        assert not submit(client, 3)
        if what == "folder":
            shutil.rmtree(hall.data)
        else:
            (hall.data / (DATABASE if what == "data file" else WAL)).unlink()
        refused = submit(client, 30)
    assert len(refused) == 30
    assert all("was removed or moved away while the hall runs" in words for words in refused)
    hall.signal(signal.SIGTERM)
    assert hall.wait() == 0


def test_an_idle_hall_notices_within_a_second(hall: HallProcess) -> None:
    with Stopwatch() as watch:
        shutil.rmtree(hall.data)
        hall.wait_for_errors("the store is in trouble")
    assert watch.elapsed_s < NOTICED_S_MAX
    hall.wait_for_errors("was removed or moved away")


def test_service_goes_on_by_itself_when_the_same_folder_is_back(hall: HallProcess, tmp_path: Path) -> None:
    away = tmp_path / "away"
    with hall.client() as client:
        assert not submit(client, 2)
        hall.data.rename(away)
        assert len(submit(client, 2)) == 2
        away.rename(hall.data)
        wait_until(lambda: not submit(client, 1), "a job is taken in again")
    hall.kill()
    hall.start()
    assert hall.counts("keep")[0] == 3


def test_a_folder_put_in_its_place_is_not_used_and_not_changed(hall: HallProcess, tmp_path: Path) -> None:
    with hall.client() as client:
        assert not submit(client, 1)
        backup = tmp_path / "backup"
        shutil.copytree(hall.data, backup)
        assert not submit(client, 1)
        shutil.rmtree(hall.data)
        shutil.copytree(backup, hall.data)
        refused = submit(client, 5)
    assert len(refused) == 5
    assert "was replaced by another file" in refused[0]
    hall.signal(signal.SIGTERM)
    assert hall.wait() == 0
    assert (hall.data / WAL).read_bytes() == (backup / WAL).read_bytes()
    hall.start()
    assert hall.counts("keep")[0] == 1


@contextmanager
def serving(hall: HallProcess, *flags: str) -> Iterator[subprocess.Popen[str]]:
    command = [*forking.HALL, "serve", "--json", "--config", str(hall.folder / "hall.toml"), *flags]
    with forking.popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_missing_log_keeps_a_hall_from_opening_until_the_loss_is_accepted(hall: HallProcess) -> None:
    with hall.client() as client:
        assert not submit(client, 10)
    hall.kill()
    (hall.data / WAL).unlink()
    for _ in range(2):
        with serving(hall) as refused:
            assert refused.stdout is not None
            assert refused.stderr is not None
            opened, errors = refused.stdout.readline(), ""
            if not opened:
                errors = refused.stderr.read()
        assert opened == ""
        assert f"\nhall: {hall.data}: {WAL} is missing" in f"\n{errors}"
        assert "--accept-loss" in errors
    with serving(hall, "--accept-loss") as accepting:
        assert accepting.stdout is not None
        opened = accepting.stdout.readline()
        accepting.terminate()
        _, errors = accepting.communicate(timeout=30)
    assert json.loads(opened)["recovered"] == 0
    assert accepting.returncode == 0
    assert "the loss is accepted" in errors
    hall.start()
