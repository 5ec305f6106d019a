"""The keeper: looks at the clock, and hands in the jobs whose time has come.

The law: that a due time has fired is stored together with its job, so each fires once, however often the
hall dies in between; `Scheduler.firings` is the only memory, and goes back by itself when a commit fails. A
due time that does not fire is logged.

A job is handed in up to a second ahead, with its due time, so that it is on disk and starts on time. The
keeper goes by the machine's clock, which may be set; the hall's own never jumps. While the two differ
nothing is handed in ahead.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import Firing
from hiringhall.core.errors import Refusal
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import BookError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from hiringhall.engine.driver import Driver
    from hiringhall.schedules.book import Book
    from hiringhall.schedules.plan import Plan

LEAD_US: Final = SECOND_US
"""A job is handed in this long ahead, or half the time since the due time before if that is less."""
AGAIN_US: Final = SECOND_US
"""After a refusal, and until what was fired is on disk, the next look comes no later than this."""
LATE_MIN_US: Final = SECOND_US
"""Every due time is late for so long before it is missed: timers are never quite on time."""
LOOK_US: Final = 60 * SECOND_US
"""The longest time between two looks: a clock that was set is noticed within it."""
CATCH_UP_MAX: Final = 1000
"""Missed due times that `missed = "all"` fires at once, the latest of them."""
STEP_US: Final = SECOND_US // 10
"""Clocks that differ by less than this agree."""

_log = logging.getLogger("hiringhall")


def machine_us() -> int:
    """The machine's clock."""
    return time.time_ns() // 1000


class Keeper:
    """All schedules of one hall. Everything it does happens inside turns of the driver."""

    def __init__(
        self,
        driver: Driver,
        loop: asyncio.AbstractEventLoop,
        configured: Iterable[Plan],
        book: Book | None,
        machine: Callable[[], int] = machine_us,
    ) -> None:
        self._driver = driver
        self._loop = loop
        self._configured = {plan.name: plan for plan in configured}
        self._book = book
        """None: nothing survives a stop of the hall, a book neither."""
        self._machine_us = machine
        self._plans: dict[str, Plan] = {}
        self._next: dict[str, tuple[Firing, int]] = {}
        """The due time that follows a firing, worked out once."""
        self._refused: dict[str, str] = {}
        """Schedules whose job was refused, and why: each reason is logged once."""
        self._ahead: set[str] = set()
        """Schedules that fired for times which the clock has yet to reach: it was set back."""
        self._skew_us = 0
        """How far the machine's clock is ahead of the hall's, as of the last look."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def start(self) -> None:
        """Read the book and begin. Raises BookError."""
        written = self._read_book()
        self._take_over(written)
        if self._plans:
            self._tell_count(written)
        self._driver.run_soon(self._look)

    def reread(self) -> None:
        """Inside a turn: the book may have changed. If it cannot be read, all stays as it was."""
        if self._stopped:
            return
        try:
            written = self._read_book()
        except BookError as error:
            _log.error("schedules stay as they are: %s", error)
            return
        self._take_over(written)
        self._tell_count(written)
        self._look()

    def stop_taking(self) -> None:
        """The hall drains: nothing fires any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        self.stop_taking()

    def _read_book(self) -> dict[str, Plan]:
        return {} if self._book is None else self._book.read()

    def _take_over(self, written: Mapping[str, Plan]) -> None:
        for name in written:
            if name in self._configured:
                _log.warning('schedule "%s" is in the settings and in the book: the settings count', name)
        self._plans = {**written, **self._configured}
        self._ahead.intersection_update(self._plans)
        for plan in self._plans.values():
            for field, problem in plan.excesses(self._driver.scheduler.limits):
                _log.error('schedule "%s" will be refused: its %s %s', plan.name, field, problem)
        self._next.clear()
        self._refused.clear()

    def _tell_count(self, written: Mapping[str, Plan]) -> None:
        _log.info("schedules: %d, of them %d from the book", len(self._plans), len(written))

    # --- looking

    def _look(self) -> None:
        """Inside a turn: fire what is due, and come back for the next."""
        if self._stopped:
            return
        now_us = self._read_clocks()
        scheduler = self._driver.scheduler
        for name in [name for name in scheduler.firings.by_name if name not in self._plans]:
            _log.info('schedule "%s" is gone', name)
            scheduler.firings.mark(name, None)
        wake_us = now_us + LOOK_US
        for plan in self._plans.values():
            try:
                wake_us = min(wake_us, self._bring_up(plan, now_us))
                self._unrefuse(plan)
            except Refusal as refusal:
                self._note_refusal(plan, refusal)
                wake_us = min(wake_us, now_us + AGAIN_US)
        if self._driver.engine.busy:
            wake_us = min(wake_us, now_us + AGAIN_US)  # what was fired may yet come back
        self._set_timer(wake_us - now_us)

    def _read_clocks(self) -> int:
        """The machine's time; the hall's own as long as they agree."""
        hall_us = self._driver.clock.now_us()
        skew_us = self._machine_us() - hall_us
        if abs(skew_us) < STEP_US:
            skew_us = 0
        if abs(skew_us - self._skew_us) >= SECOND_US:
            _log.warning(
                "the machine's clock was set by %+.1f s: schedules follow it",
                (skew_us - self._skew_us) / SECOND_US,
            )
        self._skew_us = skew_us
        return hall_us + skew_us

    def _set_timer(self, delay_us: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(delay_us, 0) / SECOND_US, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        self._driver.turn()
        self._look()

    # --- firing

    def _bring_up(self, plan: Plan, now_us: int) -> int:
        """Fire all that is due of one schedule; when to look at it again. Raises Refusal."""
        firing = self._driver.scheduler.firings.by_name.get(plan.name)
        if firing is None or firing.plan != plan.digest:
            firing = self._begin(plan, firing, now_us)
        self._note_ahead(plan, firing, now_us)
        due_us = self._next_due_us(plan, firing)
        late_from_us = now_us - max(plan.late_us, LATE_MIN_US)
        if due_us < late_from_us:
            self._catch_up(plan, firing, late_from_us)
            firing = self._driver.scheduler.firings.by_name[plan.name]
            due_us = self._next_due_us(plan, firing)
        while due_us - self._lead_us(firing, due_us) <= now_us:
            firing = self._fire(plan, due_us, now_us)
            due_us = self._next_due_us(plan, firing)
        return due_us - self._lead_us(firing, due_us)

    def _begin(self, plan: Plan, before: Firing | None, now_us: int) -> Firing:
        """A new plan counts from now; what fired ahead of time under another one is not fired again."""
        start_us = now_us
        if before is not None:
            start_us = max(now_us, min(before.due_us, now_us + LEAD_US))
            _log.info('schedule "%s" was changed, and begins anew', plan.name)
        firing = Firing(start_us, plan.digest)
        self._driver.scheduler.firings.mark(plan.name, firing)
        return firing

    def _note_ahead(self, plan: Plan, firing: Firing, now_us: int) -> None:
        """Say once that a schedule waits for the clock; once more if it is set back again later."""
        if firing.due_us <= now_us + LEAD_US:
            self._ahead.discard(plan.name)
        elif plan.name not in self._ahead:
            self._ahead.add(plan.name)
            _log.warning(
                'schedule "%s" has fired until %s, and waits for the clock to get there',
                plan.name,
                told(firing.due_us),
            )

    def _next_due_us(self, plan: Plan, firing: Firing) -> int:
        known = self._next.get(plan.name)
        if known is not None and known[0] == firing:
            return known[1]
        due_us = plan.next_due_us(firing.due_us)
        self._next[plan.name] = firing, due_us
        return due_us

    def _lead_us(self, firing: Firing, due_us: int) -> int:
        return 0 if self._skew_us else min(LEAD_US, (due_us - firing.due_us) // 2)

    def _fire(self, plan: Plan, due_us: int, now_us: int) -> Firing:
        scheduler = self._driver.scheduler
        firing = Firing(due_us, plan.digest)
        joined = scheduler.counters.joined
        start_us = due_us if due_us > now_us and not self._skew_us else 0
        job = scheduler.firings.fire(plan.name, firing, plan.job(due_us, start_us))
        if scheduler.counters.joined > joined:
            _log.info('schedule "%s", due %s, joined job %d of the same key', plan.name, told(due_us), job.id)
        return firing

    def _catch_up(self, plan: Plan, firing: Firing, late_from_us: int) -> None:
        """Due times before `late_from_us` have been missed: do as the plan wants. Raises Refusal, and then what
        came before it has fired.
        """
        first_us = self._next_due_us(plan, firing)
        most = CATCH_UP_MAX if plan.missed == "all" else 1
        latest = plan.latest_due(firing.due_us, late_from_us - 1, most)
        if plan.missed == "skip":
            self._driver.scheduler.firings.mark(plan.name, Firing(latest[-1], plan.digest))
            _tell_missed(plan, first_us, latest[-1], "skipped")
            return
        fired = 0
        try:
            for due_us in latest:
                self._fire(plan, due_us, late_from_us)
                fired += 1
        finally:
            if fired:
                text = f"fired for {fired} of them, from {told(latest[0])} on"
                _tell_missed(plan, first_us, latest[fired - 1], text)

    # --- refusals

    def _note_refusal(self, plan: Plan, refusal: Refusal) -> None:
        if self._refused.get(plan.name) != refusal.reason:
            self._refused[plan.name] = refusal.reason
            _log.warning('schedule "%s" cannot fire, and is tried again: %s', plan.name, refusal)

    def _unrefuse(self, plan: Plan) -> None:
        if self._refused.pop(plan.name, ""):
            _log.info('schedule "%s" fires again', plan.name)


def _tell_missed(plan: Plan, first_us: int, last_us: int, text: str) -> None:
    _log.warning(
        'schedule "%s" missed its times from %s to %s: %s', plan.name, told(first_us), told(last_us), text
    )


def told(at_us: int) -> str:
    """A time for people and programs alike."""
    return datetime.fromtimestamp(at_us / SECOND_US, UTC).isoformat()
