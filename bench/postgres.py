"""Durable jobs on PostgreSQL beside SQLite, in turns, and beside procrastinate on the same PostgreSQL.

    python bench/postgres.py [--rounds 5] [--jobs 100000] [--peer-jobs 3000] [--url postgresql://...]

Without a URL it starts a PostgreSQL of its own, with its defaults: it syncs every commit. procrastinate is
measured if it is installed (`pip install procrastinate`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from servers import Hall, announced_port  # noqa: E402 (the same)
from slap import Load, Slap  # noqa: E402 (the same)

from stage.postgres_server import PostgresServer  # noqa: E402 (found by the path above)

SUBMIT_REQUIRED = 0.4
DRAIN_REQUIRED = 0.7
PEER_REQUIRED = 20.0
PEER_TASKS = 64
"""Submissions and jobs that procrastinate has under way at once."""


class HallOnPostgres(Hall):
    """`hall serve` with its data in PostgreSQL."""

    name = "hall on PostgreSQL"

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def _start(self, log: IO[str]) -> None:
        command = [self.python, "-m", "hiringhall", "serve", "--json", "--no-web", "--data", self.url]
        command += ["--set", f"hall.folder={self.folder / 'local'}", "--door", "gearman=127.0.0.1:0"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


def measure_halls(folder: Path, url: str, rounds: int, jobs: int) -> dict[str, dict[str, list[float]]]:
    """Jobs a second by server and mode, a figure for each round."""
    slap = Slap(folder / "slap")
    halls = [Hall(folder / "sqlite"), HallOnPostgres(folder / "postgres", url)]
    found: dict[str, dict[str, list[float]]] = {hall.name: {"submit": [], "drain": []} for hall in halls}
    with ExitStack() as running:
        for hall in halls:
            hall.start()
            running.callback(hall.stop)
        for _ in range(rounds):
            for hall in halls:
                for mode, figures in found[hall.name].items():
                    seen = slap.run(hall, mode, jobs, Load(depth=256, unique=True))
                    figures.append(seen["jobs_per_s"])
    return found


async def measure_procrastinate(url: str, jobs: int) -> dict[str, float]:
    import procrastinate  # noqa: PLC0415 (only where it is measured)

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=8, max_size=8))

    @app.task(name="slap")  # type: ignore[untyped-decorator]
    async def slap(number: int) -> int:
        return number

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        numbers = iter(range(jobs))

        async def submit() -> None:
            for number in numbers:
                await slap.defer_async(number=number)

        begun_s = time.perf_counter()
        await asyncio.gather(*[submit() for _ in range(PEER_TASKS)])
        submitted_s = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=PEER_TASKS, listen_notify=False)
        drained_s = time.perf_counter()
    return {"submit": jobs / (submitted_s - begun_s), "drain": jobs / (drained_s - submitted_s)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--peer-jobs", type=int, default=3000)
    parser.add_argument("--url", help="an empty database; default: a PostgreSQL is started")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hall-bench-") as made, ExitStack() as started:
        folder = Path(made)
        url, peer_url = asked.url, asked.url
        if url is None:
            server = PostgresServer(folder / "server", safe=True, shared_buffers="128MB")
            server.create()
            server.start()
            started.callback(server.remove)
            for name in ("hall", "peer"):
                server.sql(f"CREATE DATABASE {name}")
            url, peer_url = server.url("hall"), server.url("peer")
        halls = measure_halls(folder, url, asked.rounds, asked.jobs)
        median = {
            name: {mode: statistics.median(figures) for mode, figures in modes.items()}
            for name, modes in halls.items()
        }
        sqlite, postgres = median["hall"], median[HallOnPostgres.name]
        facts: dict[str, object] = {"jobs_per_s": median}
        ratios = {mode: postgres[mode] / sqlite[mode] for mode in sqlite}
        facts["to_sqlite"] = ratios
        met = ratios["submit"] >= SUBMIT_REQUIRED and ratios["drain"] >= DRAIN_REQUIRED
        if find_spec("procrastinate") is not None:
            peer = asyncio.run(measure_procrastinate(peer_url, asked.peer_jobs))
            times = {mode: postgres[mode] / peer[mode] for mode in peer}
            facts |= {"procrastinate_jobs_per_s": peer, "to_procrastinate": times}
            met = met and min(times.values()) >= PEER_REQUIRED
        print(json.dumps({**facts, "met": met}, indent=2))
        return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
