"""`make soak`, its second part: hall, worker and client of the SDK are killed in turn under load.

Invariant that it checks: every job that a client was told of ends once, as done, with the right result, and no
job runs again after its end was recorded.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import hiringhall
from hiringhall.core.states import DONE, STATE_NAMES
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.sqlite import DATABASE, open_history

HERE: Final = Path(__file__).resolve().parent
ALIVE_S: Final = (0.3, 2.0)
"""How long all three live before one of them is killed."""
DRAIN_S: Final = 300.0
START_S: Final = 60.0
KINDS: Final = ("hall", "worker", "client")


class Kept(NamedTuple):
    """What came of a soak."""

    promises: int
    runs: int
    history: int


class Trouble(Exception):
    """The hall, the worker or the client did what it must not do."""


class Soak:
    """A hall, a worker and a client, each a process that can be killed and started again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self._clients = seed * 1000
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        code = os.pathsep.join([str(Path(hiringhall.__file__).parents[1]), str(HERE)])
        self._environment = {
            **os.environ,
            "PYTHONPATH": code,
            "HALL_URL": f"hall://127.0.0.1:{self._port}",
            "SOAK_FOLDER": str(folder),
        }

    def start(self, kind: str) -> None:
        if kind == "hall":
            door = f"native=127.0.0.1:{self._port}"
            command = ["-m", "hiringhall", "serve", "--data", str(self.folder / "data"), "--door", door]
        elif kind == "worker":
            command = ["-m", "hiringhall", "work", "soak_app", "--processes", "2", "--json"]
        else:
            self._clients += 1
            command = [str(HERE / "soak_client.py"), str(self.folder), str(self._clients)]
        with (self.folder / f"{kind}.log").open("ab") as log:
            self._processes[kind] = subprocess.Popen(
                [sys.executable, *command], env=self._environment, stdout=log, stderr=log, cwd=HERE
            )
        if kind == "hall":
            self._wait_for_hall()

    def _wait_for_hall(self) -> None:
        """A program that has never met a hall does not wait for one, so no client starts before the hall."""
        until_s = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=START_S).close()
            except ConnectionRefusedError:
                if time.monotonic() > until_s:
                    raise Trouble(f"the hall does not start: {self.log('hall')}") from None
                time.sleep(0.02)
            else:
                return

    def kill(self, kind: str) -> None:
        process = self._processes[kind]
        if process.poll() is not None:
            raise Trouble(f"the {kind} ended by itself, with code {process.returncode}: {self.log(kind)}")
        process.kill()
        process.wait()

    def log(self, kind: str) -> str:
        return (self.folder / f"{kind}.log").read_text(errors="replace")[-2000:]

    def round(self, number: int) -> None:
        time.sleep(self.chance.uniform(*ALIVE_S))  # the load goes on meanwhile
        kind = KINDS[number % len(KINDS)]
        self.kill(kind)
        self.start(kind)

    def promised(self) -> dict[int, bytes]:
        """The right result of every job that a client was told of."""
        found: dict[int, bytes] = {}
        for journal in self.folder.glob("journal-*"):
            for line in journal.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    job_id, result = line.split()
                    found[int(job_id)] = result
        return found

    def drain(self) -> None:
        """The client is gone; wait until the hall has no live job."""
        self.kill("client")
        until_s = time.monotonic() + DRAIN_S
        while (live := self._live()) > 0:
            if time.monotonic() > until_s:
                raise Trouble(f"{live} jobs are left after {DRAIN_S:g} s")
            time.sleep(0.2)
        for kind in ("worker", "hall"):
            process = self._processes[kind]
            process.terminate()
            if process.wait(60) != 0:
                raise Trouble(f"the {kind} ended with code {process.returncode}: {self.log(kind)}")

    def _live(self) -> int:
        async def ask(hall: hiringhall.Hall) -> list[dict[str, int]]:
            queues: list[dict[str, int]] = await hall.connection().request("queues", (0, 1000))
            return queues

        with hiringhall.Hall(self._environment["HALL_URL"]) as hall:
            queues = hall.run(ask(hall))
        return sum(queue["ready"] + queue["running"] + queue["waiting"] for queue in queues)

    def check(self) -> Kept:
        promised = self.promised()
        runs: dict[int, list[int]] = {}
        for line in (self.folder / "runs").read_text().splitlines():
            job_id, _, started_us = line.split()
            runs.setdefault(int(job_id), []).append(int(started_us))
        history = {}
        with closing(open_history(self.folder / "data" / DATABASE)) as store:
            before = None
            while page := store.history(HistoryQuery(before_id=before, limit=1000)):
                history.update({row.id: row for row in page})
                before = page[-1].id
        for job_id, result in promised.items():
            row = history.get(job_id)
            if row is None:
                raise Trouble(f"job {job_id} was acknowledged and is lost")
            if row.state != DONE or row.result != result:
                got = f"{STATE_NAMES[row.state]} with {row.result[:200]!r}"
                raise Trouble(f"job {job_id} should be done with {result!r} and is {got}")
        for job_id, starts in runs.items():
            row = history.get(job_id)
            # A job that runs was leased to its worker before it ended; a moment lies between the two clocks.
            if row is not None and max(starts) > row.ended_us + 1_000_000:
                raise Trouble(f"job {job_id} ran again {max(starts) - row.ended_us} us after its end")
        return Kept(len(promised), sum(map(len, runs.values())), len(history))

    def end(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def soak(folder: Path, rounds: int, seed: int, console: Console | None = None) -> Kept:
    """Kill in turn; then check what was promised. Raises Trouble."""
    story = Soak(folder, seed)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        for kind in KINDS:
            story.start(kind)
        with Progress(*columns, console=console or Console(quiet=True)) as progress:
            for number in progress.track(range(rounds), description="hall, worker and client are killed"):
                story.round(number)
        story.drain()
        return story.check()
    finally:
        story.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="hall-soak-sdk-") as folder:
        try:
            kept = soak(Path(folder), options.rounds, options.seed, console)
        except Trouble as trouble:
            console.print(f"[red]{trouble}")
            return 1
    console.print(
        f"{options.rounds} kills: {kept.promises:,} acknowledged jobs, each ended once with the right result;"
        f" {kept.runs:,} runs, {kept.history:,} jobs in the history, none ran after its end"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
