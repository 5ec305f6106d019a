"""The order of the boxes in each layer, such that few edges cross.

Each box is placed near the average of its neighbours, some times down and up: good enough, and linear in edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SWEEPS: Final = 4


def in_good_order(listed: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The same layers with their boxes in another order."""
    parents: dict[int, list[int]] = {}
    children: dict[int, list[int]] = {}
    for parent, child in edges:
        parents.setdefault(child, []).append(parent)
        children.setdefault(parent, []).append(child)
    ordered = [list(layer) for layer in listed]
    places: dict[int, float] = {}
    for layer in ordered:
        _number(layer, places)
    for sweep in range(SWEEPS):
        neighbours = children if sweep % 2 else parents
        for layer in reversed(ordered) if sweep % 2 else ordered:
            wanted = {box: _average(box, neighbours, places) for box in layer}
            layer.sort(key=wanted.__getitem__)
            _number(layer, places)
    return ordered


def _number(layer: Sequence[int], places: dict[int, float]) -> None:
    """Layers have the same width, whatever the number of their boxes."""
    for place, box in enumerate(layer):
        places[box] = (place + 0.5) / len(layer)


def _average(box: int, neighbours: dict[int, list[int]], places: dict[int, float]) -> float:
    near = neighbours.get(box)
    return sum(places[each] for each in near) / len(near) if near else places[box]
