"""`make bench-compare BEFORE=other/.venv/bin/python`: compare two builds of the hall, in turns, in one run.

    python bench/compare.py BEFORE [AFTER]          every scenario; AFTER is this interpreter unless named
    python bench/compare.py BEFORE --only durable   one scenario; may be repeated
    python bench/compare.py BEFORE --json out.json  also write the figures as JSON

Other servers, such as gearmand, are left out. Each row shows the medians of both builds and the cost of AFTER
relative to BEFORE: above 1, AFTER costs more. Rounds of one build differ, so the spread of BEFORE is shown
too; a difference within the spread is not significant. The exit code is 1 if a row costs more than --allowed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from report import number
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from run import BUILD, QUICK_SCALE, SECTIONS
from scenarios import Stage
from servers import ServerError, raise_descriptors, versions_of_hall
from slap import Slap, SlapError

if TYPE_CHECKING:
    from figures import Row, Scenario

ROUNDS = 5
ALLOWED = 1.03
MORE_IS_BETTER = "/s"
"""Figures whose unit ends with this are better when they are larger."""
NOT_A_COST = ("jobs", "workers", "bids/s")
"""Units of figures that are counts, and the rate at which the load generator bids."""


@dataclass
class Compared:
    """One figure of both builds."""

    scenario: str
    figure: str
    unit: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    @property
    def cost(self) -> float | None:
        """The cost of AFTER relative to BEFORE; None: the figure is not a cost."""
        before, after = statistics.median(self.before), statistics.median(self.after)
        if self.unit in NOT_A_COST or before <= 0 or after <= 0:
            return None
        return before / after if self.unit.endswith(MORE_IS_BETTER) else after / before

    @property
    def spread(self) -> float:
        """The highest round of BEFORE divided by the lowest."""
        return max(self.before) / min(self.before) if min(self.before) > 0 else 1.0


class Comparison:
    """The figures of all scenarios so far."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], Compared] = {}

    def add(self, row: Row, *, after: bool) -> None:
        for server, value in row.values.items():
            self._add(row.scenario, f"{server}: {row.figure}", row.unit, value, after=after)
        for server, value in row.cpu_us.items():
            self._add(row.scenario, f"{server}: {row.figure}, CPU of a job", "us", value, after=after)

    def _add(self, scenario: str, figure: str, unit: str, value: float, *, after: bool) -> None:
        one = self._figures.setdefault((scenario, figure), Compared(scenario, figure, unit))
        (one.after if after else one.before).append(value)

    def all(self) -> list[Compared]:
        return [one for one in self._figures.values() if one.before and one.after]


def table(compared: list[Compared], allowed: float) -> Table:
    shown = Table(title="after compared with before; above 1, after costs more", title_justify="left")
    for heading in ("scenario", "figure", "before", "after", "cost", "spread of before"):
        shown.add_column(heading, justify="left" if heading in ("scenario", "figure") else "right")
    for one in compared:
        cost = one.cost
        colour = "red" if cost is not None and cost > allowed else "default"
        shown.add_row(
            one.scenario,
            f"{one.figure} ({one.unit})",
            number(statistics.median(one.before)),
            number(statistics.median(one.after)),
            "" if cost is None else f"[{colour}]{cost:.3f}[/]",
            f"{one.spread:.3f}",
        )
    return shown


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare two builds of the hall, in turns, in one run.")
    names = [scenario.name for section in SECTIONS for scenario in section.scenarios]
    parser.add_argument("before", help="the Python interpreter with the earlier build")
    parser.add_argument(
        "after", nargs="?", default=sys.executable, help="the one with the later build (default: this one)"
    )
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of each build (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument(
        "--allowed", type=float, default=ALLOWED, help=f"the highest cost that passes (default {ALLOWED})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument(
        "--folder", type=Path, default=BUILD, help="where the halls keep their data; must be on a disk"
    )
    return parser.parse_args()


def compare(scenarios: list[Scenario], options: argparse.Namespace, console: Console) -> list[Compared]:
    """Run the scenarios. The figures of each one are shown and written as soon as it is over."""
    compared: list[Compared] = []
    slap = Slap(options.folder)
    scale = QUICK_SCALE if options.quick else 1.0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for scenario in scenarios:
            comparison = Comparison()
            task = progress.add_task(scenario.name, total=2 * options.rounds)
            for number_of_round in range(options.rounds):
                turns = [(options.before, False), (options.after, True)]
                # The first one runs on a colder machine, so the order alternates.
                for python, after in turns if number_of_round % 2 == 0 else reversed(turns):
                    stage = Stage(
                        slap, options.folder / "data", python, 1, scale, lambda _: None, halls_only=True
                    )
                    stage.clear()
                    for row in scenario.run(stage):
                        comparison.add(row, after=after)
                    stage.clear()
                    progress.advance(task)
            progress.console.print(table(comparison.all(), options.allowed))
            compared += comparison.all()
            if options.json is not None:
                rows = [{**asdict(one), "cost": one.cost, "spread": one.spread} for one in compared]
                options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return compared


def main() -> int:
    options = arguments()
    console = Console(stderr=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    raise_descriptors()
    scenarios = [
        scenario
        for section in SECTIONS
        for scenario in section.scenarios
        if not options.only or scenario.name in options.only
    ]
    try:
        for python in (options.before, options.after):
            console.print(python, versions_of_hall(python), markup=False)
        compared = compare(scenarios, options, console)
    except (ServerError, SlapError) as error:
        console.print(str(error), markup=False)
        return 2
    Console(width=None if sys.stdout.isatty() else 180).print(table(compared, options.allowed))
    return int(any(one.cost is not None and one.cost > options.allowed for one in compared))


if __name__ == "__main__":
    sys.exit(main())
