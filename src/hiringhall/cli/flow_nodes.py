"""The jobs of a flow, as `hall flow` reads them from a hall."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiringhall.cli.escaping import escaped
from hiringhall.dialects.native import wire
from hiringhall.flows.graph import Node

if TYPE_CHECKING:
    from hiringhall.cli.remote import Remote
    from hiringhall.sdk.connection import Connection

Ref = int | tuple[bytes, bytes]
"""A parent: by its id, or by its queue and key."""
NAME_SHOWN: Final = 200
"""Characters of a name."""
_STATES: Final = {"leased": "running", "queued": "ready"}
_MADE_KEY: Final = re.compile(rb"[0-9a-f]{12}-[0-9a-f]+")
"""Keys that the SDK made: they say nothing."""


class FlowNode(NamedTuple):
    """A job of a flow."""

    id: int
    queue: bytes
    key: bytes
    name: str
    """What people call it, printable: the name of its task, or its function."""
    state: str
    """held, delayed, ready, running, done, failed or cancelled."""
    parents: list[Ref]


def read_nodes(remote: Remote, flow: bytes) -> list[FlowNode]:
    """All jobs of a flow, oldest first. Of several with the same key it is the latest."""
    return remote.run(_read(remote.connection, flow))


async def _read(connection: Connection, flow: bytes) -> list[FlowNode]:
    nodes: list[FlowNode] = []
    seen: set[tuple[bytes, bytes]] = set()
    prefix = flow + b"/"
    asked = asyncio.ensure_future(connection.request(wire.FLOW_NODES, (flow, 0)))
    position: int | None = 0
    while position is not None:
        page, position = await asked
        if position is not None:
            asked = asyncio.ensure_future(connection.request(wire.FLOW_NODES, (flow, position)))
            # It is sent now: the hall looks for the next page while this one is read.
            await asyncio.sleep(0)
        _add(nodes, seen, page, prefix)
    nodes.reverse()
    return nodes


def _add(nodes: list[FlowNode], seen: set[tuple[bytes, bytes]], page: list[Any], prefix: bytes) -> None:
    """A page of jobs, newest first."""
    for number, queue, key, state, parents, *_ in page:
        if key:
            if (queue, key) in seen:
                continue
            seen.add((queue, key))
        name = escaped(_label(number, queue, key.removeprefix(prefix)))[:NAME_SHOWN]
        nodes.append(FlowNode(number, queue, key, name, _STATES.get(state, state), parents))


def _label(number: int, queue: bytes, key: bytes) -> bytes:
    if not key:
        return b"%d" % number
    return queue.rpartition(b".")[2] if _MADE_KEY.fullmatch(key) else key


def as_graph(nodes: list[FlowNode]) -> list[Node]:
    """The same jobs with the indexes of their parents, as far as these are there."""
    places: dict[Ref, int] = {node.id: place for place, node in enumerate(nodes)}
    places.update({(node.queue, node.key): place for place, node in enumerate(nodes) if node.key})
    find = places.get
    graph: list[Node] = []
    for place, (_, _, _, name, state, refs) in enumerate(nodes):
        found = {find(ref if ref.__class__ is int else tuple(ref)) for ref in refs}  # type: ignore[arg-type]
        graph.append(Node(name, state, [each for each in found if each is not None and each != place]))
    return graph
