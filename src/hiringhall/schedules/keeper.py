"""The keeper: watches the clock, and submits the jobs of schedules that are due.

Invariant: a firing is stored together with its job, so each due time fires once, even if the hall crashes in
between. `Scheduler.firings` is the only memory, and reverts by itself if a commit fails. A due time that does
not fire is logged.

A job is submitted up to a second early, with its due time, so that it is on disk and starts on time. The keeper
uses the system clock, which may be changed; the hall's own clock never jumps. While the two differ, nothing is
submitted early.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import Firing
from hiringhall.core.errors import Refusal
from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import STATE_NAMES
from hiringhall.schedules.describing import CATCH_UP_MAX, Known

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from hiringhall.core.jobs import Job
    from hiringhall.engine.driver import Driver
    from hiringhall.schedules.book import Book
    from hiringhall.schedules.pauses import Pause
    from hiringhall.schedules.plan import Plan

LEAD_US: Final = SECOND_US
"""A job is submitted this early, or half the time since the previous due time if that is less."""
RETRY_US: Final = SECOND_US
"""After a refusal, and until firings are on disk, the next check comes no later than this."""
LATE_MIN_US: Final = SECOND_US
"""A due time is missed only when it is later than this: timers are never exactly on time."""
CHECK_US: Final = 60 * SECOND_US
"""The longest time between two checks: a change of the clock is noticed within it."""
STEP_US: Final = SECOND_US // 10
"""Clocks that differ by less than this count as equal."""

_log = logging.getLogger("hiringhall")


def machine_us() -> int:
    """The system clock."""
    return time.time_ns() // 1000


class Keeper:
    """All schedules of one hall. Everything runs inside turns of the driver."""

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
        """None: a hall in memory has no book."""
        self._machine_us = machine
        self.written: dict[str, Plan] = {}
        """The schedules of the book; in memory, those that peers have added."""
        self.pauses: dict[str, Pause] = {}
        """The latest pause of each schedule that had one."""
        self._last_ids: dict[str, int] = {}
        """The latest job of each schedule that has fired since the hall started."""
        self._loaded = False
        self._plans: dict[str, Plan] = {}
        self._next: dict[str, tuple[Firing, int]] = {}
        """The due time after a firing, computed once."""
        self._refused: dict[str, str] = {}
        """Schedules whose job was refused, with the reason: each reason is logged once."""
        self._ahead: set[str] = set()
        """Schedules whose last firing is in the future, because the clock was set back."""
        self._skew_us = 0
        """How far the system clock was ahead of the hall's at the last check."""
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def load(self) -> None:
        """Read the book, and what is paused. Raises BookError."""
        if self._book is not None:
            written, self.pauses = self._book.read_all()
            self._take_over(written)
        else:
            self._take_over({})
        self._loaded = True

    def start(self) -> None:
        """Start, and read the book unless that was done. Raises BookError."""
        if not self._loaded:
            self.load()
        if self._plans:
            self._log_count(self.written)
        self._driver.run_soon(self._check)

    def reload(self, written: Mapping[str, Plan], pauses: Mapping[str, Pause]) -> None:
        """Take over what was read again, inside a turn."""
        if self._stopped:
            return
        self.pauses = dict(pauses)
        self._take_over(written)
        self._log_count(written)
        self._check()

    def apply(self, written: Mapping[str, Plan]) -> None:
        """Take over schedules that a peer has changed, inside a turn. They are on disk."""
        self._take_over(written)
        self._check()

    def apply_pauses(self, pauses: Mapping[str, Pause]) -> None:
        """Take over what a peer has paused or resumed, inside a turn. It is on disk."""
        self.pauses = dict(pauses)
        self._check()

    def run(self, name: str) -> Job | None:
        """Fire a schedule once, now, inside a turn. Its due times stay as they are, and a pause too. None:
        there is none of that name. Raises Refusal.
        """
        plan = self._plans.get(name)
        if plan is None:
            return None
        job = self._driver.scheduler.submit(plan.job(self.time_us(), 0), None)
        self._last_ids[name] = job.id
        _log.info('schedule "%s" was run by hand: job %d', name, job.id)
        return job

    def time_us(self) -> int:
        """The time by which schedules are due."""
        return self._machine_us()

    def is_known(self, name: str) -> bool:
        """Whether there is a schedule with this name."""
        return name in self._plans

    def is_configured(self, name: str) -> bool:
        """Whether the settings define a schedule with this name."""
        return name in self._configured

    def known(self) -> list[Known]:
        """All schedules, by name."""
        by_name = self._driver.scheduler.firings.by_name
        book = self._book.where if self._book is not None else "memory"
        known: list[Known] = []
        for name, plan in sorted(self._plans.items()):
            defined = "settings" if name in self._configured else book
            last_id = self._last_ids.get(name)
            job = self._driver.scheduler.find(last_id) if last_id is not None else None
            state = STATE_NAMES[job.state] if job is not None else None
            known.append(Known(plan, defined, by_name.get(name), self.pauses.get(name), last_id, state))
        return known

    def stop_taking(self) -> None:
        """The hall drains: fire nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        self.stop_taking()

    def _take_over(self, written: Mapping[str, Plan]) -> None:
        for name in written:
            if name in self._configured:
                _log.warning('schedule "%s" is in the settings and in the book: the settings win', name)
        before = self._plans
        self.written = dict(written)
        self._plans = {**written, **self._configured}
        self._ahead.intersection_update(self._plans)
        self._last_ids = {name: job for name, job in self._last_ids.items() if name in self._plans}
        for name, plan in list(self._plans.items()):
            known = before.get(name)
            if known == plan:
                self._plans[name] = known  # it has computed its terms and its digest
                continue
            for field, problem in plan.excesses(self._driver.scheduler.limits):
                _log.error('schedule "%s" will be refused: its %s %s', plan.name, field, problem)
        self._next = {name: known for name, known in self._next.items() if name in self._plans}
        self._refused.clear()

    def _log_count(self, written: Mapping[str, Plan]) -> None:
        _log.info("schedules: %d, of them %d from the book", len(self._plans), len(written))

    # --- checking

    def _check(self) -> None:
        """Fire what is due, inside a turn, and set the timer for the next check."""
        if self._stopped:
            return
        now_us = self._read_clocks()
        scheduler = self._driver.scheduler
        for name in [name for name in scheduler.firings.by_name if name not in self._plans]:
            _log.info('schedule "%s" was removed', name)
            scheduler.firings.mark(name, None)
        wake_us = now_us + CHECK_US
        for plan in self._plans.values():
            pause = self.pauses.get(plan.name)
            if pause is not None and not pause.until_us:
                continue
            try:
                wake_us = min(wake_us, self._fire_due(plan, now_us))
                self._note_recovery(plan)
            except Refusal as refusal:
                self._note_refusal(plan, refusal)
                wake_us = min(wake_us, now_us + RETRY_US)
        if self._driver.engine.busy:
            wake_us = min(wake_us, now_us + RETRY_US)  # a failed commit would undo the firings
        self._set_timer(wake_us - now_us)

    def _read_clocks(self) -> int:
        """The time of the system clock; that of the hall's clock if they agree."""
        hall_us = self._driver.clock.now_us()
        skew_us = self._machine_us() - hall_us
        if abs(skew_us) < STEP_US:
            skew_us = 0
        if abs(skew_us - self._skew_us) >= SECOND_US:
            _log.warning(
                "the system clock changed by %+.1f s: schedules follow it",
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
        self._check()

    # --- firing

    def _fire_due(self, plan: Plan, now_us: int) -> int:
        """Fire all due times of one schedule. Return when to check it again. Raises Refusal."""
        firing = self._driver.scheduler.firings.by_name.get(plan.name)
        if firing is None or firing.plan != plan.digest:
            firing = self._begin(plan, firing, now_us)
        firing = self._skip_pause(plan, firing)
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
        """A new plan starts now. A due time that the old plan has fired early is not fired again."""
        start_us = now_us
        if before is not None:
            start_us = max(now_us, min(before.due_us, now_us + LEAD_US))
            _log.info('schedule "%s" was changed, and starts over', plan.name)
        firing = Firing(start_us, plan.digest)
        self._driver.scheduler.firings.mark(plan.name, firing)
        return firing

    def _skip_pause(self, plan: Plan, firing: Firing) -> Firing:
        """Due times within a pause do not fire: the schedule goes on from the end of the pause."""
        pause = self.pauses.get(plan.name)
        if pause is None or pause.until_us <= firing.due_us:
            return firing
        resumed = Firing(pause.until_us, plan.digest)
        self._driver.scheduler.firings.mark(plan.name, resumed)
        return resumed

    def _note_ahead(self, plan: Plan, firing: Firing, now_us: int) -> None:
        """Log once that a schedule waits for the clock; again if the clock is set back again later."""
        if firing.due_us <= now_us + LEAD_US:
            self._ahead.discard(plan.name)
        elif plan.name not in self._ahead:
            self._ahead.add(plan.name)
            _log.warning(
                'schedule "%s" has already fired until %s, and waits until then',
                plan.name,
                utc_text(firing.due_us),
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
        self._last_ids[plan.name] = job.id
        if scheduler.counters.joined > joined:
            _log.info(
                'schedule "%s", due %s, joined job %d with the same key', plan.name, utc_text(due_us), job.id
            )
        return firing

    def _catch_up(self, plan: Plan, firing: Firing, late_from_us: int) -> None:
        """Due times before `late_from_us` were missed: apply the plan's `missed`. Raises Refusal; the due times
        before the refused one have fired.
        """
        first_us = self._next_due_us(plan, firing)
        most = CATCH_UP_MAX if plan.missed == "all" else 1
        latest = plan.latest_due(firing.due_us, late_from_us - 1, most)
        if plan.missed == "skip":
            self._driver.scheduler.firings.mark(plan.name, Firing(latest[-1], plan.digest))
            _log_missed(plan, first_us, latest[-1], "skipped")
            return
        fired = 0
        try:
            for due_us in latest:
                self._fire(plan, due_us, late_from_us)
                fired += 1
        finally:
            if fired:
                text = f"fired for {fired} of them, from {utc_text(latest[0])} on"
                _log_missed(plan, first_us, latest[fired - 1], text)

    # --- refusals

    def _note_refusal(self, plan: Plan, refusal: Refusal) -> None:
        if self._refused.get(plan.name) != refusal.reason:
            self._refused[plan.name] = refusal.reason
            _log.warning('schedule "%s" cannot fire, and will be retried: %s', plan.name, refusal)

    def _note_recovery(self, plan: Plan) -> None:
        if self._refused.pop(plan.name, ""):
            _log.info('schedule "%s" fires again', plan.name)


def _log_missed(plan: Plan, first_us: int, last_us: int, text: str) -> None:
    _log.warning(
        'schedule "%s" missed its due times from %s to %s: %s',
        plan.name,
        utc_text(first_us),
        utc_text(last_us),
        text,
    )


def utc_text(at_us: int) -> str:
    """A time for the log, in ISO 8601 and UTC."""
    return datetime.fromtimestamp(at_us / SECOND_US, UTC).isoformat()
