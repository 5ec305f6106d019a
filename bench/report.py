"""The figures for people: a table on the terminal, RESULTS.md, and JSON for programs."""

from __future__ import annotations

import dataclasses
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from servers import BareLoop, Gearmand, Hall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dwork import DworkRow
    from scenarios import Row

SERVERS = (Gearmand.name, Hall.name, BareLoop.name)
MARKS = {True: "pass", False: "FAIL", None: ""}


def number(value: float | None) -> str:
    """Short, with as many digits as mean something."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def required(row: Row) -> str:
    if not row.bound:
        return ""
    return f"{row.bound} {number(row.required)}" + (" x" if row.of_ratio else f" {row.unit}")


def cells(row: Row) -> list[str]:
    """One line of the table: the columns of HEADINGS."""
    values = [number(row.values.get(server)) for server in SERVERS]
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    cpu = [number(row.cpu_us.get(server)) for server in (Gearmand.name, Hall.name)]
    figure = f"{row.figure} ({row.unit})"
    return [figure, *values, ratio, required(row), MARKS[row.passed], *cpu, str(row.rounds)]


HEADINGS = (
    "measure",
    "gearmand",
    "hall",
    "bare loop",
    "hall : gearmand",
    "required",
    "",
    "gearmand CPU us/job",
    "hall CPU us/job",
    "rounds",
)


def table(rows: Iterable[Row]) -> Table:
    shown = Table(title="hall beside gearmand", title_justify="left")
    for index, heading in enumerate(HEADINGS):
        shown.add_column(heading, justify="left" if index in {0, 5, 6} else "right")
    colours = {True: "green", False: "bold red", None: ""}
    for row in rows:
        line = cells(row)
        if line[6]:
            line[6] = f"[{colours[row.passed]}]{line[6]}[/]"
        shown.add_row(*line)
    return shown


DWORK_SERVERS = ("bare router in C", "bare router", "hall", "hall, in memory")
DWORK_HEADINGS = (
    "measure",
    *DWORK_SERVERS,
    "hall : bare router",
    "in memory : bare router",
    "required",
    "",
    "rounds",
)


def dwork_cells(row: DworkRow) -> list[str]:
    values = [number(row.values.get(server)) for server in DWORK_SERVERS]
    ratios = ["" if (ratio := row.ratio(name)) is None else f"{ratio:.2f}" for name in DWORK_SERVERS[2:]]
    wanted = f"at most {number(row.ratio_max)} x" if row.ratio_max else ""
    return [f"{row.figure} ({row.unit})", *values, *ratios, wanted, MARKS[row.passed], str(row.rounds)]


def dwork_table(rows: Iterable[DworkRow]) -> Table:
    shown = Table(title="dwork: hall beside bare routers", title_justify="left")
    for index, heading in enumerate(DWORK_HEADINGS):
        shown.add_column(heading, justify="left" if index in {0, 7, 8} else "right")
    for row in rows:
        shown.add_row(*dwork_cells(row))
    return shown


def circumstances(versions: dict[str, str], folder: Path, rounds: int, scale: float) -> dict[str, str]:
    """Everything that somebody needs to judge the figures, or to get them again."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    hall = f"{versions['hall']} ({versions['build']}), Python {versions['python']}, uvloop {versions['uvloop']}"
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores of {processor()}, {memory_bytes / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "disk": filesystem(folder),
        "hall": hall,
        "SQLite": f"{versions['sqlite']} in the hall, {versions['system sqlite']} in gearmand",
        "gearmand": versions["gearmand"],
        "run": f"{rounds} rounds, servers in turn" + ("" if scale == 1 else f", jobs x {scale:g}"),
    }


def markdown(rows: Iterable[Row], dwork_rows: Iterable[DworkRow], facts: dict[str, str]) -> str:
    lines = [
        "# hall beside gearmand",
        "",
        "Written by `make bench`; docs/benchmarks.md says what each line means. Medians over the rounds;",
        "the ratio is the hall's figure divided by gearmand's.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|---|" + "---:|" * 4 + "---|---|" + "---:|" * 3,
    ]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    lines += ["", "## dwork beside bare routers", "", "| " + " | ".join(DWORK_HEADINGS) + " |"]
    lines += ["|---|" + "---:|" * 6 + "---|---|---:|"]
    lines += ["| " + " | ".join(dwork_cells(row)) + " |" for row in dwork_rows]
    return "\n".join(lines) + "\n"


def as_json(rows: Iterable[Row], dwork_rows: Iterable[DworkRow], facts: dict[str, str]) -> dict[str, Any]:
    return {
        "circumstances": facts,
        "dwork": [{**dataclasses.asdict(row), "passed": row.passed} for row in dwork_rows],
        "rows": [{**dataclasses.asdict(row), "ratio": row.ratio, "passed": row.passed} for row in rows],
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def filesystem(folder: Path) -> str:
    """The type of what `folder` lies on: the longest mount point above it."""
    path = str(folder.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, filesystem_type, *_ = line.split(" ")
        below = path == point or path.startswith(point.rstrip("/") + "/")
        if below and len(point) >= len(best):
            best, kind = point, filesystem_type
    return kind
