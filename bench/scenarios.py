"""The hall beside gearmand: what is measured, and which figures the hall must reach.

A scenario starts its servers, measures them in turns (A B A B ...), and returns one `Row` for each figure: the
median for each server, and the ratio of the hall to gearmand. Servers keep running between their turns; an idle
server uses no CPU time.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crowd import Crowd
from figures import AT_LEAST, AT_MOST, Figures, Ratio, Section
from servers import BareLoop, Gearmand, Hall, Server
from slap import FUNCTION, Load, SlapError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from figures import Row
    from slap import Slap

TO_GEARMAND = Ratio(Hall.name, Gearmand.name)
TO_LIMIT = Ratio(Hall.name, BareLoop.name)
LIMIT_CPU_MAX = 1.4
"""The CPU time of a foreground job, as a multiple of what the bare loop in C takes for it."""
MODES = {"submit": "durable submit", "drain": "durable drain", "bg": "durable submit and drain at once"}
"""The modes of gearslap for background jobs, and the titles of their rows."""


@dataclass
class Stage:
    """What a scenario needs to run."""

    slap: Slap
    folder: Path
    """Must be on a disk; emptied for each scenario."""
    python: str
    """The Python interpreter that runs the hall."""
    rounds: int
    scale: float
    """The number of jobs is multiplied by it; 1 for the full run."""
    say: Callable[[str], None]
    """Shows progress to the user."""
    halls_only: bool = False
    """Leave other servers out, to compare two builds of the hall."""

    def chosen(self, servers: list[Server]) -> list[Server]:
        """The servers that take part."""
        return [server for server in servers if not self.halls_only or server.is_hall]

    def jobs(self, full: int) -> int:
        return max(int(full * self.scale), 1000)

    def measure(self, server: Server, mode: str, jobs: int, load: Load) -> dict[str, float]:
        """One turn of one server. gearmand gets a second try, since it was seen to hang; the hall does not."""
        try:
            return self.slap.run(server, mode, jobs, load)
        except SlapError as error:
            if not isinstance(server, Gearmand) or mode == "drain":
                raise
            self.say(f"{error}; trying once more")
            server.restart_empty()
            return self.slap.run(server, mode, jobs, load)

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def gearmand(self, *, durable: bool = False, buckets: int = 0) -> Gearmand:
        return Gearmand(self.folder / "gearmand", durable=durable, buckets=buckets)

    def hall(self) -> Hall:
        return Hall(self.folder / "hall", self.python)

    def foreground_servers(self) -> list[Server]:
        """Those that are measured with foreground jobs. The bare loop knows no others."""
        bare = BareLoop(self.folder / "bare", self.slap.bare_loop)
        return self.chosen([self.gearmand(), self.hall(), bare])


@dataclass(frozen=True)
class Foreground:
    """Each client keeps `depth` foreground jobs in flight; workers answer at once."""

    name: str
    clients: int
    depth: int
    workers: int
    jobs: int
    required: float

    def run(self, stage: Stage) -> list[Row]:
        servers = stage.foreground_servers()
        figures = Figures(self.name)
        jobs = stage.jobs(self.jobs)
        load = Load(self.clients, self.depth, self.workers)
        with Running(servers):
            for server in servers:
                stage.measure(server, "fg", max(jobs // 10, self.workers), load)  # warm
            for number in range(stage.rounds):
                for server in servers:
                    stage.say(f"round {number + 1}: {server.name}")
                    seen = stage.measure(server, "fg", jobs, load)
                    figures.add(server.name, "jobs_per_s", seen["jobs_per_s"])
                    figures.add(server.name, "cpu_us", seen["server_cpu_us_per_job"])
        title = f"{self.clients} clients x {self.depth} deep, {self.workers:,} workers"
        row = figures.row("jobs_per_s", "jobs/s", title=title, cpu="cpu_us")
        return [row.must(AT_LEAST, self.required, TO_GEARMAND), cpu_row(figures, title)]


@dataclass(frozen=True)
class RoundTrip:
    """One client, one worker, one job at a time."""

    name: str = "round-trip"
    jobs: int = 20_000
    p50_required: float = 0.8
    p99_required: float = 1.2

    def run(self, stage: Stage) -> list[Row]:
        servers = stage.foreground_servers()
        figures = Figures(self.name)
        jobs = stage.jobs(self.jobs)
        alone = Load(clients=1, depth=1, workers=1)
        with Running(servers):
            for server in servers:
                stage.measure(server, "fg", jobs // 10, alone)
            for number in range(stage.rounds):
                for server in servers:
                    stage.say(f"round {number + 1}: {server.name}")
                    seen = stage.measure(server, "fg", jobs, alone)
                    figures.add(server.name, "p50_us", seen["p50_us"])
                    figures.add(server.name, "p99_us", seen["p99_us"])
                    figures.add(server.name, "whole_us", seen["seconds"] / jobs * 1e6)
                    figures.add(server.name, "cpu_us", seen["server_cpu_us_per_job"])
        return [
            figures.row("p50_us", "us", title="depth 1, p50", cpu="cpu_us").must(
                AT_MOST, self.p50_required, TO_GEARMAND
            ),
            figures.row("p99_us", "us", title="depth 1, p99").must(AT_MOST, self.p99_required, TO_GEARMAND),
            figures.row("whole_us", "us", title="depth 1, mean from submit to result"),
            cpu_row(figures, "depth 1"),
        ]


def cpu_row(figures: Figures, title: str) -> Row:
    """The CPU time of a job, beside the limit."""
    return figures.row("cpu_us", "us", title=f"{title}: CPU of a job").must(AT_MOST, LIMIT_CPU_MAX, TO_LIMIT)


@dataclass(frozen=True)
class Durable:
    """Background jobs that are on disk before they are acknowledged: submitted without workers, drained, and
    then both at once.

    Each job has a unique id: gearmand's SQLite queue keeps one row for all jobs of a function without one.
    """

    name: str = "durable"
    jobs_gearmand: int = 5_000
    """Fewer than for the hall: gearmand commits each job by itself, so these take long enough."""
    jobs_hall: int = 200_000
    submit_required: float = 120.0
    drain_required: float = 45.0

    def run(self, stage: Stage) -> list[Row]:
        gearmand = stage.gearmand(durable=True)
        hall = stage.hall()
        counts = {gearmand.name: stage.jobs(self.jobs_gearmand), hall.name: stage.jobs(self.jobs_hall)}
        figures = Figures(self.name)
        servers = stage.chosen([gearmand, hall])
        with Running(servers):
            for number in range(stage.rounds):
                for server in servers:
                    for mode in MODES:
                        stage.say(f"round {number + 1}: {server.name}, {mode}")
                        load = Load(depth=256, unique=True)
                        seen = stage.measure(server, mode, counts[server.name], load)
                        figures.add(server.name, f"{mode} jobs_per_s", seen["jobs_per_s"])
                        figures.add(server.name, f"{mode} cpu_us", seen["server_cpu_us_per_job"])
        submit, drain, both = (
            figures.row(f"{mode} jobs_per_s", "jobs/s", title=title, cpu=f"{mode} cpu_us")
            for mode, title in MODES.items()
        )
        return [
            submit.must(AT_LEAST, self.submit_required, TO_GEARMAND),
            drain.must(AT_LEAST, self.drain_required, TO_GEARMAND),
            both,
        ]


@dataclass(frozen=True)
class Million:
    """A million background jobs with unique ids: submitted, kept across kill -9, drained.

    gearmand keeps them in memory here, with a hash table for a million ids. On disk it would take a quarter of
    an hour, and the comparison would be another one.
    """

    name: str = "million"
    jobs: int = 1_000_000
    memory_bytes_max: float = 700.0
    recovery_s_max: float = 15.0

    def run(self, stage: Stage) -> list[Row]:
        jobs = stage.jobs(self.jobs)
        figures = Figures(self.name)
        servers = stage.chosen([stage.gearmand(buckets=1_000_003), stage.hall()])
        for server in servers:
            with Running([server]):
                self._fill(stage, server, jobs, figures)
                if server.name == Hall.name:
                    stage.say(f"{server.name}: kill -9")
                    server.kill()
                    started = time.monotonic()
                    server.start()
                    figures.add(server.name, "recovery_s", time.monotonic() - started)
                    figures.add(server.name, "found", server.queued(FUNCTION))
                stage.say(f"{server.name}: draining")
                drained = stage.measure(server, "drain", jobs, Load(workers=8))
                figures.add(server.name, "drain", drained["jobs_per_s"])
                figures.add(server.name, "drain cpu_us", drained["server_cpu_us_per_job"])
                figures.add(server.name, "left", server.queued(FUNCTION))
        memory = figures.row("memory", "bytes/job", title="memory a queued job")
        recovery = figures.row("recovery_s", "s", title="kill -9 until serving")
        return [
            figures.row("submit", "jobs/s", title=f"{jobs:,} taken in", cpu="submit cpu_us"),
            memory.must(AT_MOST, self.memory_bytes_max),
            recovery.must(AT_MOST, self.recovery_s_max),
            figures.row("found", "jobs", title="jobs found after kill -9").must(AT_LEAST, jobs),
            figures.row("drain", "jobs/s", title=f"{jobs:,} drained", cpu="drain cpu_us"),
            figures.row("left", "jobs", title="jobs left after the drain").must(AT_MOST, 0),
        ]

    def _fill(self, stage: Stage, server: Server, jobs: int, figures: Figures) -> None:
        stage.say(f"{server.name}: taking in {jobs:,}")
        before_bytes = server.memory_bytes()
        taken = stage.measure(server, "submit", jobs, Load(depth=256, unique=True))
        figures.add(server.name, "submit", taken["jobs_per_s"])
        figures.add(server.name, "submit cpu_us", taken["server_cpu_us_per_job"])
        figures.add(server.name, "memory", (server.memory_bytes() - before_bytes) / jobs)


@dataclass(frozen=True)
class IdleWorkers:
    """Ten thousand sleeping workers, then one job."""

    name: str = "idle"
    workers: int = 10_000

    def run(self, stage: Stage) -> list[Row]:
        figures = Figures(self.name)
        servers = stage.chosen([stage.gearmand(), stage.hall()])
        wanted = max(int(self.workers * min(stage.scale, 1.0)), 500)
        for server in servers:
            stage.say(f"{server.name}: {wanted:,} idle workers")
            with Running([server]), Crowd(server.port, b"slap") as crowd:
                crowd.warm_up()
                before_bytes = server.memory_bytes()
                crowd.grow(wanted)
                figures.add(server.name, "memory", (server.memory_bytes() - before_bytes) / wanted)
                figures.add(server.name, "woken", crowd.woken_by_one_job())
        title = f"{wanted:,} idle workers: memory each"
        woken = figures.row("woken", "workers", title="workers woken by one job")
        return [figures.row("memory", "bytes", title=title), woken.must(AT_MOST, 1)]


class Running:
    """Starts servers, and stops them at the end of the `with` block."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers

    def __enter__(self) -> None:
        try:
            for server in self._servers:
                server.start()
        except BaseException:
            self._stop()
            raise

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for server in self._servers:
            server.stop()


BESIDE_GEARMAND = Section(
    "hall beside gearmand",
    (
        Foreground("fg-4x64x4", 4, 64, 4, 200_000, 2.5),
        Foreground("fg-8x256x8", 8, 256, 8, 200_000, 2.0),
        Foreground("fg-100-workers", 4, 64, 100, 100_000, 1.0),
        Foreground("fg-1000-workers", 4, 64, 1000, 20_000, 3.0),
        RoundTrip(),
        Durable(),
        Million(),
        IdleWorkers(),
    ),
    (Gearmand.name, Hall.name, BareLoop.name),
    (TO_GEARMAND, TO_LIMIT),
    (Gearmand.name, Hall.name, BareLoop.name),
)
