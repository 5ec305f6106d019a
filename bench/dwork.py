"""dwork: the hall beside a bare ROUTER in C, under the load of dwslap.

The main figure is the server's CPU time for each task. A few workers that wait for each answer spend most of
the time in ZeroMQ's thread switches, so tasks per second say little about the server.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from figures import AT_MOST, Figures, Ratio, Section
from servers import Hall, Server, announced_port
from slap import RUN_S_MAX, SlapError, compiled

if TYPE_CHECKING:
    from pathlib import Path

    from figures import Row
    from scenarios import Stage

IN_MEMORY = "hall, in memory"


class Hub(Server):
    """A server that answers dwork requests."""

    def _await_answer(self) -> None:
        """Nothing to wait for: it prints its port when it listens."""


class DworkHall(Hub):
    """`hall serve` with a dwork door."""

    is_hall = True

    def __init__(self, folder: Path, python: str, tasks: str) -> None:
        super().__init__(folder)
        self.name = Hall.name if tasks == "durable" else IN_MEMORY
        self._command = [python, "-m", "hiringhall", "serve", "--json", "--data", str(folder / "data")]
        self._command += ["--door", "dwork=127.0.0.1:0", "--set", f"door[0].tasks={tasks}"]

    def _start(self, log: IO[str]) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


class BareRouter(Hub):
    """bare_router.c: libzmq alone."""

    name = "bare router in C"

    def __init__(self, folder: Path, tasks: int, binary: Path) -> None:
        super().__init__(folder)
        self._command = [str(binary), str(tasks)]

    def _start(self, log: IO[str]) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.port = announced_port(self._process, self._log())


TO_BARE = Ratio(Hall.name, BareRouter.name)
IN_MEMORY_TO_BARE = Ratio(IN_MEMORY, BareRouter.name)


class Most(NamedTuple):
    """The CPU time of a task, as a multiple of what the bare router takes for it."""

    durable: float
    in_memory: float


class DwSlap:
    """The compiled dwslap and the compiled bare router."""

    def __init__(self, folder: Path) -> None:
        self.binary = compiled(folder, "dwslap", "zmq")
        self.router = compiled(folder, "bare_router", "zmq")

    def run(self, server: Server, tasks: int, workers: int, batch: int, *, chains: bool) -> dict[str, float]:
        command = [str(self.binary), "-u", f"tcp://127.0.0.1:{server.port}", "-P", str(server.pid)]
        command += ["-N", str(tasks), "-W", str(workers), "-n", str(batch), "-B", "16"]
        if chains:
            command.append("-C")
        said = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        if said.returncode:
            raise SlapError(f"{server.name}: dwslap exited with {said.returncode}: {said.stderr.strip()}")
        return {name: float(value) for name, _, value in (word.partition("=") for word in said.stdout.split())}


@dataclass(frozen=True)
class DworkLoad:
    """Each worker steals `batch` tasks, completes them, and steals again."""

    name: str
    workers: int
    batch: int
    tasks: int
    most: Most
    creating: Most | None = None
    """Also measure what it costs to create the tasks."""

    def run(self, stage: Stage) -> list[Row]:
        slap = DwSlap(stage.folder.parent)
        servers: list[Server] = [
            BareRouter(stage.folder / "bare", self.batch, slap.router),
            DworkHall(stage.folder / "hall", stage.python, "durable"),
            DworkHall(stage.folder / "memory", stage.python, "memory"),
        ]
        servers = stage.chosen(servers)
        figures = Figures(self.name)
        for number in range(stage.rounds + 1):
            for server in servers:
                stage.say(f"round {number}: {server.name}")
                server.start()
                try:
                    seen = slap.run(server, stage.jobs(self.tasks), self.workers, self.batch, chains=False)
                finally:
                    server.stop()
                if number:  # the first round is a warm-up
                    figures.add_all(server.name, seen)
        title = f"{self.workers} workers, {self.batch} a steal"
        rows = cpu_rows(figures, "hub_cpu_us_per_task", title, self.most)
        rows.append(figures.row("tasks_per_s", "tasks/s", title=f"{title}: tasks"))
        if self.creating is not None:
            rows += cpu_rows(figures, "hub_cpu_us_per_create", "16 a Create", self.creating)
        return rows


def cpu_rows(figures: Figures, name: str, title: str, most: Most) -> list[Row]:
    """The CPU time of a task in both halls, each beside the bare router."""
    durable = figures.row(name, "us", title=f"{title}: CPU of a task", without=IN_MEMORY)
    in_memory = figures.row(name, "us", title=f"{title}, in memory: CPU of a task", without=Hall.name)
    return [
        durable.must(AT_MOST, most.durable, TO_BARE),
        in_memory.must(AT_MOST, most.in_memory, IN_MEMORY_TO_BARE),
    ]


@dataclass(frozen=True)
class DworkChains:
    """More and more tasks in chains of ten: the cost of a task must not grow with their number."""

    name: str = "dwork-chains"
    counts: tuple[int, ...] = (10_000, 100_000, 1_000_000)

    def run(self, stage: Stage) -> list[Row]:
        slap = DwSlap(stage.folder.parent)
        rows: list[Row] = []
        for tasks in self.counts:
            wanted = stage.jobs(tasks)
            figures = Figures(self.name)
            server = DworkHall(stage.folder / f"chains-{tasks}", stage.python, "durable")
            stage.say(f"{wanted:,} tasks")
            server.start()
            try:
                figures.add_all(server.name, slap.run(server, wanted, 8, 16, chains=True))
            finally:
                server.stop()
            title = f"{wanted:,} in chains of ten"
            rows.append(figures.row("us_per_task", "us", title=f"{title}: time of a task"))
            rows.append(figures.row("hub_cpu_us_per_task", "us", title=f"{title}: CPU of a task"))
        return rows


BESIDE_ROUTER = Section(
    "dwork beside a bare router",
    (
        DworkLoad("dwork-8", 8, 1, 30_000, Most(1.6, 1.0)),
        DworkLoad("dwork-32", 32, 1, 60_000, Most(1.6, 1.1)),
        DworkLoad("dwork-8x16", 8, 16, 160_000, Most(3.5, 1.7), creating=Most(8.0, 3.0)),
        DworkChains(),
    ),
    (BareRouter.name, Hall.name, IN_MEMORY),
    (TO_BARE, IN_MEMORY_TO_BARE),
)
