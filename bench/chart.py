"""Draw docs/images/speed.svg from RESULTS.md: the speed of the hall as a multiple of the server beside it.

    python bench/chart.py     draw the chart again from the figures in bench/RESULTS.md

`make bench` calls `draw` with the text that it has just written to RESULTS.md, so chart and tables always show
the same figures. The SVG has its own style sheet and follows the light or dark setting of the reader.
"""

from __future__ import annotations

import math
import re
import textwrap
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from figures import HALL

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "RESULTS.md"
CHART: Final = HERE.parent / "docs" / "images" / "speed.svg"

WIDTH: Final = 860
MARGIN: Final = 20
PLOT_LEFT: Final = 324
PLOT_RIGHT: Final = 640
ROW: Final = 21
BAR: Final = 13
HEADING: Final = 32
TOP: Final = 92
"""Where the first group begins, below the title and the axis."""
SVG: Final = "http://www.w3.org/2000/svg"
CAPTION_LINE: Final = 17
CAPTION_CHARACTERS_MAX: Final = 128
TICK_BASE: Final = 4
"""The axis is logarithmic: each tick is this many times the one before."""

TITLE: Final = "Speed of the hall, as a multiple of the server beside it"
LEGEND: Final = "Blue: the hall is faster. Orange: the hall is slower. The scale is logarithmic."
STYLE: Final = """
    .bg { fill: #ffffff } .ink { fill: #1b1f24 } .soft { fill: #57606a }
    .grid { stroke: #d8dee4 } .axis { stroke: #57606a; stroke-width: 1.5 }
    .faster { fill: #0969da } .slower { fill: #bc4c00 }
    text { font: 12px -apple-system, "Segoe UI", "DejaVu Sans", sans-serif } .end { text-anchor: end }
    .middle { text-anchor: middle } .title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      .bg { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #9198a1 }
      .grid { stroke: #30363d } .axis { stroke: #9198a1 }
      .faster { fill: #4493f8 } .slower { fill: #db6d28 }
    }
  """

FACT: Final = re.compile(r"^- ([\w ]+): (.*)$", re.MULTILINE)
MEASURE: Final = re.compile(r"(.*) \((.*)\)")


class Bar(NamedTuple):
    """One row of the chart."""

    label: str
    speed: float
    """The hall's speed divided by the other server's: above 1 the hall is faster."""
    figures: str
    """Both medians with their unit, the hall's first."""


class Group(NamedTuple):
    """The rows in which one hall is compared with one other server."""

    title: str
    pair: str
    """The heading of the column, for example `hall : gearmand`."""
    bars: list[Bar]


class ResultsTable(NamedTuple):
    """One table of RESULTS.md."""

    title: str
    headings: list[str]
    rows: list[list[str]]


def read_facts(results: str) -> dict[str, str]:
    """The list at the top of RESULTS.md: date, machine, versions."""
    return dict(FACT.findall(results.partition("\n## ")[0]))


def read_tables(results: str) -> list[ResultsTable]:
    tables: list[ResultsTable] = []
    for section in results.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        lines = [split_row(line) for line in body.splitlines() if line.startswith("|")]
        tables.append(ResultsTable(title, lines[0], lines[2:]))
    return tables


def split_row(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]


def groups(results: str) -> list[Group]:
    """One group for each column "hall : other server". Columns that compare two halls are left out."""
    found: list[Group] = []
    for table in read_tables(results):
        pairs = [heading.partition(" : ") for heading in table.headings]
        pairs = [pair for pair in pairs if pair[2] and not pair[2].startswith(HALL)]
        for ours, _, theirs in pairs:
            rows = [dict(zip(table.headings, row, strict=True)) for row in table.rows]
            bars = [bar for row in rows if (bar := make_bar(row, ours, theirs))]
            if bars:
                title = heading(table.title, ours, theirs, [hall for hall, _, _ in pairs])
                found.append(Group(title, f"{ours} : {theirs}", bars))
    return found


def heading(title: str, ours: str, theirs: str, halls: list[str]) -> str:
    """A table that compares one hall with several servers, or several halls with one, has a group for each."""
    if len(halls) == 1 or title.endswith(theirs):
        return title
    return f"{title}: {ours}" if len(set(halls)) > 1 else f"{ours} beside the {theirs}"


def make_bar(cells: dict[str, str], ours: str, theirs: str) -> Bar | None:
    """None if the row is not about speed, or lacks a figure. Of two times the shorter one is faster."""
    label, unit = measure(cells["measure"])
    our_figure, their_figure = figure(cells[ours]), figure(cells[theirs])
    if not our_figure or not their_figure or "CPU" in label:
        return None
    if unit.endswith("/s"):
        speed = our_figure / their_figure
    elif unit == "us":
        speed = their_figure / our_figure
    else:
        return None
    return Bar(label, speed, f"{cells[ours]} : {cells[theirs]} {unit}")


def measure(text: str) -> tuple[str, str]:
    """Figure and unit: `durable drain` and `jobs/s` for `durable drain (jobs/s)`."""
    match = MEASURE.fullmatch(text)
    return (match[1], match[2]) if match else (text, "")


def figure(text: str) -> float:
    """0 for an empty cell."""
    return float(text.replace(",", "")) if text else 0.0


class Scale:
    """A logarithmic axis from one tick below the slowest bar to one tick above the fastest."""

    def __init__(self, speeds: list[float]) -> None:
        self.first = min(math.floor(math.log(min(speeds), TICK_BASE)), -1)
        self.last = max(math.ceil(math.log(max(speeds), TICK_BASE)), 1)

    def x(self, speed: float) -> float:
        share = (math.log(speed, TICK_BASE) - self.first) / (self.last - self.first)
        return PLOT_LEFT + share * (PLOT_RIGHT - PLOT_LEFT)

    def ticks(self) -> list[tuple[float, str]]:
        """Where each tick is, and what is written at it."""
        powers = range(self.first, self.last + 1)
        return [(self.x(float(TICK_BASE) ** power), tick_text(power)) for power in powers]


def tick_text(power: int) -> str:
    if power < 0:
        return f"1/{TICK_BASE**-power}"
    return "same" if power == 0 else f"{TICK_BASE**power} x"


def speed_text(speed: float) -> str:
    return f"{speed:.0f} x" if speed >= 10 else f"{speed:.2f} x"


def caption(facts: dict[str, str]) -> list[str]:
    """What was measured, where and when, in lines that fit the width."""
    where = " · ".join(facts[name] for name in ("machine", "kernel", "disk") if name in facts)
    versions = " · ".join(f"{name} {facts[name]}" for name in (HALL, "gearmand", "SQLite") if name in facts)
    when = f"Measured {facts['date']}: {facts['run']}. Each figure is the median of its rounds."
    return [line for part in (where, versions, when) for line in textwrap.wrap(part, CAPTION_CHARACTERS_MAX)]


def text(x: float, y: float, classes: str, content: str) -> str:
    return f'  <text class="{classes}" x="{x:g}" y="{y:g}">{escape(content)}</text>'


def line(classes: str, x: float, top: float, bottom: float) -> str:
    return f'  <path class="{classes}" d="M{x:.1f} {top:g}V{bottom:g}"/>'


def draw_bar(bar: Bar, scale: Scale, y: float) -> list[str]:
    """`y` is the top of the row."""
    start, end = sorted((scale.x(1.0), scale.x(bar.speed)))
    base = y + BAR - 2
    faster = bar.speed >= 1
    beside = text(round(end + 6, 1), base, "ink", speed_text(bar.speed))
    if not faster:
        beside = text(round(start - 6, 1), base, "ink end", speed_text(bar.speed))
    colour = "faster" if faster else "slower"
    size = f'width="{end - start:.1f}" height="{BAR}" rx="2"'
    return [
        text(MARGIN, base, "ink", bar.label),
        f'  <rect class="{colour}" x="{start:.1f}" y="{y:g}" {size}/>',
        beside,
        text(WIDTH - MARGIN, base, "soft end", bar.figures),
    ]


def draw(results: str) -> str:
    """The chart of the figures in the text of RESULTS.md, as an SVG."""
    shown = groups(results)
    if not shown:
        raise ValueError("the results compare the hall with no other server: there is nothing to draw")
    scale = Scale([bar.speed for group in shown for bar in group.bars])
    bottom = TOP + sum(HEADING + ROW * len(group.bars) for group in shown)
    notes = caption(read_facts(results))
    height = bottom + 24 + CAPTION_LINE * len(notes)
    described = [
        f"{group.pair}, {bar.label}: {speed_text(bar.speed)} ({bar.figures})"
        for group in shown
        for bar in group.bars
    ]
    out = [
        f'<svg xmlns="{SVG}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        f'  <title id="t">{TITLE}</title>',
        f'  <desc id="d">{escape("; ".join(described))}.</desc>',
        f"  <style>{STYLE}</style>",
        f'  <rect class="bg" width="{WIDTH}" height="{height}"/>',
        text(MARGIN, 30, "ink title", TITLE),
        text(MARGIN, 52, "soft", LEGEND),
    ]
    for x, label in scale.ticks():
        out += [text(round(x, 1), TOP - 8, "soft middle", label), line("grid", x, TOP, bottom)]
    y = TOP
    for group in shown:
        out += [
            text(MARGIN, y + 20, "ink name", group.title),
            text(WIDTH - MARGIN, y + 20, "soft end", group.pair),
        ]
        y += HEADING
        for bar in group.bars:
            out += draw_bar(bar, scale, y)
            y += ROW
    out.append(line("axis", scale.x(1.0), TOP, bottom))
    out += [
        text(MARGIN, bottom + 26 + CAPTION_LINE * number, "soft", note) for number, note in enumerate(notes)
    ]
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    CHART.write_text(draw(RESULTS.read_text()))
    print(f"written to {CHART}")
