"""Requests about the hall as a whole: lists, doors, summaries, schedules and paused queues. Few connections
make one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.listing import Lists
from hiringhall.dialects.native.planning import Planning
from hiringhall.dialects.native.summing import Subscription

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import HistoryPage
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.session import Session


class Desk:
    """Made for a connection with its first such request."""

    __slots__ = ("_lists", "_planning", "_services", "_session", "_subscription")

    def __init__(self, session: Session, services: HallServices) -> None:
        self._session = session
        self._services = services
        self._lists = Lists(session, services)
        self._planning = Planning(session, services)
        self._subscription = Subscription(session, services.summaries)

    def serve(self, kind: str, number: int, body: Raw) -> bool:
        """Handle a request; False: it is of no kind that is known here."""
        if kind == wire.JOBS:
            self._lists.jobs(number, body)
        elif kind == wire.HISTORY:
            self._lists.history(number, body)
        elif kind == wire.DOORS:
            self._doors(number, body)
        elif kind == wire.SUBSCRIBE:
            self._subscribe(number, body)
        elif kind == wire.PAUSE:
            (queue,) = wire.decode(wire.QUEUE_BODY, body)
            self._services.scheduler.pause_queue(queue)
            self._confirm(number)
        elif kind == wire.RESUME:
            (queue,) = wire.decode(wire.QUEUE_BODY, body)
            self._services.scheduler.resume_queue(queue)
            self._confirm(number)
        elif kind == wire.SCHEDULES:
            self._planning.describe(number, body)
        elif kind == wire.SCHEDULE:
            self._planning.add(number, body)
        elif kind == wire.UNSCHEDULE:
            self._planning.remove(number, body)
        else:
            return False
        return True

    def searched(self, ticket: int, page: HistoryPage | None, trouble: str) -> None:
        """A page of the history that a list has asked for."""
        self._lists.searched(ticket, page, trouble)

    def close(self) -> None:
        """The connection is closed."""
        self._lists.end()
        self._subscription.end(self._services.scheduler)

    def _confirm(self, number: int) -> None:
        """Answer when the change is on disk."""
        if number:
            self._session.pledge(wire.encode(wire.OK, number, None))

    def _doors(self, number: int, body: Raw) -> None:
        wire.decode(wire.NIL_BODY, body)
        if number:
            doors = [door._asdict() for door in self._services.doors()]
            self._session.send(wire.encode(wire.OK, number, doors))

    def _subscribe(self, number: int, body: Raw) -> None:
        # [1000000]
        (interval_us,) = wire.decode(wire.SUBSCRIBE_BODY, body)
        self._subscription.begin(self._services.scheduler, interval_us)
        if number:
            self._session.send(wire.encode(wire.OK, number, None))
