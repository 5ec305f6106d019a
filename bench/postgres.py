"""Durable jobs on PostgreSQL: beside SQLite, with a snapshot held open, and beside procrastinate.

The PostgreSQL is Debian's with its defaults, so it syncs every commit, in a folder of its own. All its users
share it, in databases of their own, and take turns.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from figures import AT_LEAST, Figures, Ratio, Section
from scenarios import MODES, Running
from servers import HERE, Hall, ServerError, announced_port
from slap import Load

sys.path.insert(0, str(HERE.parent / "tests"))

from stage.postgres_server import PostgresServer, binary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from figures import Row
    from scenarios import Stage

ON_POSTGRES = "hall on PostgreSQL"
HELD = "hall on PostgreSQL, snapshot held"
PROCRASTINATE = "procrastinate"
TO_SQLITE = Ratio(ON_POSTGRES, Hall.name)
HELD_TO_FREE = Ratio(HELD, ON_POSTGRES)
TO_PROCRASTINATE = Ratio(ON_POSTGRES, PROCRASTINATE)
SUBMIT_AND_DRAIN = ("submit", "drain")
PEER = HERE.parent / ".peers" / "procrastinate" / "bin" / "python"
PEER_S_MAX = 900.0


class HallOnPostgres(Hall):
    """`hall serve` with its data in PostgreSQL."""

    def __init__(self, name: str, folder: Path, python: str, url: str) -> None:
        super().__init__(folder, python)
        self.name = name
        self._url = url

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json", "--no-web", "--data", self._url]
        command += ["--set", f"hall.folder={self.folder / 'local'}", "--door", "gearman=127.0.0.1:0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


@contextmanager
def postgres(folder: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(folder, safe=True, shared_buffers="128MB", autovacuum_naptime="1min")
    server.create()
    server.start()
    try:
        for name in ("free", "held", "peer"):
            server.sql(f"CREATE DATABASE {name}")
        yield server
    finally:
        server.remove()


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """A transaction that has looked at the database, and stays open."""
    command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class; SELECT 'open';\n"
        )
        client.stdin.flush()
        while client.stdout.readline().strip() != "open":
            if client.poll() is not None:
                raise ServerError("psql could not open a transaction")
        yield
        client.stdin.close()


def measure_procrastinate(url: str, jobs: int) -> dict[str, float]:
    """Jobs a second of procrastinate, in a process and an environment of its own."""
    if not PEER.exists():
        raise ServerError("procrastinate is not installed: run scripts/install-bench-peers")
    command = [str(PEER), str(HERE / "peers" / "procrastinate_jobs.py"), url, str(jobs)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PEER_S_MAX, check=False)
    if said.returncode:
        raise ServerError(f"procrastinate failed: {said.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(said.stdout.splitlines()[-1])
    return figures


@dataclass(frozen=True)
class OnPostgres:
    """Submit and drain durable jobs. One hall has a snapshot held open on its database from the start on."""

    name: str = "postgres"
    jobs: int = 100_000
    peer_jobs: int = 3000
    submit_required: float = 0.4
    drain_required: float = 0.7
    held_required: float = 0.9
    peer_required: float = 20.0

    def run(self, stage: Stage) -> list[Row]:
        figures = Figures(self.name)
        with postgres(stage.folder / "postgres") as server, snapshot(server.url("held")):
            halls: list[Hall] = [
                stage.hall(),
                HallOnPostgres(ON_POSTGRES, stage.folder / "free", stage.python, server.url("free")),
                HallOnPostgres(HELD, stage.folder / "held", stage.python, server.url("held")),
            ]
            with Running(list(halls)):
                for number in range(stage.rounds):
                    for hall in halls:
                        for mode in SUBMIT_AND_DRAIN:
                            stage.say(f"round {number + 1}: {hall.name}, {mode}")
                            load = Load(depth=256, unique=True)
                            seen = stage.measure(hall, mode, stage.jobs(self.jobs), load)
                            figures.add(hall.name, mode, seen["jobs_per_s"])
                            figures.add(hall.name, f"{mode} cpu", seen["server_cpu_us_per_job"])
                    if not stage.halls_only:
                        stage.say(f"round {number + 1}: {PROCRASTINATE}")
                        figures.add_all(
                            PROCRASTINATE, measure_procrastinate(server.url("peer"), self.peer_jobs)
                        )
        return self._rows(figures, with_peer=not stage.halls_only)

    def _rows(self, figures: Figures, *, with_peer: bool) -> list[Row]:
        wanted = {"submit": self.submit_required, "drain": self.drain_required}

        def rows(about: str) -> dict[str, Row]:
            return {
                mode: figures.row(mode, "jobs/s", title=f"{MODES[mode]}{about}", cpu=f"{mode} cpu")
                for mode in wanted
            }

        made = [row.must(AT_LEAST, wanted[mode], TO_SQLITE) for mode, row in rows("").items()]
        held = rows(", while a snapshot is held").values()
        made += [row.must(AT_LEAST, self.held_required, HELD_TO_FREE) for row in held]
        if with_peer:
            beside = rows(", beside procrastinate").values()
            made += [row.must(AT_LEAST, self.peer_required, TO_PROCRASTINATE) for row in beside]
        return made


def version_of_postgres() -> str:
    """Of the server, and of procrastinate if it is there."""
    try:
        command = [binary("postgres"), "--version"]
    except AssertionError:
        return "not installed"
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [said.split()[2]]
    if PEER.exists():
        script = "from importlib.metadata import version; print('procrastinate', version('procrastinate'))"
        told = subprocess.run([str(PEER), "-c", script], capture_output=True, text=True, check=True).stdout
        found.append(told.strip())
    return ", ".join(found)


ON_POSTGRESQL = Section(
    "Durable jobs on PostgreSQL",
    (OnPostgres(),),
    (Hall.name, ON_POSTGRES, HELD, PROCRASTINATE),
    (TO_SQLITE, HELD_TO_FREE, TO_PROCRASTINATE),
    (Hall.name, ON_POSTGRES),
)
