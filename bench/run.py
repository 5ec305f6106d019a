"""`make bench`: measure the hall and other servers side by side, in one run on one machine.

    python bench/run.py                      everything; writes bench/RESULTS.md and docs/images/speed.svg
    python bench/run.py --quick              two rounds and fewer jobs; writes neither
    python bench/run.py --only durable       one scenario; may be repeated; writes no files
    python bench/run.py --section Bidding    all of one section, and its part of the files; may be repeated
    python bench/run.py --json figures.json  also write the figures as JSON

The exit code is 1 if a full run missed a required figure, and 2 if a scenario could not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from chart import CHART, RESULTS, draw
from dwork import BESIDE_ROUTER
from hire import BIDDING
from history import HISTORY
from limited import QUEUES_WITH_RULES
from postgres import ON_POSTGRESQL, version_of_postgres
from report import as_json, circumstances, filesystem, markdown, table
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from scenarios import BESIDE_GEARMAND, Stage
from servers import (
    HERE,
    ServerError,
    raise_descriptors,
    version_of_gearmand,
    version_of_system_sqlite,
    versions_of_hall,
)
from slap import Slap, SlapError
from stolen import StolenTime

from sdk import JOB_FUNCTIONS, versions_of_others
from shell import SHELL_COMMANDS, versions_of_shells
from web import WEB_ROUTES, WEB_WATCHED

if TYPE_CHECKING:
    from figures import Row, Scenario, Section

SECTIONS = (
    BESIDE_GEARMAND,
    BESIDE_ROUTER,
    BIDDING,
    HISTORY,
    QUEUES_WITH_RULES,
    ON_POSTGRESQL,
    WEB_WATCHED,
    WEB_ROUTES,
    JOB_FUNCTIONS,
    SHELL_COMMANDS,
)
BUILD = HERE.parent / "build" / "bench"
ROUNDS = 5
QUICK_ROUNDS = 2
QUICK_SCALE = 0.1
NOT_A_DISK = ("tmpfs", "ramfs")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the hall beside other servers, in one run.")
    parser.add_argument("--quick", action="store_true", help="two rounds, a tenth of the jobs; writes no files")
    names = [scenario.name for section in SECTIONS for scenario in section.scenarios]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    titles = [section.title for section in SECTIONS]
    parser.add_argument("--section", action="append", choices=titles, metavar="TITLE", help=", ".join(titles))
    parser.add_argument("--rounds", type=int, help=f"rounds of each server (default {ROUNDS})")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file; - is stdout"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the hall")
    parser.add_argument(
        "--folder", type=Path, default=BUILD, help="where the servers keep their data; must be on a disk"
    )
    return parser.parse_args()


def measure(scenarios: list[Scenario], stage: Stage, console: Console) -> tuple[list[Row], bool]:
    """Run the scenarios; returns their rows, and whether all of them could be measured."""
    rows: list[Row] = []
    whole = True
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for scenario in scenarios:
            task = progress.add_task(scenario.name, total=1)
            stage.say = partial(tell, progress, task, scenario.name)
            stage.clear()
            try:
                rows += scenario.run(stage)
            except (ServerError, SlapError) as error:
                progress.console.print(f"{scenario.name}: {error}", markup=False)
                whole = False
            progress.update(task, description=scenario.name, completed=1)
    stage.clear()
    return rows, whole


def tell(progress: Progress, task: TaskID, name: str, text: str) -> None:
    progress.update(task, description=f"{name}: {text}")


def publish(text: str, results: Path, chart: Path) -> None:
    """Write the tables, and the chart of the same figures."""
    results.write_text(text)
    chart.write_text(draw(text))


def main() -> int:
    options = arguments()
    console = Console(stderr=True)
    scale = QUICK_SCALE if options.quick else 1.0
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.folder.mkdir(parents=True, exist_ok=True)
    if filesystem(options.folder) in NOT_A_DISK:
        console.print(f"{options.folder} is in memory, not on a disk; choose another folder with --folder")
        return 2
    raise_descriptors()
    try:
        versions = versions_of_hall(options.python)
        versions |= {"gearmand": version_of_gearmand(), "system sqlite": version_of_system_sqlite()}
        versions["PostgreSQL"] = version_of_postgres()
        versions["job systems"] = versions_of_others()
        versions["shell commands"] = versions_of_shells()
        slap = Slap(options.folder)
        stage = Stage(slap, options.folder / "data", options.python, rounds, scale, console.print)
        measured: list[tuple[Section, list[Row]]] = []
        stolen = StolenTime()
        whole = True
        for section in [one for one in SECTIONS if not options.section or one.title in options.section]:
            chosen = [one for one in section.scenarios if not options.only or one.name in options.only]
            rows, all_of_it = measure(chosen, stage, console)
            whole = whole and all_of_it
            if rows:
                measured.append((section, rows))
    except (ServerError, SlapError) as error:
        console.print(str(error), markup=False)
        return 2
    facts = circumstances(versions, options.folder, rounds, scale, stolen.share)
    out = Console(width=None if sys.stdout.isatty() else 180)
    for section, rows in measured:
        out.print(table(section, rows))
    if options.json is not None:
        text = json.dumps(as_json(measured, facts), indent=2) + "\n"
        if str(options.json) == "-":
            print(text, end="")
        else:
            options.json.write_text(text)
    full = whole and not options.quick and not options.only
    if full:
        earlier = RESULTS.read_text() if options.section else ""
        order = [section.title for section in SECTIONS]
        publish(markdown(measured, facts, earlier, order), RESULTS, CHART)
        console.print(f"written to {RESULTS} and {CHART}")
    if not whole:
        return 2
    return int(full and any(row.passed is False for _, rows in measured for row in rows))


if __name__ == "__main__":
    sys.exit(main())
