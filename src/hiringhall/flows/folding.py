"""Makes a graph small enough to be looked at: tasks of a wide layer that are alike become one box.

Invariant: each task is in exactly one box. A box is in one layer, and an edge leads to a lower layer. A graph
that fits is not folded at all.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.flows.graph import STATES, layers

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from hiringhall.flows.graph import Node

REDUCED_MAX: Final = 1000
"""In a larger picture, edges that others imply are not looked for."""
_DIGITS: Final = re.compile("[0-9]+")


class Box(NamedTuple):
    """One task, or several of them."""

    layer: int
    members: list[int]
    """The indexes of its tasks."""
    states: Counter[str]

    @property
    def state(self) -> str:
        """The state of its tasks that people want to know of."""
        return next(state for state in STATES if self.states[state])


class Picture(NamedTuple):
    """What is drawn."""

    boxes: list[Box]
    layers: list[list[int]]
    """The indexes of the boxes, by layer."""
    edges: list[tuple[int, int]]
    """From parent to child, without those that others imply."""
    folded: bool


def fold(nodes: list[Node], layer_max: int, layers_max: int) -> Picture:
    """A picture with at most so many boxes in a layer, and so many layers."""
    found = layers(nodes)
    depth = max(found, default=-1) + 1
    step = -(-depth // layers_max) if depth > layers_max else 1
    members: list[list[int]] = [[] for _ in range(-(-depth // step))]
    for place, layer in enumerate(found):
        members[layer // step].append(place)
    boxes: list[Box] = []
    listed: list[list[int]] = []
    box_of = [-1] * len(nodes)
    for layer, places in enumerate(members):
        groups = [places] if step > 1 else _groups(nodes, places, box_of, layer_max)
        listed.append(list(range(len(boxes), len(boxes) + len(groups))))
        for group in groups:
            for place in group:
                box_of[place] = len(boxes)
            boxes.append(Box(layer, group, Counter(nodes[place].state for place in group)))
    edges = {
        (box_of[parent], box_of[place])
        for place, node in enumerate(nodes)
        for parent in node.parents
        if boxes[box_of[parent]].layer < boxes[box_of[place]].layer
    }
    reduced = _reduced(len(boxes), edges) if len(boxes) <= REDUCED_MAX else sorted(edges)
    return Picture(boxes, listed, reduced, len(boxes) < len(nodes))


def _groups(nodes: list[Node], places: list[int], box_of: list[int], layer_max: int) -> list[list[int]]:
    """The tasks of a layer in groups: each alone if there is room, else those that are alike together."""
    if len(places) <= layer_max:
        return [[place] for place in places]
    above = {place: frozenset(box_of[parent] for parent in nodes[place].parents) for place in places}
    alike = _grouped(places, [(above[place], _DIGITS.sub("0", nodes[place].name)) for place in places])
    if len(alike) <= layer_max:
        return alike
    alike = _grouped(places, [above[place] for place in places])
    if len(alike) <= layer_max:
        return alike
    alike.sort(key=len, reverse=True)
    kept, rest = alike[: layer_max - 1], alike[layer_max - 1 :]
    return [*kept, sorted(place for group in rest for place in group)]


def _grouped(places: list[int], keys: Iterable[Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for place, key in zip(places, keys, strict=True):
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _reduced(count: int, edges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without the edges from a box to one that it reaches by others too. Boxes are numbered from the top."""
    children: list[list[int]] = [[] for _ in range(count)]
    for parent, child in edges:
        children[parent].append(child)
    reached: list[int] = [0] * count
    """For each box, those below it, as bits."""
    kept: list[tuple[int, int]] = []
    for box in range(count - 1, -1, -1):
        seen = 0
        for child in sorted(children[box]):
            if not seen >> child & 1:
                kept.append((box, child))
            seen |= reached[child] | 1 << child
        reached[box] = seen
    return sorted(kept)
