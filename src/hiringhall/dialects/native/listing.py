"""Lists of live and of ended jobs, by filters, page by page.

Invariant: a request looks at a bounded number of jobs in one turn. If these are not enough it goes on in later
turns, for a bounded number of them; then the answer is what was found, and where to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import HistoryQuery
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.states import DONE, STATE_NAMES
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.fields import Fields
from hiringhall.dialects.native.filtering import NUMBER_MAX, JobFilter
from hiringhall.dialects.native.searching import JobSearch

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import HistoryPage
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.session import Session

COUNT: Final = 100
"""How many jobs are listed if the request does not say."""


class Lists:
    """The lists of one connection that are under way."""

    __slots__ = ("_latest", "_services", "_session", "_under_way", "bounds")

    def __init__(self, session: Session, services: HallServices) -> None:
        self._session = session
        self._services = services
        self.bounds = services.bounds
        self._under_way: dict[int, JobSearch | HistorySearch] = {}
        self._latest = 0

    def jobs(self, number: int, body: Raw) -> None:
        # {"queue": "resize", "state": "queued", "after": 68719476740, "count": 50}
        fields = Fields(body)
        wanted = JobFilter(fields)
        after = fields.number("after", 0, NUMBER_MAX)
        count = fields.number("count", 1, wire.LIST_MAX)
        fields.end()
        self._search(number, wanted, after or 0, count or COUNT)

    def count(self, number: int, body: Raw) -> None:
        # {"queue": "resize", "state": "queued"}
        fields = Fields(body)
        wanted = JobFilter(fields)
        fields.end()
        known = wanted.known_count(self._services.scheduler)
        if known is None:
            self._search(number, wanted, 0, 0)
        elif number:
            self._session.send(wire.encode(wire.OK, number, (known, True)))

    def _search(self, number: int, wanted: JobFilter, after: int, count: int) -> None:
        self._check_room()
        search = JobSearch(self, self._services.scheduler, number, wanted, after, count)
        self._under_way[search.ticket] = search
        search.begin()

    def history(self, number: int, body: Raw) -> None:
        # {"queue": "resize", "state": "failed", "before": 68719476740, "count": 50}
        fields = Fields(body)
        queue = fields.data("queue")
        key = fields.data("key")
        state = fields.word("state", STATE_NAMES[DONE:])
        from_us = fields.number("from_us", 0, NUMBER_MAX)
        to_us = fields.number("to_us", 0, NUMBER_MAX)
        before = fields.number("before", 0, NUMBER_MAX)
        count = fields.number("count", 1, wire.LIST_MAX)
        fields.end()
        self._check_room()
        query = HistoryQuery(
            queue=queue,
            key=key,
            state=STATE_NAMES.index(state) if state is not None else None,
            ended_from_us=from_us,
            ended_to_us=to_us,
            before_id=before or None,
            limit=count or COUNT,
        )
        search = HistorySearch(self, number, query)
        self._under_way[search.ticket] = search
        self._services.search(self._session, search.ticket, query)

    def searched(self, ticket: int, page: HistoryPage | None, trouble: str) -> None:
        """A page of the history, for one of the lists."""
        search = self._under_way.get(ticket)
        if not isinstance(search, HistorySearch):
            return
        if page is None:
            del self._under_way[ticket]
            self._session.send(wire.encode(wire.ERROR, search.number, (STORE_DOWN, trouble)))
        elif search.take(page):
            self._services.search(self._session, ticket, search.query)

    def end(self) -> None:
        """The connection is closed."""
        for search in self._under_way.values():
            if isinstance(search, JobSearch):
                self._services.scheduler.timers.disarm(search)
        self._under_way.clear()

    def next_ticket(self) -> int:
        self._latest += 1
        return self._latest

    def answer(self, ticket: int, number: int, found: list[describing.Described], position: int) -> None:
        """A list is complete, or long enough."""
        if self._under_way.pop(ticket, None) is not None and number:
            self._session.send(wire.encode(wire.OK, number, (found, position or None)))

    def answer_count(self, ticket: int, number: int, matched: int, *, complete: bool) -> None:
        """The jobs were counted: all of them, or as many as one request looks at."""
        if self._under_way.pop(ticket, None) is not None and number:
            self._session.send(wire.encode(wire.OK, number, (matched, complete)))

    def _check_room(self) -> None:
        if len(self._under_way) >= self.bounds.searches_max:
            raise Refusal(HALL_FULL, f"{len(self._under_way)} lists of this connection are under way")


class HistorySearch:
    """A list of ended jobs that is under way."""

    __slots__ = ("_found", "_lists", "_steps", "number", "query", "ticket")

    def __init__(self, lists: Lists, number: int, query: HistoryQuery) -> None:
        self.ticket = lists.next_ticket()
        self.number = number
        self.query = query
        """What is left to ask for."""
        self._lists = lists
        self._found: list[describing.Described] = []
        self._steps = 0

    def take(self, page: HistoryPage) -> bool:
        """A page has come. Whether another is needed; otherwise the list is answered."""
        self._found += [describing.listed_row(row) for row in page.lines]
        self._steps += 1
        left = self.query.limit - len(page.lines)
        if left > 0 and page.before_id and self._steps < self._lists.bounds.steps_max:
            self.query = self.query._replace(before_id=page.before_id, limit=left)
            return True
        self._lists.answer(self.ticket, self.number, self._found, page.before_id)
        return False
