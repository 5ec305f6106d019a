"""A driver on a real event loop, with a real thread that commits; the store is slow or fails when told to."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.engine.driver import SETTLE_US, Clock, Driver
from hiringhall.engine.recovery import open_scheduler
from hiringhall.storage.memory import MemoryStore
from stage.talker import BACKGROUND, Talker, Wire, submit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from hiringhall.core.changes import Batch, EndRow, JobRow, Loaded
    from hiringhall.core.jobs import Job
    from hiringhall.core.leases import Lease
    from hiringhall.core.terms import Terms
    from hiringhall.dialects.session import Reporter
    from hiringhall.storage.contract import HistoryQuery, OutcomeUnknown

PATIENCE_S = 20.0
"""A test that waits for longer than this has failed; none comes near it."""


class Tally:
    """Counts across threads; a story can wait for more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.count = 0

    def add(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait_for_more(self, more: int) -> None:
        self.wait_for(self.count + more)

    def wait_for(self, target: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= target, PATIENCE_S)


class SlowStore:
    """A store that commits when the story lets it, and fails when it is told to."""

    def __init__(self, inner: MemoryStore | None = None) -> None:
        self.inner = inner if inner is not None else MemoryStore()
        self.gate = threading.Event()
        self.gate.set()
        self.trouble: Exception | None = None
        self.doubt: OutcomeUnknown | None = None
        """The next commit raises it; `kept` says whether its batch is stored."""
        self.kept = False
        self.commits = 0
        self.probes = 0
        self.closed = False
        self.threads: list[str] = []
        self.tried = Tally()

    def load(self, ended_max: int) -> Loaded:
        return self.inner.load(ended_max)

    def commit(self, batch: Batch, now_us: int) -> None:
        self._pass()
        self.commits += 1
        if self.doubt is None or self.kept:
            self.inner.commit(batch, now_us)
        if self.doubt is not None:
            doubt, self.doubt = self.doubt, None
            raise doubt

    def settle(self) -> bool:
        self._pass()
        return self.kept

    def check(self) -> None:
        self.inner.check()

    def probe(self) -> None:
        self._pass()
        self.probes += 1

    def _pass(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.tried.add()
        assert self.gate.wait(PATIENCE_S)
        if self.trouble is not None:
            raise self.trouble

    def history(self, query: HistoryQuery) -> list[EndRow]:
        return self.inner.history(query)

    def live(self) -> Iterator[JobRow]:
        return self.inner.live()

    def count(self) -> tuple[int, int]:
        return self.inner.count()

    def close(self) -> None:
        self.closed = True
        self.inner.close()


class LoudWire(Wire):
    """A wire on which a story can wait for what is said."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()
        self.text = ""

    def write(self, messages: list[bytes]) -> None:
        super().write(messages)
        self.text += b"".join(messages).decode()
        self._news.set()

    async def hears(self, text: str) -> None:
        """Wait until exactly this was said since the story last asked."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.text) < len(text):
                self._news.clear()
                await self._news.wait()
        assert self.text == text
        self.text = ""


class LeapingClock(Clock):
    """The real one, and what the story adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.leap_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.leap_us


class Stage:
    """A driver, its store, and its people."""

    def __init__(
        self,
        store: SlowStore | None = None,
        clock: Clock | None = None,
        reporter: Reporter | None = None,
        settle_us: int = SETTLE_US,
    ) -> None:
        self.store = store if store is not None else SlowStore()
        clock = clock if clock is not None else Clock()
        self.scheduler = open_scheduler(self.store, Limits(), clock.now_us())
        self.troubles: list[str] = []
        self.troubled = asyncio.Event()
        self.driver = Driver(self.scheduler, self.store, self._on_trouble, clock, reporter, settle_us=settle_us)
        self.driver.start(asyncio.get_running_loop())

    def _on_trouble(self, trouble: str) -> None:
        self.troubles.append(trouble)
        self.troubled.set()

    async def trouble(self, *troubles: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.troubles) < len(troubles):
                self.troubled.clear()
                await self.troubled.wait()
        assert self.troubles == list(troubles)

    def peer(self, name: str) -> tuple[Talker, LoudWire]:
        session, wire = Talker(name), LoudWire()
        self.driver.join(session, wire)
        return session, wire

    def worker(self, name: str) -> tuple[Talker, LoudWire]:
        session, wire = self.peer(name)
        self.scheduler.can_do(self.scheduler.worker(session), b"q")
        return session, wire

    def submit(self, session: Talker, name: str, terms: Terms = BACKGROUND, due_us: int = 0) -> Job:
        self.driver.turn()
        return submit(self.scheduler, session, JobSpec(b"q", name.encode(), b"", terms, due_us))

    def take(self, session: Talker) -> Lease:
        self.driver.turn()
        lease = self.scheduler.take(self.scheduler.worker(session))
        assert lease is not None
        return lease

    async def stop(self) -> None:
        self.store.gate.set()
        await asyncio.wait_for(self.driver.stop(), PATIENCE_S)
        assert self.store.closed


def story(
    tell: Callable[[Stage], Awaitable[None]],
    store: SlowStore | None = None,
    reporter: Reporter | None = None,
    settle_us: int = SETTLE_US,
    clock: Clock | None = None,
) -> None:
    """Run one story on a loop of its own; errors that only reach the loop's handler count too."""

    async def run() -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        stage = Stage(store, clock, reporter, settle_us)
        await tell(stage)
        if not stage.store.closed:
            await stage.stop()
        assert faults == []

    asyncio.run(run())
