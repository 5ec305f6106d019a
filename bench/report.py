"""Shows the figures: tables on the terminal, RESULTS.md, and JSON."""

from __future__ import annotations

import dataclasses
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import Ratio
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from figures import Row, Section

PLACES_MAX = 6
MARKS = {True: "pass", False: "FAIL", None: ""}


def number(value: float | None) -> str:
    """Format a figure with as many digits as are significant."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def ratio_text(value: float, row: Row) -> str:
    """Two decimal places; more if two would hide that the ratio misses its requirement."""
    if row.passed is False and value == row.judged:
        for places in range(2, PLACES_MAX + 1):
            shown = f"{value:.{places}f}"
            if not row.reached_by(float(shown)):
                return shown
        return str(value)
    return f"{value:.2f}"


def required(row: Row) -> str:
    if not row.bound:
        return ""
    return f"{row.bound} {number(row.required)}" + (
        " x" if isinstance(row.judged_by, Ratio) else f" {row.unit}"
    )


def headings(section: Section) -> list[str]:
    ratios = [ratio.title for ratio in section.ratios]
    cpu = [f"{server} CPU us/job" for server in section.cpu_of]
    return ["measure", *section.servers, *ratios, *cpu, "rounds", "required", ""]


def cells(row: Row, section: Section) -> list[str]:
    """One row of the table, in the order of the headings."""
    values = [number(row.values.get(server)) for server in section.servers]
    ratios = ["" if (ratio := row.ratio(one)) is None else ratio_text(ratio, row) for one in section.ratios]
    cpu = [number(row.cpu_us.get(server)) for server in section.cpu_of]
    figure = f"{row.figure} ({row.unit})"
    return [figure, *values, *ratios, *cpu, str(row.rounds), required(row), MARKS[row.passed]]


def table(section: Section, rows: Iterable[Row]) -> Table:
    shown = Table(title=section.title, title_justify="left")
    columns = headings(section)
    for index, heading in enumerate(columns):
        shown.add_column(heading, justify="right" if 0 < index < len(columns) - 2 else "left")
    colours = {True: "green", False: "bold red", None: ""}
    for row in rows:
        *line, mark = cells(row, section)
        shown.add_row(*line, f"[{colours[row.passed]}]{mark}[/]" if mark else "")
    return shown


def circumstances(
    versions: dict[str, str], folder: Path, rounds: int, scale: float, stolen: float = 0.0
) -> dict[str, str]:
    """What a reader needs to judge the figures or to reproduce them. `stolen` is the part of the CPU time that
    the host took.
    """
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    hall = f"{versions['hall']} ({versions['build']}), Python {versions['python']}, uvloop {versions['uvloop']}"
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores of {processor()}, {memory_bytes / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "disk": filesystem(folder),
        "hall": hall,
        "SQLite": f"{versions['sqlite']} in the hall, {versions['system sqlite']} in gearmand",
        "gearmand": versions["gearmand"],
        "PostgreSQL": versions["PostgreSQL"],
        "job systems": versions["job systems"],
        "shell commands": versions["shell commands"],
        "host": f"took {stolen:.0%} of the CPU time that the run wanted",
        "run": f"{rounds} rounds, servers in turn" + ("" if scale == 1 else f", jobs x {scale:g}"),
    }
    return {name: value for name, value in facts.items() if value != "not installed"}


def markdown(
    measured: Iterable[tuple[Section, list[Row]]],
    facts: dict[str, str],
    earlier: str = "",
    order: Iterable[str] = (),
) -> str:
    """The text of RESULTS.md. Sections of the earlier text that were not measured now are kept, in the order of
    the titles.
    """
    parts = sections_of(earlier)
    parts |= {section.title: _section(section, rows, facts["date"]) for section, rows in measured}
    titles = [title for title in order if title in parts]
    titles += [title for title in parts if title not in titles]
    lines = [
        "# Results",
        "",
        "Written by `make bench`; docs/benchmarks.md says what each line means. Medians over the rounds;",
        "a ratio is one server's figure divided by another's. The list describes the latest run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
    ]
    for title in titles:
        lines += ["", f"## {title}", "", parts[title]]
    return "\n".join(lines) + "\n"


def sections_of(results: str) -> dict[str, str]:
    """The sections of RESULTS.md by their titles."""
    parts = (part.partition("\n") for part in results.split("\n## ")[1:])
    return {title: body.strip() for title, _, body in parts}


def _section(section: Section, rows: Iterable[Row], date: str) -> str:
    columns = headings(section)
    lines = [f"Measured {date}.", "", "| " + " | ".join(columns) + " |"]
    lines.append("|---|" + "---:|" * (len(columns) - 3) + "---|---|")
    return "\n".join([*lines, *("| " + " | ".join(cells(row, section)) + " |" for row in rows)])


def as_json(measured: Iterable[tuple[Section, list[Row]]], facts: dict[str, str]) -> dict[str, Any]:
    return {
        "circumstances": facts,
        "sections": {section.title: [_row_as_json(row, section) for row in rows] for section, rows in measured},
    }


def _row_as_json(row: Row, section: Section) -> dict[str, Any]:
    ratios = {ratio.title: row.ratio(ratio) for ratio in section.ratios}
    return {**dataclasses.asdict(row), "ratios": ratios, "passed": row.passed}


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def filesystem(folder: Path) -> str:
    """The type of the file system that holds `folder`: that of the longest matching mount point."""
    path = str(folder.resolve())
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, filesystem_type, *_ = line.split(" ")
        below = path == point or path.startswith(point.rstrip("/") + "/")
        if below and len(point) >= len(best):
            best, kind = point, filesystem_type
    return kind
