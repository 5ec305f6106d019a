"""The charts of the page, as SVG that takes its colours from the page's style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from summary import Summary

WIDTH: Final = 640
LEFT: Final = 130
RIGHT: Final = 70
ROW: Final = 34
PLOT: Final = WIDTH - LEFT - RIGHT
CURVE_HEIGHT: Final = 240
LATEST_MIN: Final = 180
"""Where the curves end: few jobs wait longer."""


def bars(summaries: Sequence[Summary]) -> str:
    """How long a job is waited for, on average, policy by policy."""
    longest = _rounded_up(max(each.waiting_min.mean for each in summaries))
    height = ROW * len(summaries) + 56
    parts = list(_grid(longest, ROW * len(summaries), "minutes that a job is waited for, on average"))
    for number, each in enumerate(summaries):
        y = ROW * number + 6
        width = PLOT * each.waiting_min.mean / longest
        name, value = escape(each.policy), f"{each.waiting_min.mean:.0f} min"
        parts += [
            f'<text class="name" x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{name}</text>',
            f'<rect class="bar {name}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW - 12}" rx="3"/>',
            f'<text class="value" x="{LEFT + width + 8:.1f}" y="{y + 16}">{value}</text>',
        ]
    return _svg(height, "Mean waiting time of a job under each policy", parts)


def curves(summaries: Sequence[Summary]) -> str:
    """Which part of the jobs was waited for so many minutes at most."""
    parts = list(_grid(LATEST_MIN, CURVE_HEIGHT, "minutes that a job is waited for"))
    for percent in (0, 25, 50, 75, 100):
        y = _height(percent / 100)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + PLOT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    middle = CURVE_HEIGHT / 2
    parts.append(
        f'<text class="axis" x="{LEFT - 60}" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 {LEFT - 60} {middle})">jobs that are waited for no longer</text>'
    )
    parts += [f'<path class="curve {each.policy}" d="{_steps(each.waiting_min.each)}"/>' for each in summaries]
    for number, each in enumerate(summaries):
        y = CURVE_HEIGHT - 22 * (len(summaries) - number)
        x = LEFT + PLOT - 150
        parts.append(f'<line class="curve {each.policy}" x1="{x}" x2="{x + 28}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="name" x="{x + 36}" y="{y + 4}">{escape(each.policy)}</text>')
    return _svg(CURVE_HEIGHT + 56, "Share of jobs waited for no longer than a time, under each policy", parts)


def _svg(height: int, title: str, parts: list[str]) -> str:
    body = "\n  ".join(parts)
    box = f'viewBox="0 -8 {WIDTH} {height}" role="img" aria-label="{title}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>\n  <title>{title}</title>\n  {body}\n</svg>'


def _grid(longest: float, height: float, axis: str) -> Iterator[str]:
    """Upright lines with their numbers, and what they count."""
    for step in range(5):
        value = longest * step / 4
        x = LEFT + PLOT * step / 4
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{height + 18}" text-anchor="middle">{value:g}</text>'
    yield f'<text class="axis" x="{LEFT + PLOT / 2}" y="{height + 40}" text-anchor="middle">{axis}</text>'


def _steps(waits_min: Sequence[float]) -> str:
    """A curve that climbs by one job at each wait."""
    path = f"M{LEFT} {_height(0):.1f}"
    for number, wait_min in enumerate(waits_min, start=1):
        if wait_min > LATEST_MIN:
            break
        path += f"H{LEFT + PLOT * wait_min / LATEST_MIN:.1f}V{_height(number / len(waits_min)):.1f}"
    return path + f"H{LEFT + PLOT}"


def _height(share: float) -> float:
    return CURVE_HEIGHT * (1 - share)


def _rounded_up(longest: float) -> int:
    """To a number that four steps divide well."""
    return next(top for top in (20, 40, 60, 80, 120, 160, 200, 240, 400, 800, 10**6) if top >= longest)
