"""A graph of tasks in the terminal: a line for each layer, and lines between them.

Invariant: no line is wider than the terminal. A wide layer is folded, a name that is cut ends with "…", and
edges that are not drawn are mentioned. States differ by their signs, so nothing is lost without colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.cli.flow_edges import bundles, edge_lines
from hiringhall.cli.layout import cut, width_of
from hiringhall.cli.styling import DIM, PLAIN
from hiringhall.cli.wording import style_of
from hiringhall.flows.folding import fold
from hiringhall.flows.graph import STATES
from hiringhall.flows.ordering import in_good_order
from hiringhall.flows.steps import in_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.color import ColorSystem

    from hiringhall.flows.folding import Box, Picture
    from hiringhall.flows.graph import Node

SIGNS: Final = {
    "failed": "✗",
    "running": "▸",
    "cancelled": "⊘",
    "ready": "○",
    "delayed": "◔",
    "held": "·",
    "done": "✓",
}
LABEL_MIN: Final = 10
"""A longer label may be cut to this width."""
LABEL_USUAL: Final = 14
"""If labels of this width do not fit side by side, a layer is folded."""
GAP: Final = 2
LAYERS_MAX: Final = 50
PASSING: Final = "│"
"""An edge that passes a layer."""


def draw(nodes: list[Node], width: int, colours: ColorSystem | None) -> Iterator[str]:
    """The lines of the picture, and a legend."""
    if not nodes:
        return
    label = min(LABEL_USUAL, max(width_of(node.name) for node in nodes) + len("✓ "))
    picture = fold(nodes, max(2, (width + GAP) // (label + GAP)), LAYERS_MAX)
    drawing = _Drawing(nodes, picture, width, colours)
    yield from drawing.lines()
    yield ""
    yield from _legend(nodes, width, colours)
    if drawing.omitted:
        yield cut("Some edges are not drawn; --svg draws all of them.", width)


def _legend(nodes: list[Node], width: int, colours: ColorSystem | None) -> Iterator[str]:
    present = {node.state for node in nodes}
    line, used = "", 0
    for state in STATES:
        if state not in present:
            continue
        text = f"{SIGNS[state]} {state}"
        if used and used + GAP + len(text) > width:
            yield line
            line, used = "", 0
        blanks = " " * GAP if used else ""
        line += blanks + style_of(state).render(text, color_system=colours)
        used += len(blanks) + len(text)
    if line:
        yield line


class _Place(NamedTuple):
    """What stands in a layer: a box, or an edge that passes."""

    column: int
    text: str
    state: str


class _Drawing:
    """One picture."""

    def __init__(self, nodes: list[Node], picture: Picture, width: int, colours: ColorSystem | None) -> None:
        self._nodes = nodes
        self._boxes = picture.boxes
        self._width = width
        self._colours = colours
        room = [
            (width + GAP - len(layer) * (LABEL_MIN + GAP)) // (len(PASSING) + GAP) for layer in picture.layers
        ]
        steps = in_steps(picture, room)
        self.omitted = steps.omitted > 0
        self._edges = steps.edges
        self._layers = in_good_order(steps.layers, steps.edges)
        self._columns: dict[int, int] = {}

    def lines(self) -> Iterator[str]:
        by_layer: list[list[tuple[int, int]]] = [[] for _ in self._layers]
        layer_of = {number: layer for layer, numbers in enumerate(self._layers) for number in numbers}
        above: dict[int, list[int]] = {}
        for parent, child in self._edges:
            by_layer[layer_of[child]].append((parent, child))
            above.setdefault(child, []).append(parent)
        for layer, numbers in enumerate(self._layers):
            places = self._placed(numbers, above)
            if layer:
                yield from self._between(by_layer[layer])
            yield self._line(places)

    # --- one layer

    def _placed(self, numbers: list[int], above: dict[int, list[int]]) -> list[_Place]:
        """Each near its parents, from left to right, and none beyond the edge."""
        texts = self._texts(numbers)
        lines_of: dict[int, set[tuple[int, ...]]] = {}
        """For each column above, the sets of parents whose lines begin there."""
        for number in numbers:
            for parent in above.get(number, ()):
                lines_of.setdefault(self._columns[parent], set()).add(tuple(above[number]))
        columns: list[int] = []
        free = 0
        for number, text in zip(numbers, texts, strict=True):
            parents = tuple(above.get(number, ()))
            column = max(free, self._wanted(parents))
            while lines_of.get(column, set()) - {parents}:
                # Below a line of others it would seem to belong to them.
                column += GAP
            columns.append(column)
            free = column + width_of(text) + GAP
        end = self._width + GAP
        for place in range(len(numbers) - 1, -1, -1):
            end = min(columns[place], end - width_of(texts[place]) - GAP)
            columns[place] = end
        self._columns.update(zip(numbers, columns, strict=True))
        return [
            _Place(column, text, self._boxes[number].state if number < len(self._boxes) else "")
            for number, column, text in zip(numbers, columns, texts, strict=True)
        ]

    def _wanted(self, parents: tuple[int, ...]) -> int:
        return sum(self._columns[parent] for parent in parents) // len(parents) if parents else 0

    def _texts(self, numbers: list[int]) -> list[str]:
        """The labels of a layer; the longest are cut until all fit."""
        boxes = [number < len(self._boxes) for number in numbers]
        texts = [
            self._label(self._boxes[number]) if is_box else PASSING
            for number, is_box in zip(numbers, boxes, strict=True)
        ]
        room = self._width - GAP * (len(numbers) - 1)
        most = max(map(width_of, texts))
        while most > LABEL_MIN and sum(min(width_of(text), most) for text in texts) > room:
            most -= 1
        return [self._cut(number, text, most) for number, text in zip(numbers, texts, strict=True)]

    def _cut(self, number: int, text: str, most: int) -> str:
        """A label is cut in its name: its counts stay."""
        if width_of(text) <= most:
            return text
        box = self._boxes[number]
        counts = _counts(box)
        if most - len(counts) < LABEL_MIN // 2:
            return cut(text, most)
        return cut(f"{SIGNS[box.state]} {self._name(box)}", most - len(counts)) + counts

    def _label(self, box: Box) -> str:
        return f"{SIGNS[box.state]} {self._name(box)}{_counts(box)}"

    def _name(self, box: Box) -> str:
        first, last = self._nodes[box.members[0]].name, self._nodes[box.members[-1]].name
        return first if len(box.members) == 1 else f"{first} … {last}"

    def _line(self, places: list[_Place]) -> str:
        line, used = "", 0
        for place in places:
            style = style_of(place.state) if place.state else DIM
            line += " " * (place.column - used)
            line += style.render(place.text, color_system=self._colours) if style is not PLAIN else place.text
            used = place.column + width_of(place.text)
        return line

    def _between(self, edges: list[tuple[int, int]]) -> Iterator[str]:
        found = bundles(edges, self._columns)
        lines = edge_lines(found, self._width) if found else [""]
        if lines is None:
            self.omitted = True
            lines = [cut(f"⋮ {len(edges)} edges", self._width)]
        for line in lines:
            yield DIM.render(line, color_system=self._colours) if line else ""


def _counts(box: Box) -> str:
    """Of several tasks: how many are done, and how many failed."""
    if len(box.members) == 1:
        return ""
    failed = f" {box.states['failed']:,}{SIGNS['failed']}" if box.states["failed"] else ""
    return f" {box.states['done']:,}/{len(box.members):,}{failed}"
