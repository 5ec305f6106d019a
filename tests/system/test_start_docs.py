"""The pages of docs/start: every block runs, and prints what its page says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import pytest
from foreign import Program, missing_program
from hall_process import Gearmand, free_port, wait_until
from page_blocks import DOCS, Block, PageHall, Shell, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hall_process import HallProcess

PAGES: Final = DOCS / "start"
BLOCKS: Final = {"dwork.md": 3, "zeromq.md": 3, "agents.md": 3, "gearman.md": 8}
"""How many blocks of code each page has."""
SERVED: Final = [page for page in BLOCKS if page != "gearman.md"]
DUE_S: Final = 4_000_000_000
"""A time far in the future, in seconds since 1970."""


@pytest.fixture
def gearman_shell(tmp_path: Path, need: Callable[[str], None]) -> Iterator[Shell]:
    """A shell with two free ports; ends the servers whose pid files are left in it."""
    need(missing_program("gearman", "gearadmin", "rev"))
    yield Shell(tmp_path, {"4730": str(free_port()), "4731": str(free_port())})
    for left in tmp_path.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(left.read_text()), signal.SIGKILL)


class StoringGearmand(Gearmand):
    """gearmand with its jobs in a file."""

    def __init__(self, folder: Path, port: int, database: Path) -> None:
        super().__init__(folder)
        self.port = port
        self._database = database

    def start(self) -> None:
        queue = ["-q", "libsqlite3", f"--libsqlite3-db={self._database}"]
        listen = ["--listen", "127.0.0.1", "--port", str(self.port), "--log-file", "stderr"]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                ["/usr/sbin/gearmand", *listen, *queue],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                cwd=self.folder,
            )
        wait_until(self._listens, "gearmand listens", 30.0)


def queued(database: Path) -> list[tuple[object, ...]]:
    """What gearmand has stored."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        columns = "function_name, unique_key, priority, data, when_to_run"
        return sorted(connection.execute(f"SELECT {columns} FROM gearman_queue"))


def read_start(page: str) -> list[Block]:
    return read_blocks(f"start/{page}")


def test_no_page_is_left_out() -> None:
    assert {path.name for path in PAGES.iterdir()} == set(BLOCKS)


@pytest.mark.parametrize(("page", "count"), BLOCKS.items())
def test_every_link_leads_to_a_file_and_every_block_is_known(page: str, count: int) -> None:
    blocks = read_start(page)
    assert len(blocks) == count
    assert {block.language for block in blocks} <= {"sh", "python"}
    assert (PAGES / page).read_text().count("\n```") == 2 * count, "a block is not marked as sh or python"
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (PAGES / page).read_text()):
        assert (PAGES / target).exists(), target


@pytest.mark.parametrize("page", SERVED)
def test_every_block_prints_what_its_page_says(tmp_path: Path, page: str) -> None:
    serve, *blocks = read_start(page)
    shell = Shell(tmp_path, {})
    with PageHall(shell, serve):
        for block in blocks:
            assert block.printed or block.shown, f"{page} does not say what this prints: {block.text}"
            shell.check(block)


def test_the_village_that_is_named_can_be_made() -> None:
    (target,) = re.findall(r"^    make (\w+)$", (PAGES / "agents.md").read_text(), re.MULTILINE)
    assert re.search(rf"^{target}:", (PAGES.parents[1] / "Makefile").read_text(), re.MULTILINE)


def test_the_worker_program_of_the_page_of_peers_ends_on_sigterm(hall: HallProcess) -> None:
    section = (DOCS / "peers.md").read_text().partition("**A worker as a program.**")[2].partition("\n## ")[0]
    (program,) = re.findall(r"\n\n((?:    [^\n]*\n|\n)+)", section)
    text = textwrap.dedent(program).replace("127.0.0.1:4730", hall.address)
    with Program([sys.executable, "-W", "error", "-c", text], hall.folder) as worker:
        hall.wait_for_workers("reverse")
        with hall.client() as client:
            assert client.run("reverse", b"hello") == b"olleh"
        worker.process.terminate()
        assert worker.finish() == 0, worker.errors()


def test_the_gearman_page_from_the_first_job_to_the_end(gearman_shell: Shell) -> None:
    start, history, stop = read_start("gearman.md")[:3]
    for block in (start, history, stop):
        gearman_shell.check(block)
    assert not (gearman_shell.folder / "hall.pid").exists()


def test_queued_jobs_move_from_gearmand_to_the_hall_and_back(
    gearman_shell: Shell, need: Callable[[str], None]
) -> None:
    need(missing_program("gearmand"))
    _, _, stop, move, *_, export, send_back = read_start("gearman.md")
    folder, port = gearman_shell.folder, int(gearman_shell.places["4730"])
    with StoringGearmand(folder, port, folder / "jobs.db") as gearmand:
        with gearmand.client() as client:
            client.submit_background("mail", b"first", unique="u1")
            client.submit_background("mail", b"\xff\x00second", unique="u2", priority="high")
            client.submit_at("mail", b"", epoch_s=DUE_S, unique="u3")
        gearmand.signal(signal.SIGTERM)
        gearmand.wait()
    stored = queued(folder / "jobs.db")
    assert len(stored) == 3
    with pytest.raises(AssertionError, match="still has 3 jobs of gearmand"):
        gearman_shell.run(move.text.splitlines()[2])
    gearman_shell.check(move)
    gearman_shell.check(stop)
    gearman_shell.check(export)
    with StoringGearmand(folder, port, folder / "back.db") as gearmand:
        gearman_shell.check(send_back)
    assert queued(folder / "back.db") == stored


def test_gearmand_stores_only_the_latest_job_without_a_unique(
    tmp_path: Path, need: Callable[[str], None]
) -> None:
    """The page warns of it: such jobs cannot be moved."""
    need(missing_program("gearmand"))
    with StoringGearmand(tmp_path, free_port(), tmp_path / "jobs.db") as gearmand:
        with gearmand.client() as client:
            for data in (b"first", b"second", b"third"):
                client.submit_background("mail", data)
        assert gearmand.counts("mail") == (3, 0, 0)
    assert queued(tmp_path / "jobs.db") == [("mail", "", 1, b"third", 0)]


def test_workers_serve_gearmand_and_the_hall_side_by_side(
    gearman_shell: Shell, need: Callable[[str], None]
) -> None:
    need(missing_program("gearmand"))
    second, both = read_start("gearman.md")[4:6]
    folder = gearman_shell.folder
    with StoringGearmand(folder, int(gearman_shell.places["4730"]), folder / "jobs.db"):
        gearman_shell.check(second)
        gearman_shell.check(both)


def test_options_of_gearmand_are_accepted_as_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {})
    assert shell.run("hall-gearmand --check-args -t 4 --hashtable-buckets=7 --http-port=80 -j 3 -R") == ""
    for kind in ("MySQL", "Postgres", "redis", "libmemcached"):
        with pytest.raises(AssertionError, match=f"--queue-type={kind} is not supported"):
            shell.run(f"hall-gearmand -q {kind} -P pid")
