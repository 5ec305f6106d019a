"""Runs the engine on asyncio: what arrives in one pass of the event loop is one turn.

The first arrival starts the turn and sets its time. The turn ends in the next pass of the loop. One timer
wakes the loop at the earliest deadline, or earlier to notice a pause. The store thread calls back when a
commit returns.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from hiringhall.engine.deadlines import NEVER
from hiringhall.engine.measures import LagProbe, Measures
from hiringhall.engine.pauses import PAUSE_US, TICK_US, Pauses
from hiringhall.engine.store_thread import StoreThread
from hiringhall.engine.turn import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import EndRow, HistoryPage, HistoryQuery, OutputPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.workers import Worker
    from hiringhall.dialects.session import Link, Reporter, Session
    from hiringhall.storage.contract import Store


TOLD_PAUSE_US: Final = 1_000_000
"""A pause of this length or longer is written to the log."""
SLOW_COMMIT_US: Final = 1_000_000
"""By default, a commit that takes longer than this is reported."""
SETTLE_US: Final = 5_000_000
"""A hall that closes waits for this long until it is known whether its last commit has succeeded."""
COALESCED_TURNS_MAX: Final = 4
"""In a busy hall, the output of at most this many turns is sent to a client with one write."""


_STEADY: Final = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
"""On Linux this clock also counts the time for which the machine is suspended."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """The wall clock at the start of the hall plus the time since. Setting the system clock has no effect."""

    def __init__(self) -> None:
        self._offset_us = (time.time_ns() - time.clock_gettime_ns(_STEADY)) // 1000

    def now_us(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1000 + self._offset_us


class Driver:
    """The engine of one hall on one event loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        store: Store,
        on_trouble: Callable[[str], None],
        clock: Clock | None = None,
        reporter: Reporter | None = None,
        slow_commit_us: int = SLOW_COMMIT_US,
        settle_us: int = SETTLE_US,
    ) -> None:
        self.scheduler = scheduler
        self.store = store
        self.clock = clock if clock is not None else Clock()
        self._on_trouble = on_trouble
        self._store_thread = StoreThread(
            store,
            self._store_done,
            self._store_found,
            self._store_found_page,
            self._store_found_parents,
            self._store_found_output,
            self._store_broken,
        )
        self.engine = Engine(scheduler, self._store_thread, reporter)
        self.reporter = self.engine.reporter
        self._slow_commit_us = slow_commit_us
        self._settle_us = settle_us
        self.measures = Measures()
        self._lag_probe = LagProbe(self.clock.now_us, self.measures.lag)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turning = False
        self._arrivals = 0
        """Pieces of input received in this turn."""
        self._coalesced_turns = 0
        """Turns in a row whose output for clients is kept back."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        """When the timer fires: at the next deadline or earlier."""
        self._deadlines_due = False
        """Start a turn that acts on deadlines after this one. Input that came in time has been read by then."""
        self._waits_for_permission = False
        """The turn has ended too late to send what it gave to workers: `may_hand_out` decides."""
        self._pauses = Pauses(self.clock.now_us())
        self._on_turn_end: list[Callable[[], None]] = []

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to take turns. The scheduler must have been restored."""
        self._loop = loop
        self._store_thread.start()
        self.turn()

    # --- for the transports

    def join(self, session: Session, link: Link) -> None:
        session.link = link
        self.engine.join(session)

    def receive(self, session: Session, data: bytes) -> None:
        if not self._turning:
            self.turn()
        self._arrivals += 1
        session.receive(data)

    def end_input(self, session: Session) -> None:
        """The peer closed its sending side: its work and waits end, and pledged answers are still sent."""
        self.turn()
        self.scheduler.leave(session)
        session.finish()

    def leave(self, session: Session) -> None:
        self.turn()
        self.engine.leave(session)

    def look_up(self, session: Session, job_id: int) -> None:
        """Read one job from the history; see `Session.looked_up`."""
        self.engine.look_up(session, job_id)

    def look_up_keys(self, session: Session, ticket: int, refs: list[ParentRef]) -> None:
        """Read the latest ends of these keys from the history; see `Session.keys_looked_up`."""
        self.engine.look_up_keys(session, ticket, refs)

    def search(self, session: Session, number: int, query: HistoryQuery) -> None:
        """Read a page of the history; see `Session.searched`."""
        self.engine.search(session, number, query)

    def look_up_output(self, session: Session, job_id: int, position: int) -> None:
        """Read what the workers of a job said; see `Session.output_looked_up`."""
        self.engine.look_up_output(session, job_id, position)

    def turn(self) -> None:
        """Start a turn unless one is open."""
        if not self._turning:
            self._open_turn(deadlines=False)

    def run_soon(self, action: Callable[[], None]) -> None:
        """Run an action inside a turn, in the next pass of the loop."""
        assert self._loop is not None

        def inside() -> None:
            self.turn()
            action()

        self._loop.call_soon(inside)

    def watch_lag(self) -> None:
        """Measure for a while how late the loop wakes up; see `Measures.lag`."""
        assert self._loop is not None
        self._lag_probe.watch(self._loop)

    # --- closing

    def stop_handing_out(self) -> None:
        """The hall is about to close: stop giving jobs to workers."""
        self.turn()
        self.scheduler.close()

    def may_hand_out(self, until_us: int) -> None:
        """Jobs are handed out until this time: then another hall may do so. A turn looks at it as it begins and
        as it ends, so that a process that was stopped hands out nothing before it has asked. If the answer is
        no, the output of the turn is dropped, and the peers that it was for are disconnected.
        """
        assert self._loop is not None
        was_too_late = self._is_too_late()
        self.engine.hands_out_until_us = until_us
        if self._turning and not self.scheduler.withholding and self._is_too_late():
            self.scheduler.withhold(True)
            if was_too_late:
                self.engine.drop_output()
        if self._waits_for_permission:
            self._waits_for_permission = False
            self._loop.call_soon(self._end_turn)
        elif self.scheduler.withholding:
            self.turn()

    def _is_too_late(self) -> bool:
        return self.engine.hands_out_until_us < NEVER and self.clock.now_us() > self.engine.hands_out_until_us

    async def drain(self, grace_us: int) -> None:
        """Stop giving out jobs and wait for those that are being worked on. After the grace period take them
        back, without counting a loss. The jobs of residents are left alone and not waited for.
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
        """Wait for the future or for `wait_us`, not counting pauses of the hall; whether the future is done."""
        while not future.done():
            step_us = min(wait_us, TICK_US)
            late_us = self.clock.now_us() + step_us + PAUSE_US
            await asyncio.wait([future], timeout=step_us / 1_000_000)
            # At least half of each step counts, so that the wait ends even if every step is late.
            wait_us -= step_us if self.clock.now_us() <= late_us else step_us // 2
            if wait_us <= 0:
                break
        return future.done()

    def _passing_workers(self) -> list[Worker]:
        return [worker for worker in self.scheduler.workers if worker.resident is None]

    async def stop(self) -> None:
        """Commit what is pending, unless the store has failed, and close the store."""
        assert self._loop is not None
        self.stop_handing_out()
        await self._finish_commits()
        if self._timer is not None:
            self._timer.cancel()
        self._lag_probe.stop()
        await self._loop.run_in_executor(None, self._store_thread.stop)
        self.store.close()

    async def _finish_commits(self) -> None:
        while True:
            await self.when(lambda: bool(self.scheduler.store_trouble) or not self.engine.busy)
            if not self.engine.in_doubt:
                return
            settled = self.when(lambda: not self.engine.in_doubt)
            if not await self._wait_awake(settled, self._settle_us):
                settled.cancel()
                self.reporter.unsettled_commit(self.engine.jobs_under_way)
                return

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
        """Start a turn. One that was started by input does not act on deadlines: there may be more to read."""
        assert self._loop is not None
        self._turning = True
        now_us = self.clock.now_us()
        paused_us = self._end_pause(now_us) if now_us > self._pauses.late_us else 0
        self.engine.begin(now_us, paused_us, deadlines=deadlines)
        self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        withholding = self.scheduler.withholding
        if not withholding and self._is_too_late():
            self._waits_for_permission = True
            return
        # With one arrival in a turn the hall is idle: coalescing would only delay the answer.
        limited = self.engine.hands_out_until_us < NEVER and not withholding
        is_too_late = self._is_too_late if limited else None
        self.engine.end(coalesce=self._arrivals > 1 and not self.scheduler.closing, is_too_late=is_too_late)
        self._turning = False
        self._arrivals = 0
        self.measures.turns += 1
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
        """Let the loop read more input before the output for clients is sent."""
        assert self._loop is not None
        self._coalesced_turns += 1
        self._loop.call_soon(self._flush_coalesced)

    def _flush_coalesced(self) -> None:
        """Send the kept output, unless more input has come and the limit of turns is not reached."""
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
            # A pause: the next turn ends it.
            self._deadlines_due = True
            self._loop.call_soon(self.turn)
            return
        self._timer_us = max(min(next_us, now_us + TICK_US), now_us)
        self._pauses.plan(self._timer_us)
        # Loops count in whole milliseconds: with a shorter delay the loop would spin until the deadline.
        delay_ms = -(-(self._timer_us - now_us) // 1000)
        self._timer = self._loop.call_later(delay_ms / 1000, self._timer_due)

    def _timer_due(self) -> None:
        assert self._loop is not None
        self._timer = None
        now_us = self.clock.now_us()
        peers_us = self.scheduler.next_deadline()
        if now_us > self._pauses.late_us or 0 < peers_us <= now_us:
            # A peer may have spoken in time: let the loop read its sockets once before deadlines act.
            self._deadlines_due = True
            self._loop.call_soon(self.turn)
        elif not self._turning:
            next_us = self.engine.next_deadline()
            if next_us > now_us:
                self._set_timer(next_us)
            else:
                self.turn()

    def _end_pause(self, now_us: int) -> int:
        """How much time does not count because the hall was paused."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        paused_us = self._pauses.end(now_us)
        self.measures.pauses += 1
        if paused_us >= TOLD_PAUSE_US:
            self.reporter.paused(paused_us)
        return paused_us

    # --- from the store: each `_store_...` is called on the store thread, and continues on the loop

    def _store_done(self, trouble: str, unknown: bool, took_us: int) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_commit, trouble, unknown, took_us)

    def _answer_commit(self, trouble: str, unknown: bool, took_us: int) -> None:
        self.turn()
        engine = self.engine
        changes = engine.changes_under_way
        before = self.scheduler.store_trouble
        if unknown:
            if not engine.in_doubt:
                self.reporter.unknown_commit(changes)
            engine.unknown(trouble)
        else:
            if engine.in_doubt:
                self.reporter.settled_commit(changes, kept=not trouble)
            self.measures.committed(trouble, took_us, changes)
            if took_us > self._slow_commit_us:
                self.reporter.slow_commit(took_us, changes)
            if trouble:
                engine.failed(trouble)
            else:
                engine.committed()
        if trouble != before:
            self._on_trouble(trouble)

    def _store_found(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_look_up, session, job_id, line, trouble)

    def _answer_look_up(self, session: Session, job_id: int, line: EndRow | None, trouble: str) -> None:
        self.turn()
        self.engine.looked_up(session, job_id, line, trouble)

    def _store_found_page(self, page: HistoryPage | None, trouble: str) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_search, page, trouble)

    def _answer_search(self, page: HistoryPage | None, trouble: str) -> None:
        self.turn()
        self.engine.searched(page, trouble)

    def _store_found_parents(self, lines: list[EndRow], trouble: str) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_parents, lines, trouble)

    def _answer_parents(self, lines: list[EndRow], trouble: str) -> None:
        self.turn()
        self.engine.parents_looked_up(lines, trouble)

    def _store_found_output(
        self, session: Session, job_id: int, position: int, page: OutputPage, trouble: str
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._answer_output, session, job_id, position, page, trouble)

    def _answer_output(
        self, session: Session, job_id: int, position: int, page: OutputPage, trouble: str
    ) -> None:
        self.turn()
        self.engine.output_looked_up(session, job_id, position, page, trouble)

    def _store_broken(self, error: Exception) -> None:
        """Called on the store thread: raise our own error on the loop, so that the process stops."""

        def fail_loudly() -> None:
            raise error

        assert self._loop is not None
        self._loop.call_soon_threadsafe(fail_loudly)
