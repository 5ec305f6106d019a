"""Flows: the list, one of them, its graph; cancel and retry. And the graph of live jobs around one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from hiringhall.web import describing, filters, hall_shapes
from hiringhall.web.cursors import read_position
from hiringhall.web.values import job_id, shown

if TYPE_CHECKING:
    from hiringhall.web.calls import Call
    from hiringhall.web.questions import FlowsQuestion, GraphQuestion

FLOWS: Final = "flows"
FLOW: Final = "flow"
NODES: Final = "flow_nodes"
GRAPH: Final = "graph"
CANCEL: Final = "cancel_flow"
RETRY: Final = "retry_flow"
NODES_MAX: Final = 20_000
_STATES: Final = {"leased": "running"}

Ref = int | tuple[bytes, bytes]
"""A parent: by its id, or by its queue and key."""


async def flows(call: Call) -> hall_shapes.FlowList:
    query: FlowsQuestion = call.query
    body: dict[str, Any] = {"count": query.limit}
    if query.text is not UNSET:
        body["text"] = filters.data(query.text)
    if query.state is not UNSET:
        body["state"] = query.state
    if query.cursor:
        body["before"] = read_position(query.cursor)
    found, following = await call.hall.shared(FLOWS, body)
    items = [describing.flow(described) for described in found]
    return hall_shapes.FlowList(items=items, next=None if following is None else str(following))


async def flow(call: Call) -> hall_shapes.Flow:
    return describing.flow(await call.hall.shared(FLOW, (call.path["name"],)))


async def cancel(call: Call) -> hall_shapes.Flow:
    await call.hall.change(CANCEL, (call.path["name"], b""))
    return await flow(call)


async def retry(call: Call) -> hall_shapes.Flow:
    await call.hall.change(RETRY, (call.path["name"],))
    return await flow(call)


async def graph(call: Call) -> hall_shapes.Graph:
    """All jobs of a flow."""
    nodes: list[Any] = []
    position: int | None = 0
    while position is not None and len(nodes) < NODES_MAX:
        page, position = await call.hall.shared(NODES, (call.path["name"], position))
        nodes += page
    return _drawn(nodes[:NODES_MAX], complete=position is None and len(nodes) <= NODES_MAX)


async def around(call: Call) -> hall_shapes.Graph:
    """The live jobs that are connected with one."""
    query: GraphQuestion = call.query
    nodes, complete = await call.hall.shared(GRAPH, (job_id("job", query.job),))
    return _drawn(nodes, complete=complete)


def _drawn(nodes: list[Any], *, complete: bool) -> hall_shapes.Graph:
    """Nodes are [id, queue, key, state, parents]. An edge is there if both of its ends are."""
    places: dict[Ref, int] = {}
    for place, (number, queue, key, *_) in enumerate(nodes):
        places[number] = place
        if key:
            places.setdefault((queue, key), place)
    edges: list[tuple[int, int]] = []
    for place, (_, _, _, _, parents, *_) in enumerate(nodes):
        for parent in parents:
            found = places.get(parent if isinstance(parent, int) else (parent[0], parent[1]))
            if found is not None:
                edges.append((found, place))
    drawn = [
        hall_shapes.Node(
            id=str(number),
            name=shown(key) or str(number),
            queue=shown(queue),
            state=_STATES.get(state, state),
            situation=_STATES.get(state, "ready" if state == "queued" else state),
        )
        for number, queue, key, state, *_ in nodes
    ]
    return hall_shapes.Graph(nodes=drawn, edges=edges, complete=complete)
