"""Joins the turn to asyncio: what arrives in one pass of the event loop is one turn.

The first arrival opens the turn and stamps its time; the loop's next free moment ends it. One timer waits for
the earliest deadline, or wakes the loop now and then to notice a pause; the writer thread calls back when a
commit returns.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.core.changes import Batch
from hiringhall.engine.pauses import PAUSE_US, TICK_US, Pauses
from hiringhall.engine.turn import Engine
from hiringhall.storage.contract import HistoryQuery, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Link, Reporter, Session
    from hiringhall.storage.contract import Store


TOLD_PAUSE_US: Final = 1_000_000
"""A pause of the hall that is longer than this is told in the log."""
SLOW_COMMIT_US: Final = 1_000_000
"""A commit that takes longer is reported, unless the driver is told otherwise."""
COALESCED_TURNS_MAX: Final = 4
"""In a busy hall clients hear of what happened in so many turns at once."""


_STEADY: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
"""Goes on while the machine sleeps, where there is such a clock."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """Wall clock at boot plus the time since: it tells the date, and nobody can set it."""

    def __init__(self) -> None:
        self._offset_us = (time.time_ns() - time.clock_gettime_ns(_STEADY)) // 1000

    def now_us(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1000 + self._offset_us


class StoreThread:
    """The one thread that uses the store: it commits, and between two commits it looks things up."""

    def __init__(
        self,
        store: Store,
        done: Callable[[str, int], None],
        found: Callable[[Session, int, EndRow | None, str], None],
        found_parents: Callable[[list[EndRow], str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._done = done
        self._found = found
        self._found_parents = found_parents
        self._broken = broken
        self._errands: SimpleQueue[tuple[Batch | Session | list[ParentRef], int, str] | None] = SimpleQueue()
        self._runner = threading.Thread(target=self._run, name="hall-store", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def write(self, batch: Batch, now_us: int) -> None:
        # Looked at here, while the store's thread has nothing to do: that one would let go of the interpreter
        # for the look, and wait until this one gives it back.
        self._errands.put((batch, now_us, self._look()))

    def look_up(self, session: Session, job_id: int) -> None:
        self._errands.put((session, job_id, ""))

    def look_up_parents(self, refs: list[ParentRef]) -> None:
        self._errands.put((refs, 0, ""))

    def stop(self) -> None:
        """Wait for the errand under way, and end the thread."""
        self._errands.put(None)
        self._runner.join()

    def _run(self) -> None:
        while True:
            errand = self._errands.get()
            if errand is None:
                return
            what, number, trouble = errand
            try:
                if isinstance(what, Batch):
                    begun_ns = time.monotonic_ns()
                    trouble = trouble or self._commit(what, number)
                    self._done(trouble, (time.monotonic_ns() - begun_ns) // 1000)
                elif isinstance(what, list):
                    self._found_parents(*self._find_parents(what))
                else:
                    line, trouble = self._find(number)
                    self._found(what, number, line, trouble)
            except Exception as error:  # noqa: BLE001 (a fault of ours: the loop must hear of it)
                self._broken(error)
                return

    def _look(self) -> str:
        """Why a commit would be lost; empty: nothing is seen that speaks against one."""
        try:
            self._store.check()
        except StoreError as error:
            return str(error)
        return ""

    def _commit(self, batch: Batch, now_us: int) -> str:
        """The trouble with it, if there is any."""
        try:
            if batch.empty:
                self._store.probe()
            else:
                self._store.commit(batch, now_us)
        except StoreError as error:
            return str(error) or "the store failed"
        return ""

    def _find(self, job_id: int) -> tuple[EndRow | None, str]:
        try:
            found = self._store.history(HistoryQuery(id=job_id, limit=1))
        except StoreError as error:
            return None, str(error) or "the store failed"
        return (found[0] if found else None), ""

    def _find_parents(self, refs: list[ParentRef]) -> tuple[list[EndRow], str]:
        try:
            return self._store.latest_ends(refs), ""
        except StoreError as error:
            return [], str(error) or "the store failed"


class Driver:
    """One hall's engine on one event loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        on_trouble: Callable[[str], None],
        clock: Clock | None = None,
        reporter: Reporter | None = None,
        slow_commit_us: int = SLOW_COMMIT_US,
    ) -> None:
        self.scheduler = scheduler
        self.store = store
        self.clock = clock if clock is not None else Clock()
        self._on_trouble = on_trouble
        self._store_thread = StoreThread(
            store, self._store_done, self._store_found, self._store_found_parents, self._store_broken
        )
        self.engine = Engine(scheduler, self._store_thread, reporter)
        self.reporter = self.engine.reporter
        self._slow_commit_us = slow_commit_us
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turning = False
        self._arrivals = 0
        """Pieces of input in this turn."""
        self._coalesced_turns = 0
        """Turns in a row that kept the clients' part back."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        """When that wakes the loop up: at the next deadline, or before."""
        self._deadlines_due = False
        """The next turn acts on deadlines: what came before has been read by then."""
        self._pauses = Pauses(self.clock.now_us())
        self._on_turn_end: list[Callable[[], None]] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to take turns. The scheduler has been restored before."""
        self._loop = loop
        self._store_thread.start()
        self.turn()

    # --- what the transports call

    def join(self, session: Session, link: Link) -> None:
        session.link = link
        self.engine.join(session)

    def receive(self, session: Session, data: bytes) -> None:
        if not self._turning:
            self.turn()
        self._arrivals += 1
        session.receive(data)

    def end_input(self, session: Session) -> None:
        """The peer says no more: it works and waits no longer, but may still hear what it was promised."""
        self.turn()
        self.scheduler.leave(session)
        session.finish()

    def part(self, session: Session) -> None:
        self.turn()
        self.engine.part(session)

    def look_up(self, session: Session, job_id: int) -> None:
        """Ask the history for one job; see `Session.looked_up`."""
        self.engine.look_up(session, job_id)

    def turn(self) -> None:
        """Be inside a turn: open one unless one is open."""
        if not self._turning:
            self._open_turn(deadlines=False)

    def run_soon(self, action: Callable[[], None]) -> None:
        """Run something inside a turn."""
        assert self._loop is not None

        def inside() -> None:
            self.turn()
            action()

        self._loop.call_soon(inside)

    # --- closing

    def stop_handing_out(self) -> None:
        """The hall is about to close: no worker is given anything more."""
        self.turn()
        self.scheduler.close()

    async def drain(self, grace_us: int) -> None:
        """Hand nothing out any more; wait for what is being worked on, then take it back without blame.

        What a resident holds stays its own, and is not waited for.
        """
        self.stop_handing_out()
        self.scheduler.hiring.dismiss_promised()
        idle = self.when(lambda: not any(worker.leases for worker in self._passing_workers()))
        if not await self._wait_awake(idle, grace_us):
            idle.cancel()
            self.turn()
            for worker in self._passing_workers():
                for lease in list(worker.leases.values()):
                    self.scheduler.recall(lease)

    async def _wait_awake(self, future: asyncio.Future[None], wait_us: int) -> bool:
        """Wait for so long, pauses of the hall not counted; whether the future is done."""
        while not future.done():
            step_us = min(wait_us, TICK_US)
            late_us = self.clock.now_us() + step_us + PAUSE_US
            await asyncio.wait([future], timeout=step_us / 1_000_000)
            # Half of a step counts in any case: the wait ends even where every step is late.
            wait_us -= step_us if self.clock.now_us() <= late_us else step_us // 2
            if wait_us <= 0:
                break
        return future.done()

    def _passing_workers(self) -> list[Worker]:
        return [worker for worker in self.scheduler.workers if worker.resident is None]

    async def stop(self) -> None:
        """Commit what is pending, unless the store is in trouble, and close it."""
        assert self._loop is not None
        self.stop_handing_out()
        await self.when(lambda: bool(self.scheduler.store_trouble) or not self.engine.busy)
        if self._timer is not None:
            self._timer.cancel()
        await self._loop.run_in_executor(None, self._store_thread.stop)
        self.store.close()

    def when(self, holds: Callable[[], bool]) -> asyncio.Future[None]:
        """A future that is done at the end of the first turn after which `holds` is true."""
        assert self._loop is not None
        future: asyncio.Future[None] = self._loop.create_future()

        def look() -> None:
            if future.done():
                self._on_turn_end.remove(look)
            elif holds():
                self._on_turn_end.remove(look)
                future.set_result(None)

        self._on_turn_end.append(look)
        self.turn()
        return future

    # --- turns

    def _open_turn(self, *, deadlines: bool) -> None:
        """A turn in which something arrives does not act on deadlines: there may be more to read."""
        assert self._loop is not None
        self._turning = True
        now_us = self.clock.now_us()
        paused_us = self._end_pause(now_us) if now_us > self._pauses.late_us else 0
        self.engine.begin(now_us, paused_us, deadlines=deadlines)
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        # One arrival at a time is a hall at leisure: nobody gains by waiting.
        self.engine.end(coalesce=self._arrivals > 1 and not self.scheduler.closing)
        self._turning = False
        self._arrivals = 0
        if self.engine.has_coalesced and not self._coalesced_turns:
            self._coalesce_on()
        if self._on_turn_end:
            for look in list(self._on_turn_end):
                look()
        if self._deadlines_due and not self._turning:
            self._deadlines_due = False
            self._open_turn(deadlines=True)
            return
        next_us = self.engine.next_deadline()
        if next_us:
            if self._timer is None or next_us < self._timer_us:
                self._set_timer(next_us)
        elif self._timer is None:
            self._pauses.unplan()

    def _coalesce_on(self) -> None:
        """Look for more input before the clients are sent their part."""
        assert self._loop is not None
        self._coalesced_turns += 1
        self._loop.call_soon(self._flush_coalesced)

    def _flush_coalesced(self) -> None:
        """The loop has looked for input since: none came, or it came too often in a row."""
        if self._turning and self._coalesced_turns < COALESCED_TURNS_MAX:
            self._coalesce_on()
            return
        self._coalesced_turns = 0
        self.engine.flush_coalesced()

    def _set_timer(self, next_us: int) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_us = self.clock.now_us()
        if now_us > self._pauses.late_us:
            # The next turn ends the pause.
            self._deadlines_due = True
            self._loop.call_soon(self.turn)
            return
        self._timer_us = max(min(next_us, now_us + TICK_US), now_us)
        self._pauses.plan(self._timer_us)
        # Loops count in milliseconds: a shorter wait would be none, over and over until the time has come.
        delay_ms = -(-(self._timer_us - now_us) // 1000)
        self._timer = self._loop.call_later(delay_ms / 1000, self._timer_due)

    def _timer_due(self) -> None:
        assert self._loop is not None
        self._timer = None
        now_us = self.clock.now_us()
        peers_us = self.scheduler.next_deadline()
        if now_us > self._pauses.late_us or 0 < peers_us <= now_us:
            # Somebody may have spoken in time: the loop looks at its sockets once, and that is a turn.
            self._deadlines_due = True
            self._loop.call_soon(self.turn)
        elif not self._turning:
            next_us = self.engine.next_deadline()
            if next_us > now_us:
                self._set_timer(next_us)
            else:
                self.turn()

    def _end_pause(self, now_us: int) -> int:
        """The time that does not count because the hall was paused."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        paused_us = self._pauses.end(now_us)
        if paused_us >= TOLD_PAUSE_US:
            self.reporter.paused(paused_us)
        return paused_us

    def _store_done(self, trouble: str, took_us: int) -> None:
        """On the store's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._store_answered, trouble, took_us)

    def _store_found(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        """On the store's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_look_up, session, job_id, line, trouble)

    def _store_found_parents(self, lines: list[EndRow], trouble: str) -> None:
        """On the store's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_parents, lines, trouble)

    def _answer_parents(self, lines: list[EndRow], trouble: str) -> None:
        self.turn()
        self.engine.parents_looked_up(lines, trouble)

    def _answer_look_up(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        self.turn()
        self.engine.looked_up(session, job_id, line, trouble)

    def _store_broken(self, error: Exception) -> None:
        """On the store's thread: a law of ours is broken, and the loop's last handler must say so."""

        def fail_loudly() -> None:
            raise error

        assert self._loop is not None
        self._loop.call_soon_threadsafe(fail_loudly)

    def _store_answered(self, trouble: str, took_us: int) -> None:
        self.turn()
        if took_us > self._slow_commit_us:
            self.reporter.slow_commit(took_us, self.engine.changes_under_way)
        before = self.scheduler.store_trouble
        if trouble:
            self.engine.failed(trouble)
        else:
            self.engine.committed()
        if trouble != before:
            self._on_trouble(trouble)
