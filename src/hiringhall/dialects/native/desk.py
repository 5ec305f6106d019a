"""Requests that few connections make: about single jobs, and about the hall as a whole. One table says which
part handles which kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.auctioning import AuctionRequests
from hiringhall.dialects.native.audits import AUDITED
from hiringhall.dialects.native.flow_lists import FlowLists
from hiringhall.dialects.native.flow_requests import FlowRequests
from hiringhall.dialects.native.graph_walks import GraphWalks
from hiringhall.dialects.native.listing import Lists
from hiringhall.dialects.native.overview import Overview
from hiringhall.dialects.native.planning import Planning
from hiringhall.dialects.native.ruling import RuleRequests
from hiringhall.dialects.native.summing import Subscription

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow, HistoryPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.native.context import NativeContext
    from hiringhall.dialects.native.inquiring import Inquiries
    from hiringhall.dialects.native.session import NativeSession

Handler = Callable[[int, Raw], None]
"""Handles a request: its number and its body. Raises BadBody or Refusal."""


class Desk:
    """Made for a connection with its first such request."""

    __slots__ = (
        "_flow_lists",
        "_flows",
        "_handlers",
        "_lists",
        "_planning",
        "_services",
        "_session",
        "_subscription",
        "_walks",
    )

    def __init__(self, session: NativeSession, inquiries: Inquiries, context: NativeContext) -> None:
        services = context.services
        self._session = session
        self._services = services
        self._lists = Lists(session, services)
        self._flows = FlowRequests(session, context, self._lists)
        self._flow_lists = FlowLists(session, services, self._lists)
        self._walks = GraphWalks(session, services)
        self._planning = Planning(session, services)
        self._subscription = Subscription(session, services.summaries)
        overview = Overview(session, services.scheduler)
        rules = RuleRequests(session, services.scheduler)
        self._handlers: dict[str, Handler] = {
            wire.CANCEL: inquiries.cancel,
            wire.RETRY: inquiries.retry,
            wire.QUEUES: overview.queues,
            wire.QUEUE: overview.queue,
            wire.WORKERS: overview.workers,
            wire.WORKER: overview.worker,
            wire.DRAIN: overview.drain,
            wire.UNDRAIN: overview.undrain,
            wire.JOBS: self._lists.jobs,
            wire.COUNT: self._lists.count,
            wire.HISTORY: self._lists.history,
            wire.DOORS: self._doors,
            wire.AUCTIONS: AuctionRequests(session, services.scheduler).auctions,
            wire.SETTINGS: self._settings,
            wire.METRICS: self._metrics,
            wire.SUBSCRIBE: self._subscribe,
            wire.PAUSE: self._pause,
            wire.RESUME: self._resume,
            wire.LIMIT: rules.limit,
            wire.UNLIMIT: rules.unlimit,
            wire.SCHEDULES: self._planning.describe,
            wire.SCHEDULE: self._planning.add,
            wire.UNSCHEDULE: self._planning.remove,
            wire.FLOWS: self._flow_lists.flows,
            wire.FLOW_NODES: self._flow_lists.nodes,
            wire.FLOW: self._flows.describe,
            wire.WAIT_FLOW: self._flows.wait,
            wire.CANCEL_FLOW: self._flows.cancel,
            wire.RETRY_FLOW: self._flows.retry,
            wire.GRAPH: self._walks.begin,
            wire.PAUSE_SCHEDULE: self._planning.pause,
            wire.RESUME_SCHEDULE: self._planning.resume,
            wire.RUN_SCHEDULE: self._planning.run,
            wire.AUDIT: self._audit,
        }

    def serve(self, kind: str, number: int, body: Raw) -> bool:
        """Handle a request; False: it is of no kind that is known here."""
        handler = self._handlers.get(kind)
        if handler is None:
            return False
        audits = self._session.audits
        if audits is not None and kind in AUDITED:
            audits.perform(kind, number, body, handler)
        else:
            self._session.require_role(kind)
            handler(number, body)
        return True

    def searched(self, ticket: int, page: HistoryPage | None, trouble: str) -> None:
        """A page of the history that one of them has asked for."""
        if not self._flows.searched(ticket, page, trouble) and not self._flow_lists.searched(
            ticket, page, trouble
        ):
            self._lists.searched(ticket, page, trouble)

    def found(self, ticket: int, rows: dict[ParentRef, EndRow], trouble: str) -> None:
        """Rows of the history that the retry of a flow has asked for."""
        self._flows.found(ticket, rows, trouble)

    def close(self) -> None:
        """The connection is closed."""
        self._lists.end()
        self._flows.end()
        self._flow_lists.end()
        self._walks.end()
        self._subscription.end(self._services.scheduler)
        self._handlers.clear()

    def _pause(self, number: int, body: Raw) -> None:
        # ["resize"]
        (queue,) = wire.decode(wire.QUEUE_BODY, body)
        self._services.scheduler.pause_queue(queue)
        self._confirm(number)

    def _resume(self, number: int, body: Raw) -> None:
        # ["resize"]
        (queue,) = wire.decode(wire.QUEUE_BODY, body)
        self._services.scheduler.resume_queue(queue)
        self._confirm(number)

    def _confirm(self, number: int) -> None:
        """Answer when the change is on disk."""
        if number:
            self._session.pledge(wire.encode(wire.OK, number, None))

    def _doors(self, number: int, body: Raw) -> None:
        wire.decode(wire.NIL_BODY, body)
        self._session.answer(number, [door._asdict() for door in self._services.doors()])

    def _metrics(self, number: int, body: Raw) -> None:
        wire.decode(wire.NIL_BODY, body)
        if number:
            self._session.answer(number, self._services.metrics.body())

    def _settings(self, number: int, body: Raw) -> None:
        wire.decode(wire.NIL_BODY, body)
        self._session.answer(number, self._services.settings())

    def _audit(self, number: int, body: Raw) -> None:
        # [100]
        (count,) = wire.decode(wire.AUDIT_BODY, body)
        audit = self._services.audit
        entries = audit.latest(min(count, wire.LIST_MAX)) if audit is not None else []
        self._session.answer(number, entries)

    def _subscribe(self, number: int, body: Raw) -> None:
        # [1000000]
        (interval_us,) = wire.decode(wire.SUBSCRIBE_BODY, body)
        self._subscription.begin(self._services.scheduler, interval_us)
        self._session.answer(number, None)
