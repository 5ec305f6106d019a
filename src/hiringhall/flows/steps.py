"""Edges in steps from one layer to the next: a long edge passes the layers between in places of their own.

Invariant: all edges of one parent that pass a layer share one place in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hiringhall.flows.folding import Picture


class Steps(NamedTuple):
    """A picture whose edges lead to the next layer. Numbers from the number of boxes on are places of edges."""

    layers: list[list[int]]
    edges: list[tuple[int, int]]
    omitted: int
    """Edges for which there was no room."""


def in_steps(picture: Picture, room: list[int] | None = None) -> Steps:
    """The edges in steps. `room` is how many places each layer has for edges that pass; None: as many as are
    needed. Short edges come first.
    """
    boxes = picture.boxes
    left = list(room) if room is not None else [len(picture.edges)] * len(picture.layers)
    layers = [list(layer) for layer in picture.layers]
    passing: dict[tuple[int, int], int] = {}
    edges: list[tuple[int, int]] = []
    omitted = 0
    for parent, child in sorted(picture.edges, key=lambda edge: boxes[edge[1]].layer - boxes[edge[0]].layer):
        passed = range(boxes[parent].layer + 1, boxes[child].layer)
        if any(left[layer] < 1 for layer in passed if (parent, layer) not in passing):
            omitted += 1
            continue
        before = parent
        for layer in passed:
            place = passing.get((parent, layer))
            if place is None:
                place = passing[parent, layer] = len(boxes) + len(passing)
                left[layer] -= 1
                layers[layer].append(place)
                edges.append((before, place))
            before = place
        edges.append((before, child))
    return Steps(layers, edges, omitted)
