"""Job functions in Python: the hall with its SDK and `hall work`, beside other job systems for Python.

Two worker processes, a function that adds two numbers, and one client that reads every result. A round measures
the systems one after the other; each is started for its turn (systems.py says why). The hall must reach a
multiple of the best of the others in each row, whichever that is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from figures import AT_LEAST, AT_MOST, Figures, Ratio, Section
from job_systems import HALL_ASYNC, HALL_SYNC, OTHERS, OURS
from servers import ServerError
from systems import ENVIRONMENTS, NotInstalled, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from figures import Row
    from scenarios import Stage
    from systems import System

BEST = "best other"
TO_BEST = Ratio(HALL_SYNC, BEST)
ASYNC_TO_BEST = Ratio(HALL_ASYNC, BEST)
PARTS = ("server", "workers", "client")
WARM_JOBS = 300
TURN_S = 3.0
"""A load has at most as many jobs as the system does in this time, judged by its warm-up."""
JOBS_MIN = 200
TRIES = 2


def add_best(row: Row, others: tuple[str, ...], *, lowest: bool = False) -> Row:
    """Add the best figure of the other systems as one more column; returns the same row."""
    theirs = [row.values[name] for name in others if name in row.values]
    if theirs:
        row.values[BEST] = min(theirs) if lowest else max(theirs)
    return row


def jobs_for(full: int, rate: float) -> int:
    """How many jobs a system gets whose warm-up had this rate."""
    return max(min(full, int(rate * TURN_S)), JOBS_MIN)


@dataclass(frozen=True)
class Load:
    """One load of peers/load.py, and its row."""

    name: str
    title: str
    jobs: int


Seen = tuple[Load, dict[str, float]]
"""A load, and the figures of one turn."""
MAP = Load("map", "map", 20_000)
IN_FLIGHT = Load("in flight", "64 in flight", 10_000)
ROUND_TRIP = Load("round trip", "one at a time", 1_000)


class Rounds:
    """Measures systems in turns and collects their figures."""

    def __init__(self, scenario: str, stage: Stage, systems: tuple[System, ...]) -> None:
        self.figures = Figures(scenario)
        self.systems = systems if not stage.halls_only else tuple(one for one in systems if one in OURS)
        self.others = tuple(system.name for system in self.systems if system in OTHERS)
        self._unmeasured = {system.name for system in self.systems}
        self._stage = stage

    def measure(self, loads: tuple[Load, ...], function: str, *, asynchronous: bool = False) -> None:
        def play(turn: Turn) -> list[Seen]:
            turn.run("round trip", function, 20)
            rate = turn.run("map", function, WARM_JOBS)["jobs_per_s"]
            jobs = {load: jobs_for(self._stage.jobs(load.jobs), rate) for load in loads}
            return [(load, turn.run(load.name, function, jobs[load])) for load in loads]

        for number in range(self._stage.rounds):
            for system in self.systems:
                self._stage.say(f"round {number + 1}: {system.name}")
                self._take_turn(system, play, asynchronous=asynchronous)
        self._check_complete()

    def measure_round_trip(self) -> None:
        def play(turn: Turn) -> list[Seen]:
            rate = turn.run("round trip", "add", 50)["jobs_per_s"]
            jobs = jobs_for(self._stage.jobs(ROUND_TRIP.jobs), rate)
            return [(ROUND_TRIP, turn.run("round trip", "add", jobs))]

        for number in range(self._stage.rounds):
            for system in self.systems:
                self._stage.say(f"round {number + 1}: {system.name}")
                self._take_turn(system, play, quick=True)
        self._check_complete()

    def _take_turn(
        self,
        system: System,
        play: Callable[[Turn], list[Seen]],
        *,
        asynchronous: bool = False,
        quick: bool = False,
    ) -> None:
        """One turn of a system. If that of another system fails, it is repeated once, and then left out of this
        round: one failure must not cost the table of all. The hall gets no second try.
        """
        for _ in range(TRIES):
            try:
                with self._turn(system, asynchronous=asynchronous, quick=quick) as turn:
                    seen = play(turn)
            except ServerError as error:
                if system in OURS or isinstance(error, NotInstalled):
                    raise
                print(f"a turn of {system.name} failed: {error}", file=sys.stderr)
                continue
            for load, figures in seen:
                self._add(system.name, load, figures)
            self._unmeasured.discard(system.name)
            return

    def _check_complete(self) -> None:
        if self._unmeasured:
            raise ServerError(f"no turn succeeded of: {', '.join(sorted(self._unmeasured))}")

    def _turn(self, system: System, *, asynchronous: bool = False, quick: bool = False) -> Turn:
        stage = self._stage
        return Turn(system, stage.folder / "system", stage.python, asynchronous=asynchronous, quick=quick)

    def _add(self, system: str, load: Load, seen: dict[str, float]) -> None:
        self.figures.add_all(system, {f"{load.name} {name}": value for name, value in seen.items()})
        cpu_us = sum(seen[f"{part}_cpu_us"] for part in PARTS)
        self.figures.add(system, f"{load.name} cpu_us", cpu_us)

    def rate(self, load: Load) -> Row:
        return add_best(self.figures.row(f"{load.name} jobs_per_s", "jobs/s", title=load.title), self.others)

    def time(self, load: Load, name: str) -> Row:
        row = self.figures.row(f"{load.name} {name}_us", "us", title=f"{load.title}, {name}")
        return add_best(row, self.others, lowest=True)

    def cpu(self, load: Load) -> list[Row]:
        """The CPU time of a job in all processes, and in each kind of process."""
        whole = self.figures.row(f"{load.name} cpu_us", "us", title=f"{load.title}: CPU, all")
        parts = [
            self.figures.row(f"{load.name} {part}_cpu_us", "us", title=f"{load.title}: CPU, {part}")
            for part in PARTS
        ]
        return [add_best(whole, self.others, lowest=True), *parts]


@dataclass(frozen=True)
class Functions:
    """Plain functions in two worker processes: map, and one by one with 64 in flight."""

    name: str = "sdk"
    map_required: float = 3.0
    in_flight_required: float = 2.0

    def run(self, stage: Stage) -> list[Row]:
        rounds = Rounds(self.name, stage, OURS + OTHERS)
        rounds.measure((MAP, IN_FLIGHT), "add")
        return [
            rounds.rate(MAP).must(AT_LEAST, self.map_required, TO_BEST),
            *rounds.cpu(MAP),
            rounds.rate(IN_FLIGHT).must(AT_LEAST, self.in_flight_required, ASYNC_TO_BEST),
            *rounds.cpu(IN_FLIGHT),
        ]


@dataclass(frozen=True)
class FunctionRoundTrip:
    """Plain functions in two worker processes, one job at a time."""

    name: str = "sdk-round-trip"
    required: float = 0.5

    def run(self, stage: Stage) -> list[Row]:
        rounds = Rounds(self.name, stage, OURS + OTHERS)
        rounds.measure_round_trip()
        return [
            rounds.time(ROUND_TRIP, "p50").must(AT_MOST, self.required, TO_BEST),
            rounds.time(ROUND_TRIP, "p99"),
            *rounds.cpu(ROUND_TRIP),
        ]


@dataclass(frozen=True)
class AsyncFunctions:
    """Async functions that sleep 10 ms, 500 at a time in one worker process."""

    name: str = "sdk-async"
    required: float = 1.5

    def run(self, stage: Stage) -> list[Row]:
        systems = tuple(system for system in OURS + OTHERS if system.async_worker)
        rounds = Rounds(self.name, stage, systems)
        load = replace(MAP, title="map, async, 10 ms each")
        rounds.measure((load,), "nap", asynchronous=True)
        return [rounds.rate(load).must(AT_LEAST, self.required, ASYNC_TO_BEST), *rounds.cpu(load)]


def versions_of_others() -> str:
    """The versions of the other systems and of Redis, in one line."""
    environments = sorted({system.environment for system in OTHERS})
    pythons = [ENVIRONMENTS / environment / "bin" / "python" for environment in environments]
    if shutil.which("redis-server") is None or not all(python.exists() for python in pythons):
        return "not installed"
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False).stdout
    found = [f"Redis {said.partition('v=')[2].partition(' ')[0]}"]
    for environment, python in zip(environments, pythons, strict=True):
        names = sorted({system.package for system in OTHERS if system.environment == environment})
        script = f"from importlib.metadata import version\nfor name in {names}: print(name, version(name))"
        told = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True).stdout
        found += told.splitlines()
    return ", ".join(found)


JOB_FUNCTIONS = Section(
    "Job functions in Python",
    (Functions(), FunctionRoundTrip(), AsyncFunctions()),
    (HALL_SYNC, HALL_ASYNC, BEST, *(system.name for system in OTHERS)),
    (TO_BEST, ASYNC_TO_BEST),
)
