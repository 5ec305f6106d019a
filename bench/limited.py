"""Queues with rules: what a limit costs jobs that it does not hold up, beside a hall without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from figures import AT_MOST, Figures, Ratio, Section
from scenarios import MODES, Running
from servers import Hall
from slap import FUNCTION, Load

if TYPE_CHECKING:
    from pathlib import Path

    from figures import Row
    from scenarios import Stage

LIMITED = "hall, running_max"
ALL_RULES = "hall, all rules"
RULES = {
    LIMITED: "running_max = 100_000",
    ALL_RULES: "running_max = 100_000\nkey_running_max = 100_000\nstarts_per_second = 1_000_000\n"
    "burst = 100_000\nfair = true",
}
"""Higher than the load ever reaches: the figures are the cost of counting."""
TO_UNLIMITED = Ratio(LIMITED, Hall.name)
ALL_TO_UNLIMITED = Ratio(ALL_RULES, Hall.name)


class RuledHall(Hall):
    """A hall with rules for the queue of the load generator."""

    def __init__(self, name: str, folder: Path, python: str) -> None:
        super().__init__(folder, python)
        self.name = name

    def _start(self, log: IO[str]) -> None:
        self.config = self.folder / "hall.toml"
        self.config.write_text(f'[[queue]]\nname = "{FUNCTION}"\n{RULES[self.name]}\n')
        super()._start(log)


@dataclass(frozen=True)
class Limited:
    """Foreground jobs, and durable jobs submitted and drained, with and without rules."""

    name: str = "limited"
    foreground_jobs: int = 200_000
    durable_jobs: int = 100_000
    required: float = 1.15

    def run(self, stage: Stage) -> list[Row]:
        halls = [stage.hall(), *(RuledHall(name, stage.folder / name, stage.python) for name in RULES)]
        figures = Figures(self.name)
        loads = {
            "fg": (stage.jobs(self.foreground_jobs), Load(4, 64, 4)),
            "submit": (stage.jobs(self.durable_jobs), Load(depth=256, unique=True)),
            "drain": (stage.jobs(self.durable_jobs), Load(depth=256, unique=True)),
        }
        with Running([*halls]):
            for hall in halls:
                stage.measure(hall, "fg", loads["fg"][0] // 10, Load(4, 64, 4))  # warm
            for number in range(stage.rounds):
                for hall in halls:
                    for mode, (jobs, load) in loads.items():
                        stage.say(f"round {number + 1}: {hall.name}, {mode}")
                        seen = stage.measure(hall, mode, jobs, load)
                        figures.add(hall.name, mode, seen["server_cpu_us_per_job"])
        titles = {"fg": "4 clients x 64 deep, 4 workers", **MODES}
        return [
            figures.row(mode, "us", title=f"{titles[mode]}: CPU of a job").must(
                AT_MOST, self.required, TO_UNLIMITED
            )
            for mode in loads
        ]


QUEUES_WITH_RULES = Section(
    "Queues with rules", (Limited(),), (Hall.name, *RULES), (TO_UNLIMITED, ALL_TO_UNLIMITED)
)
