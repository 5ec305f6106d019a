"""A keeper without a loop: the real scheduler, engine and store, and a clock that the story moves.

The law: time passes only in `pass_time`, which does everything in the order in which a loop would; a commit
is answered right after the turn that began it, unless the story holds it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.peer import Peer
from hiringhall.core.states import DELAYED, LEASED
from hiringhall.engine.recovery import open_scheduler
from hiringhall.engine.turn import Engine
from hiringhall.schedules.keeper import Keeper
from hiringhall.storage.memory import MemoryStore

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import ParentRef
    from hiringhall.dialects.session import Session
    from hiringhall.engine.driver import Driver
    from hiringhall.schedules.book import Book
    from hiringhall.schedules.plan import Plan

START_US: Final = 1_794_787_200 * SECOND_US
"""2026-11-16, midnight in UTC."""
MOMENT_US: Final = 20_000
"""Enough for a commit that nobody waits for."""


class StageClock:
    """The hall's clock."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def now_us(self) -> int:
        return self._stage.now_us


class Timer:
    """What `call_later` gives."""

    def __init__(self, at_us: int, action: Callable[[], None]) -> None:
        self.at_us = at_us
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Stage:
    """One hall with schedules; `die` and `open` again on the same store."""

    def __init__(self, plans: Iterable[Plan] = (), book: Book | None = None) -> None:
        self.now_us = START_US
        self.machine_ahead_us = 0
        """How far the machine's clock was set ahead of the hall's."""
        self.timers_late_us = 0
        """By how much the loop is late with every timer."""
        self.store = MemoryStore()
        self.plans = list(plans)
        self.book = book
        self.limits = Limits()
        self.store_fails = False
        self.store_answers = True
        """Whether a commit is answered at once."""
        self._batches: list[Batch] = []
        self.open()

    # --- the life of the hall

    def open(self) -> None:
        self._timers: list[Timer] = []
        self._batches.clear()
        self._turning = False
        self.now_us += self.machine_ahead_us  # a new hall begins with the machine's clock
        self.machine_ahead_us = 0
        self.scheduler = open_scheduler(self.store, self.limits, self.now_us)
        self.engine = Engine(self.scheduler, self)
        stage = cast("Driver", self)
        loop = cast("asyncio.AbstractEventLoop", self)
        self.keeper = Keeper(stage, loop, self.plans, self.book, self._machine_us)
        self.keeper.start()
        self.settle()

    def die(self, away_us: int = 0) -> None:
        """As by SIGKILL; whatever was not committed is gone. Comes back after a while."""
        self._timers.clear()
        self.now_us += away_us

    def reopen_after(self, away_us: int) -> None:
        """Another hall on the same data, and a moment for its first commit."""
        self.die(away_us)
        self.open()
        self.pass_time(MOMENT_US)

    def _machine_us(self) -> int:
        return self.now_us + self.machine_ahead_us

    # --- what the keeper sees of the driver and of the loop

    @property
    def clock(self) -> StageClock:
        return StageClock(self)

    def turn(self) -> None:
        if not self._turning:
            self._turning = True
            self.engine.begin(self.now_us)

    def run_soon(self, action: Callable[[], None]) -> None:
        self.turn()
        action()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        timer = Timer(self.now_us + round(delay_s * SECOND_US) + self.timers_late_us, action)
        self._timers.append(timer)
        return timer

    # --- what the engine sees of the store's thread

    def write(self, batch: Batch, now_us: int) -> None:
        self._batches.append(batch)

    def look_up(self, session: Session, job_id: int) -> None:
        raise AssertionError("nobody asks for the history here")

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        raise AssertionError("nobody has parents here")

    def answer(self) -> None:
        """The store answers the commit under way."""
        batch = self._batches.pop()
        self.turn()
        if self.store_fails:
            self.engine.failed("disk full")
            return
        if not batch.empty:
            self.store.commit(batch, self.now_us)
        self.engine.committed()

    # --- time

    def settle(self) -> None:
        """End the turn, and those that follow from it."""
        while self._turning or (self._batches and self.store_answers):
            if not self._turning:
                self.answer()
            self._turning = False
            self.engine.end()
        self.scheduler.audit()

    def pass_time(self, length_us: int) -> None:
        """Everything that happens in this time, in order."""
        until_us = self.now_us + length_us
        while True:
            timers = [timer for timer in self._timers if not timer.cancelled]
            keeper_us = min((timer.at_us for timer in timers), default=until_us + 1)
            at_us = max(min(keeper_us, self.engine.next_deadline() or keeper_us), self.now_us)
            if at_us > until_us:
                break
            self.now_us = at_us
            self.turn()
            self._timers = [timer for timer in timers if timer.at_us > at_us]
            for timer in timers:
                if timer.at_us <= at_us:
                    timer.action()
            self.settle()
        self.now_us = until_us

    @property
    def next_look_us(self) -> int:
        """How long until the keeper looks again."""
        (timer,) = [timer for timer in self._timers if not timer.cancelled]
        return timer.at_us - self.now_us

    # --- what came of it

    def fired(self, queue: str = "q") -> list[str]:
        """The payloads of all jobs that the store has, in the order in which they came."""
        rows: list[tuple[int, bytes]] = [
            (row.id, row.payload) for row in self.store.live() if row.queue == queue.encode()
        ]
        return [payload.decode() for _, payload in sorted(rows)]

    def starts(self, queue: str = "q") -> dict[str, int]:
        """When each live job may start, from the beginning of the story; 0: it may already."""
        return {
            job.payload.decode(): job.due_us - START_US if job.state == DELAYED else 0
            for job in self.scheduler.jobs.values()
            if job.queue.name == queue.encode()
        }

    def work(self, queue: str = "q") -> list[str]:
        """A worker takes whatever is ready, and does not finish it."""
        worker = self.scheduler.worker(Peer())
        self.turn()
        self.scheduler.can_do(worker, queue.encode())
        taken: list[str] = []
        while (lease := self.scheduler.take(worker)) is not None:
            assert lease.job.state == LEASED
            taken.append(lease.job.payload.decode())
        self.settle()
        return taken
