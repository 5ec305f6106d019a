"""A hall in memory: the real scheduler, engine and memory store, without sockets, threads and an event loop.

The test moves the clock. Each turn ends with an audit of the scheduler. After a turn the store answers
everything that the engine asked of it, unless the test holds it up.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import OutputPage
from hiringhall.core.limits import Limits
from hiringhall.engine.deadlines import NEVER, RETRY_MAX_US
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Reporter, Session
    from hiringhall.storage.contract import Retention

START_US: Final = 1_767_225_600_000_000
"""Thursday, 1 January 2026, midnight UTC."""
SECOND_US: Final = 1_000_000


class Requests:
    """The engine's `Writer`: keeps what the engine asks of the store until the hall answers it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        """Every batch, also those that were answered."""
        self.times_us: list[int] = []
        """When each batch was written."""
        self.look_ups: list[tuple[Session, int]] = []
        self.searches: list[HistoryQuery] = []
        self.output: list[tuple[Session, int, int]] = []
        self.parents: list[list[ParentRef]] = []
        self.asked = False
        """The engine wants to know whether the last batch is stored."""
        self._answered = 0

    @property
    def waiting(self) -> bool:
        return self.under_way() is not None or bool(
            self.look_ups or self.searches or self.output or self.parents
        )

    def under_way(self) -> Batch | None:
        """The batch that was not answered yet."""
        waiting = self.batches[self._answered :]
        assert len(waiting) <= 1, "one transaction at a time"
        return waiting[0] if waiting else None

    def take_batch(self) -> Batch:
        batch = self.under_way()
        assert batch is not None, "no commit is under way"
        self._answered += 1
        return batch

    def take_question(self) -> None:
        assert self.asked, "the outcome of no commit is asked for"
        self.asked = False

    # --- for the engine

    def write(self, batch: Batch, now_us: int) -> None:
        self.batches.append(batch)
        self.times_us.append(now_us)

    def settle(self) -> None:
        assert not self.asked, "the store is asked once at a time"
        self.asked = True

    def look_up(self, session: Session, job_id: int) -> None:
        self.look_ups.append((session, job_id))

    def search(self, query: HistoryQuery) -> None:
        assert not self.searches, "one page at a time"
        self.searches.append(query)

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        assert not self.output, "one page at a time"
        self.output.append((session, job_id, position))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self.parents.append(refs)


class Hall:
    """One hall on one store. It can die and open again."""

    waits_out_groups = True
    """Time passes until the end of the group commit window, if a commit waits for its group."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        retention: Retention | None = None,
        reporter: Reporter | None = None,
        epoch: int = 1,
        start_us: int = START_US,
    ) -> None:
        self.limits = limits or Limits()
        self.store = MemoryStore(retention, epoch)
        self.now_us = start_us
        self.held = False
        """The store answers only when the test says so."""
        self.trouble = ""
        """Every commit and every look-up fails for this reason."""
        self._reporter = reporter
        self.open()

    def open(self) -> None:
        """Open on what was committed. Peers are gone."""
        self.scheduler = open_scheduler(self.store, self.limits, self.now_us)
        self.requests = Requests()
        self.engine = Engine(self.scheduler, self.requests, self._reporter)
        self._turning = False

    # --- turns

    def begin(self) -> None:
        """Start a turn, unless one is open."""
        if not self._turning:
            self._turning = True
            self.engine.begin(self.now_us)

    def end(self, *, coalesce: bool = False) -> None:
        """End the turn. The store answers in the next turns, unless it is held."""
        self._end_turn(coalesce=coalesce)
        while self._step():
            pass

    @contextmanager
    def turn(self, after_us: int = 1, *, coalesce: bool = False) -> Iterator[None]:
        """One turn of its own, so much later."""
        self.now_us += after_us
        self.begin()
        yield
        self.end(coalesce=coalesce)

    def wait(self, duration_us: int) -> None:
        """Time passes; each deadline has a turn of its own, as on the event loop."""
        if self._turning:
            self.end()
        until_us = self.now_us + duration_us
        while 0 < (next_us := self.engine.next_deadline()) <= until_us:
            self.now_us = max(self.now_us, next_us)
            self.end()
        self.jump(max(until_us - self.now_us, 0))

    def settle(self) -> None:
        """The store answers everything, also if it is held, and time passes until nothing is left to commit."""
        held, self.held = self.held, False
        self.end()
        while self.engine.busy and not self.scheduler.store_trouble:
            self.now_us = max(self.now_us, self.engine.next_deadline())
            self.end()
        self.held = held

    def jump(self, duration_us: int) -> None:
        """Time passes without a turn; one turn ends it."""
        if self._turning:
            self.end()
        self.now_us += duration_us
        self.end()

    def pause(self, duration_us: int) -> None:
        """The process is stopped for so long; one turn ends that."""
        if self._turning:
            self.end()
        self.now_us += duration_us
        self._turning = True
        self.engine.begin(self.now_us, duration_us)
        self.end()

    def _end_turn(self, *, coalesce: bool = False) -> None:
        self.begin()
        self._turning = False
        self.engine.end(coalesce=coalesce)
        self.scheduler.audit()

    def _step(self) -> bool:
        """One more turn, if the store has something to answer or a commit waits for its group."""
        if self.requests.waiting and not self.held:
            self.begin()
            self.answer()
        elif self.engine.deadlines.group_us != NEVER and self.waits_out_groups:
            self.now_us = self.engine.deadlines.group_us
        else:
            return False
        self._end_turn()
        return True

    # --- the store

    def break_store(self, trouble: str) -> None:
        """From now on the store fails, and the engine finds that out."""
        self.trouble = trouble
        self.begin()
        self.engine.probe()
        self.end()
        assert self.scheduler.store_trouble == trouble

    def recover(self) -> None:
        """The store works again, and the engine finds that out."""
        self.held = False
        self.trouble = ""
        while self.scheduler.store_trouble:
            self.wait(RETRY_MAX_US)

    def turn_that_commits(self) -> None:
        with self.turn():
            self.commit()

    def turn_that_fails(self, trouble: str = "disk full") -> None:
        with self.turn():
            self.fail(trouble)

    # --- the store's answers, inside a turn

    def answer(self) -> None:
        """The store answers one request."""
        if self.requests.under_way() is None:
            requests = self.requests
            if requests.look_ups:
                self.answer_look_up(self.trouble)
            elif requests.output:
                self.answer_output(self.trouble)
            else:
                (self.answer_search if requests.searches else self.answer_parents)(self.trouble)
        elif self.trouble:
            self.fail(self.trouble)
        else:
            self.commit()

    def commit(self) -> None:
        """The store takes the batch under way."""
        batch = self.requests.take_batch()
        if not batch.empty:
            self.store.commit(batch, self.now_us)
        self.engine.committed()

    def fail(self, trouble: str = "disk full") -> None:
        """The store cannot take the batch under way."""
        self.requests.take_batch()
        self.engine.failed(trouble)

    def doubt(self, trouble: str = "connection lost", *, kept: bool) -> None:
        """The store cannot tell whether it has the batch under way."""
        batch = self.requests.take_batch()
        if kept:
            self.store.commit(batch, self.now_us)
        self.engine.unknown(trouble)

    def settle_commit(self, *, kept: bool) -> None:
        """The store has found out whether it has the batch."""
        self.requests.take_question()
        if kept:
            self.engine.committed()
        else:
            self.engine.failed(self.scheduler.store_trouble)

    def doubt_again(self, trouble: str = "no connection") -> None:
        """The store was asked, and still cannot tell."""
        self.requests.take_question()
        self.engine.unknown(trouble)

    def answer_look_up(self, trouble: str = "") -> None:
        session, job_id = self.requests.look_ups.pop(0)
        found = [] if trouble else self.store.history(HistoryQuery(id=job_id, limit=1))
        self.engine.looked_up(session, job_id, found[0] if found else None, trouble)

    def answer_search(self, trouble: str = "") -> None:
        query = self.requests.searches.pop()
        self.engine.searched(None if trouble else self.store.page(query), trouble)

    def answer_output(self, trouble: str = "") -> None:
        session, job_id, position = self.requests.output.pop(0)
        page = OutputPage([], position) if trouble else self.store.output(job_id, position)
        self.engine.output_looked_up(session, job_id, position, page, trouble)

    def answer_parents(self, trouble: str = "") -> None:
        refs = self.requests.parents.pop(0)
        self.engine.parents_looked_up([] if trouble else self.store.latest_ends(refs), trouble)
