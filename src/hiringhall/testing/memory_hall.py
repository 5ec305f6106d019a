"""The hall of a test: the real scheduler, engine, memory store and native sessions. The test moves the clock.

Invariant: when a call returns, everything that follows from it has happened: the store has answered, and each
peer has been given its output. So nothing ever has to be waited for. All calls may come from any thread.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from hiringhall.core.limits import Limits
from hiringhall.dialects.native.context import NativeContext, NativeOptions
from hiringhall.dialects.native.services import HallServices
from hiringhall.dialects.native.session import NativeSession
from hiringhall.dialects.session import Caller
from hiringhall.engine.deadlines import NEVER
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery
from hiringhall.storage.memory import MemoryStore
from hiringhall.testing.planning import Planning

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Link, Session
    from hiringhall.testing.linking import MemoryLink

HISTORY_MAX: Final = 1_000_000
"""How many ended jobs a test may look at."""


class _Answers:
    """The engine's `Writer`: what it asks of the store, answered in the order of the questions."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.engine: Engine
        self.due: deque[Callable[[], None]] = deque()
        """Each gives one answer, inside a turn."""

    def write(self, batch: Batch, now_us: int) -> None:
        def answer() -> None:
            if not batch.empty:
                self._store.commit(batch, now_us)
            self.engine.committed()

        self.due.append(answer)

    def settle(self) -> None:
        """The outcome of a commit to memory is always known: the store says so."""
        self._store.settle()

    def look_up(self, session: Session, job_id: int) -> None:
        def answer() -> None:
            found = self._store.history(HistoryQuery(id=job_id, limit=1))
            self.engine.looked_up(session, job_id, found[0] if found else None, "")

        self.due.append(answer)

    def search(self, query: HistoryQuery) -> None:
        self.due.append(lambda: self.engine.searched(self._store.page(query), ""))

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        def answer() -> None:
            page = self._store.output(job_id, position)
            self.engine.output_looked_up(session, job_id, position, page, "")

        self.due.append(answer)

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self.due.append(lambda: self.engine.parents_looked_up(self._store.latest_ends(refs), ""))


class MemoryHall:
    """One hall with one native door."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.changed = threading.Condition(threading.RLock())
        """Holds the lock of the hall; notified after each turn."""
        self.links: weakref.WeakSet[MemoryLink] = weakref.WeakSet()
        """To the event loops of the SDK."""
        self.parked: set[int] = set()
        """Threads that can do nothing but wait until another thread wakes them."""
        self.happened = 0
        """Counts what may be news for somebody who waits: requests, ends of jobs, moves of the clock."""
        self._store = MemoryStore(epoch=1)
        self.scheduler = open_scheduler(self._store, Limits(), now_us)
        self._answers = _Answers(self._store)
        self._engine = self._answers.engine = Engine(self.scheduler, self._answers)
        self._planning = Planning(self, self._engine)
        self._context = NativeContext(
            self.scheduler,
            NativeOptions("stage", log_all=True),
            self._engine.look_up,
            self._engine.look_up_keys,
            self._engine.look_up_output,
            HallServices(self.scheduler, self._engine.search, list, self._planning.editor),
        )
        self._port = 0

    # --- peers

    def join(self, link: Link) -> Session:
        """A peer connects."""
        with self.changed:
            self._port += 1
            session = NativeSession(Caller("stage", -1, (), self._port), self._context)
            session.link = link
            self._engine.join(session)
            return session

    def receive(self, session: Session, data: bytes) -> None:
        """A peer sends something."""
        with self.changed:
            if session.link is not None:
                self._engine.begin(self.now_us)
                session.receive(data)
                self._end()

    def leave(self, session: Session) -> None:
        """A peer disconnects."""
        with self.changed:
            if session.link is not None:
                self._engine.begin(self.now_us)
                self._engine.leave(session)
                self._end()

    # --- time

    def next_us(self) -> int:
        """When something is due; 0: nothing will be."""
        with self.changed:
            due = (self._engine.next_deadline(), self._planning.next_us())
            return min((time_us for time_us in due if time_us), default=0)

    def move_to(self, time_us: int) -> None:
        """The clock goes on to this time, and what is due happens."""
        with self.changed:
            self.happened += 1
            self.now_us = max(self.now_us, time_us)
            self._engine.begin(self.now_us)
            self._planning.check()
            self._end()
            while self._store.next_expiry_us() <= self.now_us:
                self._engine.begin(self.now_us)
                self._engine.expire()
                self._end()

    # --- threads that wait

    def park(self) -> None:
        """With the lock: wait until something has changed."""
        self.parked.add(threading.get_ident())
        self.changed.wait()

    def wake(self) -> None:
        """With the lock: something has changed. Who was parked counts as active from now on."""
        self.parked.clear()
        self.changed.notify_all()

    # --- what is known

    def job_ids(self) -> list[int]:
        """All jobs, also those that have ended."""
        with self.changed:
            while self._pass_until(self._engine.deadlines.linger_us):
                self._end()  # what nobody waits for is committed too
            ended = self._store.history(HistoryQuery(limit=HISTORY_MAX))
            return sorted({*self.scheduler.jobs, *(row.id for row in ended)})

    # --- turns

    def _end(self) -> None:
        self._engine.end()
        while self._step():
            self._engine.end()
        self.wake()

    def _step(self) -> bool:
        """Begin one more turn, if the store has something to answer or a commit waits for its group."""
        if self._answers.due:
            self._engine.begin(self.now_us)
            self._answers.due.popleft()()
            return True
        return self._pass_until(self._engine.deadlines.group_us)

    def _pass_until(self, due_us: int) -> bool:
        """Begin a turn at this time, which is a few milliseconds ahead; False: it is never."""
        if due_us == NEVER:
            return False
        self.now_us = max(self.now_us, due_us)
        self._engine.begin(self.now_us)
        return True
