"""A real hall on PostgreSQL: it survives its own crashes and those of the server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiringhall
from hiringhall.peers.gearman import Client, GearmanError
from hiringhall.storage.opening import open_history
from stage.forking import HALL, popen
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = str(Path(hiringhall.__file__).parents[1])
SERVE = [*HALL, "serve", "--json", "--no-web", "--door", "gearman=127.0.0.1:0"]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))  # its user cannot enter the folders of pytest
    made = PostgresServer(folder, safe=True)
    made.create()
    made.start()
    yield made
    made.remove()
    shutil.rmtree(folder, ignore_errors=True)


class HallProcess:
    """`hall serve` with its data in PostgreSQL, ended by its process id."""

    def __init__(self, url: str, folder: Path) -> None:
        command = [*SERVE, "--data", url, "--set", f"hall.folder={folder}"]
        environment = {**os.environ, "PYTHONPATH": CODE}
        self.process = popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        opened = self.process.stdout.readline()
        assert opened, self.process.communicate()[1]
        self.recovered: int = json.loads(opened)["recovered"]
        self.address: str = json.loads(opened)["doors"][0]["address"]

    def wait_for(self, words: str) -> None:
        """Read the log up to a line with these words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return
        raise AssertionError(f"the hall ended before it said: {words}")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


def test_jobs_survive_a_crash_of_the_server_and_of_the_hall(server: PostgresServer, tmp_path: Path) -> None:
    hall = HallProcess(server.url(), tmp_path / "local")
    with closing(hall), Client(hall.address) as client:
        client.submit_background("rev", b"one")
        server.stop("immediate")
        with pytest.raises(GearmanError):
            client.submit_background("rev", b"refused")
        server.start()
        hall.wait_for("the store works again")
        client.submit_background("rev", b"two")
        hall.kill()
    with closing(HallProcess(server.url(), tmp_path / "local")) as again:
        assert again.recovered == 2
        with closing(open_history(server.url())) as reader:
            assert [row.payload for row in reader.live()] == [b"one", b"two"]


def test_the_password_is_nowhere_in_what_a_hall_says(server: PostgresServer, tmp_path: Path) -> None:
    hall = HallProcess(server.url(), tmp_path / "local")
    server.stop("immediate")
    with closing(hall), Client(hall.address) as client:
        with pytest.raises(GearmanError):
            client.submit_background("rev", b"refused")
        hall.process.terminate()
        said = "".join(hall.process.communicate())
    assert "store" in said
    assert "secret" not in said
