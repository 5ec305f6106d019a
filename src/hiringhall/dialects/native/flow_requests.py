"""Requests about one flow: what it is doing, wait for its end, cancel it, retry what failed of it.

Invariant: each request is answered once. The answer to a change comes when the change is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import HistoryQuery
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.flows.flow_states import blockers, flow_state
from hiringhall.core.flows.flow_verbs import STEP_US
from hiringhall.core.flows.flows import FlowWatcher
from hiringhall.core.states import FAILED
from hiringhall.core.timers import Timed
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.flow_lists import find_flow

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import EndRow, HistoryPage
    from hiringhall.core.flows.flow_verbs import FlowRetry
    from hiringhall.core.flows.flows import Flow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.native.listing import Lists
    from hiringhall.dialects.native.session import NativeSession

WAITS_MAX: Final = 1000
"""Flows whose end one connection may wait for at once."""


class FlowRequests:
    """The requests of one connection."""

    __slots__ = ("_context", "_lists", "_retries", "_services", "_session", "_waits")

    def __init__(self, session: NativeSession, context: NativeContext, lists: Lists) -> None:
        self._session = session
        self._context = context
        self._services = context.services
        self._lists = lists
        self._retries: dict[int, FlowRetrying] = {}
        self._waits: dict[FlowWait, None] = {}

    def describe(self, number: int, body: Raw) -> None:
        # ["nightly"]
        flow = find_flow(self._services, wire.decode(wire.FLOW_BODY, body)[0])
        table = self._services.scheduler.table
        described = describing.flow(flow, flow_state(table, flow))
        described["blocking"] = [
            (found.id, found.queue, found.key, found.state, found.waiting) for found in blockers(table, flow)
        ]
        self._session.answer(number, described)

    def wait(self, number: int, body: Raw) -> None:
        # ["nightly", 60000000]
        name, timeout_us = wire.decode(wire.WAIT_FLOW_BODY, body)
        flow = find_flow(self._services, name)
        if not flow.live or timeout_us == 0:
            self.ended(None, number, flow)
            return
        if len(self._waits) >= WAITS_MAX:
            raise Refusal(HALL_FULL, f"{WAITS_MAX} requests of this connection wait for the end of a flow")
        wait = FlowWait(self, number, flow)
        self._waits[wait] = None
        flow.watch(wait)
        if timeout_us is not None:
            scheduler = self._services.scheduler
            scheduler.timers.arm(wait, scheduler.now_us + timeout_us)

    def ended(self, wait: FlowWait | None, number: int, flow: Flow) -> None:
        """A flow has ended, or the time is over. What is told of a flow is on disk."""
        if wait is not None:
            self._waits.pop(wait, None)
            flow.unwatch(wait)
            self._services.scheduler.timers.disarm(wait)
        if number and self._session.link is not None:
            state = flow_state(self._services.scheduler.table, flow)
            self._session.pledge(wire.encode(wire.OK, number, describing.flow(flow, state)))

    def cancel(self, number: int, body: Raw) -> None:
        # ["nightly", "no longer wanted"]
        name, reason = wire.decode(wire.CANCEL_FLOW_BODY, body)
        flow = find_flow(self._services, name)
        self._services.scheduler.flow_verbs.cancel(flow, reason, CancelAnswer(self._session, number).done)

    def retry(self, number: int, body: Raw) -> None:
        # ["nightly"]
        (name,) = wire.decode(wire.FLOW_BODY, body)
        flow = find_flow(self._services, name)
        if len(self._retries) >= self._lists.bounds.searches_max:
            raise Refusal(HALL_FULL, f"{len(self._retries)} flows are being retried by this connection")
        scheduler = self._services.scheduler
        ticket = self._lists.next_ticket()
        retrying = FlowRetrying(self, ticket, number, name, scheduler.flow_verbs.retry(flow))
        self._retries[ticket] = retrying
        self.search(ticket, retrying.query)

    def searched(self, ticket: int, page: HistoryPage | None, trouble: str) -> bool:
        """A page of failed jobs for one of the retries; False: it is for another request."""
        retrying = self._retries.get(ticket)
        if retrying is None:
            return False
        if page is None:
            self._fail(ticket, trouble)
        else:
            retrying.take(page)
        return True

    def found(self, ticket: int, rows: dict[ParentRef, EndRow], trouble: str) -> None:
        """The rows that one of the retries has asked for."""
        retrying = self._retries.get(ticket)
        if retrying is None:
            return
        if trouble:
            self._fail(ticket, trouble)
        else:
            retrying.found(rows)

    def search(self, ticket: int, query: HistoryQuery) -> None:
        self._services.search(self._session, ticket, query)

    def look_up(self, ticket: int, refs: list[ParentRef]) -> None:
        """Ask the history for these jobs. A ticket below 0 tells the session that it is not for a submit."""
        self._context.look_up_keys(self._session, -ticket, refs)

    def go_on(self, retrying: FlowRetrying) -> None:
        """The next step of a retry is due soon."""
        scheduler = self._services.scheduler
        scheduler.timers.arm(retrying, scheduler.now_us + STEP_US)

    def retried(self, ticket: int, retried: int, refused: int) -> None:
        retrying = self._retries.pop(ticket)
        if retrying.number:
            self._session.pledge(wire.encode(wire.OK, retrying.number, (retried, refused)))

    def end(self) -> None:
        """The connection is closed. What is left of a retry is not done; a cancel goes on."""
        timers = self._services.scheduler.timers
        for retrying in self._retries.values():
            timers.disarm(retrying)
        self._retries.clear()
        for wait in self._waits:
            timers.disarm(wait)
            wait.flow.unwatch(wait)
        self._waits.clear()

    def _fail(self, ticket: int, trouble: str) -> None:
        self._session.refuse(self._retries.pop(ticket).number, STORE_DOWN, trouble)


class FlowWait(FlowWatcher):
    """A request that waits for the end of a flow. Its timer is the time that it waits at most."""

    __slots__ = ("_number", "_requests", "flow")

    def __init__(self, requests: FlowRequests, number: int, flow: Flow) -> None:
        super().__init__()
        self._requests = requests
        self._number = number
        self.flow = flow

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (the requests know it)
        self._requests.ended(self, self._number, self.flow)

    def flow_ended(self, flow: Flow) -> None:
        self._requests.ended(self, self._number, flow)


class CancelAnswer:
    """The answer to `cancel_flow`."""

    __slots__ = ("_number", "_session")

    def __init__(self, session: NativeSession, number: int) -> None:
        self._session = session
        self._number = number

    def done(self, count: int) -> None:
        if self._number and self._session.link is not None:
            self._session.pledge(wire.encode(wire.OK, self._number, count))


class FlowRetrying(Timed):
    """A retry that is under way: first it finds out what failed, then it retries one batch after the other. Its
    timer is its next step.
    """

    __slots__ = ("_asked_parents", "_ids", "_known", "_requests", "_ticket", "_verb", "number", "query")

    def __init__(self, requests: FlowRequests, ticket: int, number: int, flow: bytes, verb: FlowRetry) -> None:
        super().__init__()
        self._requests = requests
        self._ticket = ticket
        self.number = number
        self.query = HistoryQuery(flow=flow, state=FAILED, limit=wire.LIST_MAX, brief=True)
        """What is left to ask for."""
        self._verb = verb
        self._ids: list[int] = []
        """The batch that waits for the history."""
        self._known: dict[ParentRef, EndRow] = {}
        """What the history has answered for it."""
        self._asked_parents = False

    def take(self, page: HistoryPage) -> None:
        """Some of the failed jobs of the flow."""
        for row in page.lines:
            self._verb.want(row)
        if page.before_id:
            self.query = self.query._replace(before_id=page.before_id)
            self._requests.search(self._ticket, self.query)
        else:
            self._verb.begin()
            self._step()

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (the requests know it)
        self._step()

    def found(self, rows: dict[ParentRef, EndRow]) -> None:
        """What the history has of the batch, and then of its parents."""
        self._known.update(rows)
        unknown = self._verb.unknown(self._ids, self._known) if not self._asked_parents else []
        if unknown:
            self._asked_parents = True
            self._requests.look_up(self._ticket, unknown)
            return
        self._verb.retry(self._ids, self._known)
        self._requests.go_on(self)

    def _step(self) -> None:
        self._ids = self._verb.batch()
        self._known = {}
        self._asked_parents = False
        if not self._ids:
            self._requests.retried(self._ticket, self._verb.retried, self._verb.refused)
            return
        missing = self._verb.missing(self._ids)
        if missing:
            self._requests.look_up(self._ticket, missing)
        else:
            self.found({})
