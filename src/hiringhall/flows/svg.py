"""A graph of tasks as an SVG file: layers from left to right, light or dark as the reader's system is.

Invariant: the file is one XML document without scripts, and refers to nothing outside. Whatever is in a name is
text in it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.flows.folding import fold
from hiringhall.flows.graph import STATES
from hiringhall.flows.ordering import in_good_order
from hiringhall.flows.steps import Steps, in_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.flows.folding import Box
    from hiringhall.flows.graph import Node

NODES_MAX: Final = 5000
"""Tasks that are all drawn. A larger graph is folded."""
FOLDED_LAYER_MAX: Final = 40
FOLDED_LAYERS_MAX: Final = 200
EDGES_MAX: Final = 50_000
STEPS_MAX: Final = 1000
"""In a larger picture, a long edge may pass behind boxes."""
NAME_MAX: Final = 22
"""Characters of a name in a box; the whole name is in its tooltip."""
_BOX_WIDTH: Final = 190
_BOX_HEIGHT: Final = 26
_LAYER_GAP: Final = 70
_BOX_GAP: Final = 10
_MARGIN: Final = 24
_HEAD: Final = 64
_WIDTH_MIN: Final = 620
_STYLE: Final = """\
svg { background: #fff; font: 13px system-ui, sans-serif; }
text { fill: #1f2328; } .faint { fill: #59636e; } .title { font-size: 17px; font-weight: 600; }
.edge { fill: none; stroke: #8c959f; stroke-width: 1.2; opacity: .65; }
rect { stroke-width: 1.2; }
.done { fill: #dafbe1; stroke: #1a7f37; } .failed { fill: #ffebe9; stroke: #cf222e; }
.running { fill: #ddf4ff; stroke: #0969da; } .cancelled { fill: #fff8c5; stroke: #9a6700; }
.ready { fill: #fff; stroke: #59636e; } .delayed { fill: #fff; stroke: #59636e; stroke-dasharray: 5 3; }
.held { fill: #f6f8fa; stroke: #afb8c1; stroke-dasharray: 2 3; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; } text { fill: #e6edf3; } .faint { fill: #9198a1; } .edge { stroke: #6e7681; }
.done { fill: #12261e; stroke: #3fb950; } .failed { fill: #2d1416; stroke: #f85149; }
.running { fill: #121d2f; stroke: #4493f8; } .cancelled { fill: #272115; stroke: #d29922; }
.ready { fill: #0d1117; stroke: #9198a1; } .delayed { fill: #0d1117; stroke: #9198a1; }
.held { fill: #151b23; stroke: #3d444d; }
}
"""


class _Spot(NamedTuple):
    """The upper left corner of a box."""

    x: float
    y: float


def svg_lines(nodes: list[Node], title: str, words: str) -> Iterator[str]:
    """The lines of the file. `words` stand below the title."""
    fits = len(nodes) <= NODES_MAX
    largest = max(len(nodes), 1)
    picture = fold(nodes, largest, largest) if fits else fold(nodes, FOLDED_LAYER_MAX, FOLDED_LAYERS_MAX)
    steps = in_steps(picture) if len(picture.boxes) <= STEPS_MAX else Steps(picture.layers, picture.edges, 0)
    spots = _spots(steps)
    width = max((spot.x for spot in spots), default=0.0) + _BOX_WIDTH + _MARGIN
    height = max((spot.y for spot in spots), default=float(_HEAD)) + _BOX_HEIGHT + _MARGIN
    width = max(width, _WIDTH_MIN)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="title words">'
    )
    yield f'<title id="title">{escape(title)}</title>'
    yield f'<desc id="words">{escape(words)}</desc>'
    yield f"<style>\n{_STYLE}</style>"
    yield f'<text class="title" x="{_MARGIN}" y="28">{escape(title)}</text>'
    yield f'<text class="faint" x="{_MARGIN}" y="48">{escape(words)}</text>'
    yield from _edges(steps.edges, spots, len(picture.boxes))
    for box, spot in zip(picture.boxes, spots, strict=False):
        yield from _box(nodes, box, spot)
    yield "</svg>"


def _spots(steps: Steps) -> list[_Spot]:
    """Each box beside the average of its parents, in the order of its layer."""
    spots = [_Spot(0, 0)] * sum(map(len, steps.layers))
    above: dict[int, list[int]] = {}
    for parent, child in steps.edges:
        above.setdefault(child, []).append(parent)
    step = _BOX_HEIGHT + _BOX_GAP
    layers = in_good_order(steps.layers, steps.edges)
    tallest = max(map(len, layers), default=1) * step
    for number, layer in enumerate(layers):
        x = _MARGIN + number * (_BOX_WIDTH + _LAYER_GAP)
        wanted = [_wanted(spots, above.get(box, [])) for box in layer]
        if all(y is None for y in wanted):
            first = _HEAD + (tallest - len(layer) * step) / 2
            wanted = [first + place * step for place in range(len(layer))]
        lowest = float(_HEAD + tallest - step)
        placed: list[float] = []
        for y in wanted:
            least = placed[-1] + step if placed else float(_HEAD)
            placed.append(max(least, least if y is None else y))
        for place in range(len(placed) - 1, -1, -1):
            placed[place] = min(placed[place], lowest)
            lowest = placed[place] - step
        for box, y in zip(layer, placed, strict=True):
            spots[box] = _Spot(x, y)
    return spots


def _wanted(spots: list[_Spot], parents: list[int]) -> float | None:
    return sum(spots[parent].y for parent in parents) / len(parents) if parents else None


def _edges(edges: list[tuple[int, int]], spots: list[_Spot], boxes: int) -> Iterator[str]:
    """Curves, those that begin in one place in one element. An edge that passes a layer is straight in it."""
    paths: dict[int, list[str]] = {}
    for parent, child in edges[:EDGES_MAX]:
        x, y = spots[parent].x + _BOX_WIDTH, spots[parent].y + _BOX_HEIGHT / 2
        end_x, end_y = spots[child].x, spots[child].y + _BOX_HEIGHT / 2
        bend = max(_LAYER_GAP / 2, (end_x - x) / 3)
        path = f"M{x:g} {y:g}C{x + bend:g} {y:g} {end_x - bend:g} {end_y:g} {end_x:g} {end_y:g}"
        if child >= boxes:
            path += f"h{_BOX_WIDTH}"
        paths.setdefault(parent, []).append(path)
    for drawn in paths.values():
        yield f'<path class="edge" d="{"".join(drawn)}"/>'
    if len(edges) > EDGES_MAX:
        missing = len(edges) - EDGES_MAX
        yield f'<text class="faint" x="{_MARGIN}" y="62">{missing:,} more edges are not drawn</text>'


def _box(nodes: list[Node], box: Box, spot: _Spot) -> Iterator[str]:
    name = nodes[box.members[0]].name
    words = box.state
    shown = _cut(name)
    if len(box.members) > 1:
        name = f"{name} … {nodes[box.members[-1]].name}"
        words = ", ".join(f"{box.states[state]:,} {state}" for state in reversed(STATES) if box.states[state])
        count = f"{box.states['done']:,}/{len(box.members):,}"
        shown = f"{_cut(name, NAME_MAX - len(count))} {count}"
    middle = spot.y + _BOX_HEIGHT / 2 + 4.5
    yield (
        f"<g><title>{escape(name)}: {escape(words)}</title>"
        f'<rect class="{box.state}" x="{spot.x:g}" y="{spot.y:g}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
        f' rx="5"/><text x="{spot.x + 10:g}" y="{middle:g}">{escape(shown)}</text></g>'
    )


def _cut(name: str, most: int = NAME_MAX) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
