"""A graph of tasks, and the layer of each.

Invariant: a task is in a layer below all that it waits for. The work is linear in tasks and edges.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

STATES: Final = ("failed", "running", "cancelled", "ready", "delayed", "held", "done")
"""The states of a task. The first that occurs among several tasks is what people want to know of them."""


class Node(NamedTuple):
    """A task."""

    name: str
    state: str
    parents: list[int]
    """Indexes of other nodes."""


def layers(nodes: list[Node]) -> list[int]:
    """The layer of each node: 0 for those without parents, otherwise one below its lowest parent."""
    children: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for place, node in enumerate(nodes):
        missing[place] = len(node.parents)
        for parent in node.parents:
            children[parent].append(place)
    found = [0] * len(nodes)
    ready = deque(place for place, count in enumerate(missing) if not count)
    seen = 0
    while ready:
        place = ready.popleft()
        seen += 1
        below = found[place] + 1
        for child in children[place]:
            found[child] = max(found[child], below)
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if seen < len(nodes):
        # A name was used again by a later job, and the edges no longer fit together: the rest goes to the end.
        last = max(found, default=0) + 1
        found = [last if count else layer for layer, count in zip(found, missing, strict=True)]
    return found
