"""Lists of live and of ended jobs, by filters, page by page.

Invariant: a request looks at a bounded number of jobs in one turn. If these are not enough it goes on in later
turns, for a bounded number of them; then the answer is what was found, and where to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import HistoryQuery
from hiringhall.core.errors import HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.states import DONE, LEASED, QUEUED, STATE_NAMES
from hiringhall.core.timers import Timed
from hiringhall.dialects.native import describing, wire
from hiringhall.dialects.native.fields import Fields

if TYPE_CHECKING:
    from msgspec import Raw

    from hiringhall.core.changes import HistoryPage
    from hiringhall.core.jobs import Job
    from hiringhall.core.queues import Queue
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.dialects.native.services import HallServices
    from hiringhall.dialects.session import Session

STEP_US: Final = 1000
"""The pause between two steps of a list of live jobs: others have their turns in it."""
COUNT: Final = 100
"""How many jobs are listed if the request does not say."""
ID_MAX: Final = (1 << 63) - 1


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
        queue = fields.data("queue")
        state = fields.word("state", STATE_NAMES[:DONE])
        after = fields.number("after", 0, ID_MAX)
        count = fields.number("count", 1, wire.LIST_MAX)
        fields.end()
        self._check_room()
        search = JobSearch(
            self,
            self._services.scheduler,
            number,
            queue,
            STATE_NAMES.index(state) if state is not None else -1,
            after or 0,
            count or COUNT,
        )
        self._under_way[search.ticket] = search
        search.begin()

    def history(self, number: int, body: Raw) -> None:
        # {"queue": "resize", "state": "failed", "before": 68719476740, "count": 50}
        fields = Fields(body)
        queue = fields.data("queue")
        key = fields.data("key")
        state = fields.word("state", STATE_NAMES[DONE:])
        from_us = fields.number("from_us", 0, ID_MAX)
        to_us = fields.number("to_us", 0, ID_MAX)
        before = fields.number("before", 0, ID_MAX)
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

    def _check_room(self) -> None:
        if len(self._under_way) >= self.bounds.searches_max:
            raise Refusal(HALL_FULL, f"{len(self._under_way)} lists of this connection are under way")


class JobSearch(Timed):
    """A list of live jobs that is under way. Its timer is its next step."""

    __slots__ = (
        "_after",
        "_count",
        "_found",
        "_lists",
        "_queue",
        "_scheduler",
        "_state",
        "_steps",
        "number",
        "ticket",
    )

    def __init__(
        self,
        lists: Lists,
        scheduler: Scheduler,
        number: int,
        queue: bytes | None,
        state: int,
        after: int,
        count: int,
    ) -> None:
        super().__init__()
        self.ticket = lists.next_ticket()
        self.number = number
        self._lists = lists
        self._scheduler = scheduler
        self._queue = queue
        self._state = state
        """-1: all states."""
        self._after = after
        self._count = count
        self._found: list[describing.Described] = []
        self._steps = 0

    def begin(self) -> None:
        if self._queue is None:
            self._step()
            return
        queue = self._scheduler.queues.get(self._queue)
        if queue is None or not queue.live:
            self._finish(0)
            return
        jobs = indexed_jobs(self._scheduler, queue, self._state, self._lists.bounds.ids_max)
        if jobs is None:
            self._step()
        else:
            jobs.sort(key=_id)
            self._finish(self._take(jobs))

    def ring(self, scheduler: Scheduler) -> None:  # noqa: ARG002 (it knows the scheduler)
        self._step()

    def _step(self) -> None:
        """Look at some more jobs."""
        scheduler = self._scheduler
        jobs, position = scheduler.table.blocks.page(scheduler.jobs, self._after, self._lists.bounds.ids_max)
        self._steps += 1
        full = self._take(jobs)
        if full or not position or self._steps >= self._lists.bounds.steps_max:
            self._finish(full or position)
        else:
            self._after = position
            scheduler.timers.arm(self, scheduler.now_us + STEP_US)

    def _take(self, jobs: list[Job]) -> int:
        """Keep the jobs that match. If there are enough, the id of the last one; otherwise 0."""
        for job in jobs:
            if (
                job.id > self._after
                and (self._queue is None or job.queue.name == self._queue)
                and (self._state < 0 or job.state == self._state)
            ):
                self._found.append(describing.listed_job(job))
                if len(self._found) >= self._count:
                    return job.id
        return 0

    def _finish(self, position: int) -> None:
        self._lists.answer(self.ticket, self.number, self._found, position)


def _id(job: Job) -> int:
    return job.id


def indexed_jobs(scheduler: Scheduler, queue: Queue, state: int, most: int) -> list[Job] | None:
    """The jobs of a queue, if its lanes and the workers have all that are wanted; None: look at all jobs."""
    if state == QUEUED:
        return _ready_jobs(queue, most)
    if state == LEASED:
        return _leased_jobs(scheduler, queue, most)
    if state >= 0 or queue.ready + queue.leased < queue.live:
        return None  # others wait for a time or for parents: no index has those of one queue
    ready = _ready_jobs(queue, most)
    leased = _leased_jobs(scheduler, queue, most)
    return ready + leased if ready is not None and leased is not None else None


def _ready_jobs(queue: Queue, most: int) -> list[Job] | None:
    if queue.ready > most:
        return None
    jobs: list[Job] = []
    if queue.ready:
        for lanes in queue.all_lanes().values():
            for lane in lanes:
                jobs += lane.waiting()
    return jobs


def _leased_jobs(scheduler: Scheduler, queue: Queue, most: int) -> list[Job] | None:
    jobs: list[Job] = []
    looked = 0
    for worker in scheduler.workers:
        if len(jobs) == queue.leased:
            break
        looked += 1 + len(worker.leases)
        if looked > most:
            return None
        jobs += [lease.job for lease in worker.leases.values() if lease.job.queue is queue]
    return jobs if len(jobs) == queue.leased else None  # others were promised to a worker


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
