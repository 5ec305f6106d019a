"""Lists of flows, and of the jobs of one flow, page by page.

Invariant: a request looks at a bounded number of flows and jobs. A list of jobs merges what memory has with a
page of the history, so that its pages neither miss nor repeat a job, whatever ends meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import HistoryQuery
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.flows.flow_states import FLOW_STATES, flow_state
from hiringhall.core.states import HELD, STATE_NAMES
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.fields import Fields
from hiringhall.dialects.native.filtering import NUMBER_MAX
from hiringhall.dialects.native.listing import COUNT

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import EndRow, HistoryPage
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.dialects.native.listing import Lists
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.native.session import NativeSession

    Node = tuple[int, bytes, bytes, str, tuple[ParentRef, ...]]
    """A job of a flow: its id, queue, key and state, and all its parents."""

EDGES_MAX: Final = 100
"""Edges that are looked at in a list to tell whether a flow is stuck."""


class FlowLists:
    """The lists of one connection that concern flows."""

    __slots__ = ("_lists", "_services", "_session", "_under_way")

    def __init__(self, session: NativeSession, services: HallServices, lists: Lists) -> None:
        self._session = session
        self._services = services
        self._lists = lists
        self._under_way: dict[int, NodeSearch] = {}

    def flows(self, number: int, body: Raw) -> None:
        # {"text": "night", "state": "running", "before": 17, "count": 50}
        fields = Fields(body)
        text = fields.data("text")
        state = fields.word("state", FLOW_STATES)
        before = fields.number("before", 0, NUMBER_MAX)
        count = fields.number("count", 1, wire.LIST_MAX) or COUNT
        fields.end()
        wanted = text.lower() if text is not None else b""
        table = self._services.scheduler.table
        flows = table.flows
        place = min(before, flows.latest + 1) if before else flows.latest + 1
        found: list[describing.Described] = []
        work = 0
        while place > 1 and len(found) < count and work < self._lists.bounds.ids_max:
            place -= 1
            work += 1
            flow = flows.by_number.get(place)
            if flow is None or wanted not in flow.name.lower():
                continue
            if flow.counts[HELD]:
                work += min(flow.counts[HELD], EDGES_MAX)
            is_now = flow_state(table, flow, EDGES_MAX)
            if state is None or is_now == state:
                found.append(describing.flow(flow, is_now))
        self._session.answer(number, (found, place if place > 1 else None))

    def nodes(self, number: int, body: Raw) -> None:
        # ["nightly", 0]
        name, position = wire.decode(wire.FLOW_NODES_BODY, body)
        flow = find_flow(self._services, name)
        if len(self._under_way) >= self._lists.bounds.searches_max:
            raise Refusal(HALL_FULL, f"{len(self._under_way)} lists of this connection are under way")
        ticket = self._lists.next_ticket()
        self._under_way[ticket] = NodeSearch(number, flow, position or NUMBER_MAX)
        query = HistoryQuery(flow=name, before_id=position or None, limit=wire.LIST_MAX, brief=True)
        self._services.search(self._session, ticket, query)

    def searched(self, ticket: int, page: HistoryPage | None, trouble: str) -> bool:
        """A page of the history, for one of the lists; False: it is for another."""
        search = self._under_way.pop(ticket, None)
        if search is None:
            return False
        if page is None:
            self._session.refuse(search.number, STORE_DOWN, trouble)
        else:
            self._session.answer(search.number, search.merge(page))
        return True

    def end(self) -> None:
        """The connection is closed."""
        self._under_way.clear()


class NodeSearch:
    """A page of the jobs of a flow, newest first, that waits for the history."""

    __slots__ = ("_flow", "_position", "number")

    def __init__(self, number: int, flow: Flow, position: int) -> None:
        self.number = number
        self._flow = flow
        self._position = position

    def merge(self, page: HistoryPage) -> tuple[list[Node], int | None]:
        """The nodes, and the position to go on from; None: there are no more."""
        jobs = self._flow.before(self._position, wire.LIST_MAX)
        floor = jobs[-1].id if len(jobs) == wire.LIST_MAX else 0
        # What memory has is later than what the history has: a dead letter may run again.
        nodes = {row.id: _row_node(row) for row in page.lines}
        nodes.update({job.id: job_node(job) for job in jobs})
        floor = max(floor, page.before_id)
        ids = sorted([job_id for job_id in nodes if job_id >= floor], reverse=True)
        if len(ids) > wire.LIST_MAX:
            del ids[wire.LIST_MAX :]
            floor = ids[-1]
        return [nodes[job_id] for job_id in ids], floor or None


def find_flow(services: HallServices, name: bytes) -> Flow:
    flow = services.scheduler.flows.by_name.get(name)
    if flow is None:
        raise Refusal(wire.UNKNOWN_FLOW, f"no flow has the name {describing.shown(name)}")
    return flow


def job_node(job: Job) -> Node:
    return (job.id, job.queue.name, job.key, STATE_NAMES[job.state], job.all_parents)


def _row_node(row: EndRow) -> Node:
    return (row.id, row.queue, row.key, STATE_NAMES[row.state], row.all_parents)
