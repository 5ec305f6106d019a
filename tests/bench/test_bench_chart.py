"""The speed chart shows the figures of RESULTS.md, and every bar points to the right side."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from chart import CAPTION_CHARACTERS_MAX, CHART, RESULTS, Scale, draw, groups
from figures import Ratio, Row, Section
from report import markdown
from run import publish

SVG = "{http://www.w3.org/2000/svg}"
FACTS = {
    "date": "2026-01-02 03:04 UTC",
    "machine": "2 cores of a processor, 4 GiB",
    "kernel": "Linux 6.1",
    "disk": "ext4",
    "hall": "1.2 (compiled), Python 3.11",
    "SQLite": "3.40",
    "gearmand": "1.1.20",
    "run": "5 rounds, servers in turn",
}


def results(*rows: Row, facts: dict[str, str] | None = None) -> str:
    """RESULTS.md as `make bench` writes it, with one table of hall beside gearmand."""
    section = Section("hall beside gearmand", (), ("gearmand", "hall"), (Ratio("hall", "gearmand"),))
    return markdown([(section, list(rows))], facts or FACTS)


def row(figure: str, unit: str, hall: float, gearmand: float) -> Row:
    return Row("one", figure, unit, 5, {"hall": hall, "gearmand": gearmand})


def rectangles(svg: str) -> list[tuple[str, float, float]]:
    """Each bar: its class, its left edge and its width."""
    found = ET.fromstring(svg).findall(f"{SVG}rect")
    bars = [one for one in found if one.get("class") in ("faster", "slower")]
    return [(str(one.get("class")), float(one.get("x", "")), float(one.get("width", ""))) for one in bars]


def texts(svg: str) -> list[str]:
    return [str(one.text) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_bar_starts_at_one_and_points_right_if_the_hall_is_faster_left_if_it_is_slower() -> None:
    svg = draw(results(row("fast", "jobs/s", 400, 100), row("slow", "jobs/s", 50, 100)))
    middle = round(Scale([4.0, 0.5]).x(1.0), 1)
    (faster, left, _), (slower, start, width) = rectangles(svg)
    assert (faster, left) == ("faster", middle)
    assert (slower, round(start + width, 1)) == ("slower", middle)


def test_the_length_of_a_bar_is_the_logarithm_of_the_ratio() -> None:
    (_, _, four), (_, _, sixteen) = rectangles(
        draw(results(row("a", "jobs/s", 4, 1), row("b", "jobs/s", 16, 1)))
    )
    assert sixteen == pytest.approx(2 * four, abs=0.2)


def test_a_shorter_time_counts_as_faster() -> None:
    (group,) = groups(results(row("depth 1, p50", "us", 200, 300)))
    assert [(bar.label, bar.speed, bar.figures) for bar in group.bars] == [
        ("depth 1, p50", 1.5, "200 : 300 us")
    ]


def test_rows_that_are_not_about_speed_or_lack_a_figure_have_no_bar() -> None:
    lacking = Row("one", "only ours", "jobs/s", 1, {"hall": 5.0})
    idle = row("nothing done", "jobs/s", 0, 5)
    others = [row("memory", "bytes", 1, 2), row("CPU of a task", "us", 1, 2), lacking, idle]
    (group,) = groups(results(row("submit", "jobs/s", 2, 1), *others))
    assert [bar.label for bar in group.bars] == ["submit"]


def test_two_halls_beside_each_other_have_no_bar() -> None:
    section = Section("history", (), ("hall, empty", "hall, long"), (Ratio("hall, long", "hall, empty"),))
    rows = [Row("one", "submit", "jobs/s", 5, {"hall, empty": 1.0, "hall, long": 2.0})]
    with pytest.raises(ValueError, match="nothing to draw"):
        draw(markdown([(section, rows)], FACTS))


def test_each_hall_of_a_table_has_its_group() -> None:
    memory = "hall, in memory"
    section = Section("dwork", (), ("loop", "hall", memory), (Ratio("hall", "loop"), Ratio(memory, "loop")))
    rows = [Row("one", "tasks", "tasks/s", 5, {"loop": 4.0, "hall": 2.0, memory: 8.0})]
    found = groups(markdown([(section, rows)], FACTS))
    assert [(group.pair, group.bars[0].speed) for group in found] == [
        ("hall : loop", 0.5),
        ("hall, in memory : loop", 2.0),
    ]


def test_the_caption_names_machine_versions_and_date_in_lines_that_fit() -> None:
    long = {**FACTS, "machine": "64 cores of " + "a processor with a long name, " * 8}
    lines = texts(draw(results(row("a", "jobs/s", 2, 1), facts=long)))
    whole = " ".join(lines)
    for fact in ("a processor with a long name", "1.2 (compiled)", "gearmand 1.1.20", "2026-01-02 03:04 UTC"):
        assert fact in whole
    assert max(len(line) for line in lines) <= CAPTION_CHARACTERS_MAX


def test_the_figures_of_both_servers_and_the_ratio_are_written_out() -> None:
    shown = texts(draw(results(row("durable drain", "jobs/s", 25_969, 628))))
    assert "25,969 : 628 jobs/s" in shown
    assert "41 x" in shown


def test_names_with_special_characters_are_escaped() -> None:
    assert "p50 < p99 & more" in texts(draw(results(row("p50 < p99 & more", "us", 1, 2))))


def test_every_class_has_a_style_and_every_colour_a_dark_one() -> None:
    svg = draw(results(row("a", "jobs/s", 2, 1), row("b", "jobs/s", 1, 2)))
    light, dark = (
        svg.partition("<style>")[2].partition("</style>")[0].split("@media (prefers-color-scheme: dark)")
    )
    used = {name for classes in re.findall(r'class="([^"]+)"', svg) for name in classes.split()}
    assert used <= set(re.findall(r"\.(\w+) \{", light))
    coloured = set(re.findall(r"\.(\w+) \{[^}]*#", light))
    assert coloured == set(re.findall(r"\.(\w+) \{[^}]*#", dark))


def test_a_full_run_writes_the_tables_and_the_chart_of_the_same_figures(tmp_path: Path) -> None:
    text = results(row("a", "jobs/s", 2, 1))
    publish(text, tmp_path / "RESULTS.md", tmp_path / "speed.svg")
    assert (tmp_path / "RESULTS.md").read_text() == text
    assert (tmp_path / "speed.svg").read_text() == draw(text)


def test_the_committed_chart_shows_the_committed_results() -> None:
    assert CHART.read_text() == draw(RESULTS.read_text()), "draw it again: python bench/chart.py"
