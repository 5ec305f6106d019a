"""A hall in memory with a keeper of schedules. The test moves the clock.

Time passes only in `pass_time`, which does everything in the order in which the event loop would. The driver
and the loop that the keeper sees are `KeeperLoop`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from hiringhall.core.limits import SECOND_US
from hiringhall.core.peer import Peer
from hiringhall.core.states import DELAYED, LEASED
from hiringhall.schedules.keeper import Keeper
from stage.hall import Hall

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from hiringhall.engine.driver import Driver
    from hiringhall.schedules.book import Book
    from hiringhall.schedules.plan import Plan

START_US: Final = 1_794_787_200 * SECOND_US
"""2026-11-16, midnight in UTC."""
MOMENT_US: Final = 20_000
"""Enough for a commit that nobody waits for."""


class Timer:
    """What `call_later` gives."""

    def __init__(self, at_us: int, action: Callable[[], None]) -> None:
        self.at_us = at_us
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class KeeperLoop:
    """What the keeper uses of the driver, of its clock and of the event loop."""

    def __init__(self, hall: KeeperHall) -> None:
        self._hall = hall
        self.scheduler = hall.scheduler
        self.engine = hall.engine
        self.timers: list[Timer] = []

    @property
    def clock(self) -> KeeperLoop:
        return self

    def now_us(self) -> int:
        return self._hall.now_us

    def turn(self) -> None:
        self._hall.begin()

    def run_soon(self, action: Callable[[], None]) -> None:
        self._hall.begin()
        action()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        timer = Timer(self._hall.now_us + round(delay_s * SECOND_US) + self._hall.timers_late_us, action)
        self.timers.append(timer)
        return timer

    def set_timers(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]


class KeeperHall(Hall):
    """One hall with schedules. It dies and opens again on the same store."""

    def __init__(self, plans: Iterable[Plan] = (), book: Book | None = None) -> None:
        self.machine_ahead_us = 0
        """How far the machine's clock was set ahead of the hall's."""
        self.timers_late_us = 0
        """By how much the loop is late with every timer."""
        self.plans = list(plans)
        self.book = book
        super().__init__(start_us=START_US)

    def open(self) -> None:
        self.now_us += self.machine_ahead_us  # a new hall starts with the machine's clock
        self.machine_ahead_us = 0
        super().open()
        self.loop = KeeperLoop(self)
        driver = cast("Driver", self.loop)
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        self.keeper = Keeper(driver, loop, self.plans, self.book, lambda: self.now_us + self.machine_ahead_us)
        self.keeper.start()
        self.end()

    def reread(self) -> None:
        """The hall is told that the book has changed."""
        assert self.book is not None
        read = self.book.read_all()
        self.loop.run_soon(lambda: self.keeper.reload(*read))
        self.end()

    def reopen_after(self, away_us: int) -> None:
        """Killed, and opened again later, with time for its first commit."""
        self.now_us += away_us
        self.open()
        self.pass_time(MOMENT_US)

    def pass_time(self, length_us: int) -> None:
        """Everything that happens in this time, in order."""
        until_us = self.now_us + length_us
        while True:
            timers = self.loop.set_timers()
            keeper_us = min((timer.at_us for timer in timers), default=until_us + 1)
            at_us = max(min(keeper_us, self.engine.next_deadline() or keeper_us), self.now_us)
            if at_us > until_us:
                break
            self.now_us = at_us
            self.begin()
            self.loop.timers = [timer for timer in timers if timer.at_us > at_us]
            for timer in timers:
                if timer.at_us <= at_us:
                    timer.action()
            self.end()
        self.now_us = until_us

    @property
    def next_look_us(self) -> int:
        """How long until the keeper looks again."""
        (timer,) = self.loop.set_timers()
        return timer.at_us - self.now_us

    # --- what came of it

    def fired(self, queue: str = "q") -> list[str]:
        """The payloads of all jobs that the store has, in the order in which they came."""
        rows: list[tuple[int, bytes]] = [
            (row.id, row.payload) for row in self.store.live() if row.queue == queue.encode()
        ]
        return [payload.decode() for _, payload in sorted(rows)]

    def starts(self, queue: str = "q") -> dict[str, int]:
        """When each live job may start, from the beginning of the test; 0: it may already."""
        return {
            job.payload.decode(): job.due_us - START_US if job.state == DELAYED else 0
            for job in self.scheduler.jobs.values()
            if job.queue.name == queue.encode()
        }

    def work(self, queue: str = "q") -> list[str]:
        """A worker takes whatever is ready, and does not finish it."""
        worker = self.scheduler.worker(Peer())
        self.begin()
        self.scheduler.can_do(worker, queue.encode())
        taken: list[str] = []
        while (lease := self.scheduler.take(worker)) is not None:
            assert lease.job.state == LEASED
            taken.append(lease.job.payload.decode())
        self.end()
        return taken
