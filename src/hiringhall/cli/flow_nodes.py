"""The jobs of a flow, as `hall flow` reads them from a hall."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.cli.escaping import escaped
from hiringhall.dialects.native import wire
from hiringhall.flows.graph import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.cli.remote import Remote

Ref = int | tuple[bytes, bytes]
"""A parent: by its id, or by its queue and key."""
_STATES: Final = {"leased": "running", "queued": "ready"}
NAME_SHOWN: Final = 200
"""Characters of a name."""
_MADE_KEY: Final = re.compile(rb"[0-9a-f]{12}-[0-9a-f]+")
"""Keys that the SDK made: they say nothing."""


class FlowNode(NamedTuple):
    """A job of a flow."""

    id: int
    queue: bytes
    key: bytes
    state: str
    """held, delayed, ready, running, done, failed or cancelled."""
    parents: list[Ref]


def read_nodes(remote: Remote, flow: bytes) -> list[FlowNode]:
    """All jobs of a flow, oldest first. Of several with the same key it is the latest."""
    nodes = list(_latest(remote, flow))
    nodes.reverse()
    return nodes


def _latest(remote: Remote, flow: bytes) -> Iterator[FlowNode]:
    seen: set[tuple[bytes, bytes]] = set()
    position = 0
    while position is not None:
        page, position = remote.ask(wire.FLOW_NODES, (flow, position))
        for number, queue, key, state, parents, *_ in page:
            if key:
                if (queue, key) in seen:
                    continue
                seen.add((queue, key))
            yield FlowNode(number, queue, key, _STATES.get(state, state), parents)


def as_graph(nodes: list[FlowNode], flow: bytes) -> list[Node]:
    """The same jobs with printable names, and with the indexes of their parents, as far as these are there."""
    places: dict[Ref, int] = {node.id: place for place, node in enumerate(nodes)}
    places.update({(node.queue, node.key): place for place, node in enumerate(nodes) if node.key})
    find = places.get
    prefix = flow + b"/"
    graph: list[Node] = []
    for place, (number, queue, key, state, refs) in enumerate(nodes):
        found = {find(ref if ref.__class__ is int else tuple(ref)) for ref in refs}  # type: ignore[arg-type]
        parents = [parent for parent in found if parent is not None and parent != place]
        name = escaped(_label(number, queue, key.removeprefix(prefix)))
        graph.append(Node(name[:NAME_SHOWN], state, parents))
    return graph


def _label(number: int, queue: bytes, key: bytes) -> bytes:
    """What people call a job: the name of its task, or its function."""
    if not key:
        return b"%d" % number
    return queue.rpartition(b".")[2] if _MADE_KEY.fullmatch(key) else key
