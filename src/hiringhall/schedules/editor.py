"""The editor: lists, adds and removes schedules for the peers of a running hall.

Invariant: the loop never waits for the book or for a calendar. Both are used by one thread, in the order of the
requests, so that what the keeper takes over last is the newest. Each answer comes inside a turn, and a change
is acknowledged when it is on disk. A hall in memory keeps the change in memory.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hiringhall.core.errors import BAD_REQUEST, CLOSING, HALL_FULL, STORE_DOWN, Refusal
from hiringhall.core.terms import HIGH, LOW
from hiringhall.schedules.book import BookError, BookFull, NameTaken, put
from hiringhall.schedules.describing import describe
from hiringhall.schedules.keeper import machine_us
from hiringhall.schedules.pauses import PauseError, changed
from hiringhall.schedules.plan import NUMBERS, Plan

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hiringhall.core.jobs import Job
    from hiringhall.core.limits import Limits
    from hiringhall.core.terms import Terms
    from hiringhall.engine.driver import Driver
    from hiringhall.schedules.book import Book
    from hiringhall.schedules.keeper import Keeper
    from hiringhall.schedules.pauses import Pause
    from hiringhall.schedules.plan import Priority

PENDING_MAX: Final = 1000
"""Requests that may wait for the thread."""
MEMORY: Final = "the memory for schedules"
CHECK_S: Final = 1.0
"""How often a book that others may change is looked at."""

_log = logging.getLogger("hiringhall")

_Result = TypeVar("_Result")


class Editor:
    """What the doors of one hall can do with its schedules. All calls come inside a turn."""

    def __init__(
        self,
        driver: Driver,
        loop: asyncio.AbstractEventLoop,
        keeper: Keeper,
        book: Book | None,
        pid: int,
    ) -> None:
        self._driver = driver
        self._loop = loop
        self._keeper = keeper
        self._book = book
        """None: a hall in memory has no book."""
        self._pid = pid
        self._pending = 0
        self._closed = False
        self._worker = ThreadPoolExecutor(1, "hall-schedules")
        """Has no thread until there is something to do."""
        self._timer: asyncio.TimerHandle | None = None
        self._stamps = book.stamps() if book is not None and book.shared else None
        """Of the book that was read last. Used by the thread."""
        self._looking = False
        self._unreachable = False
        """The book could not be looked at the last time."""

    def start(self) -> None:
        if self._book is not None and self._book.shared:
            self._timer = self._loop.call_later(CHECK_S, self._look)

    def stop_taking(self) -> None:
        """What was asked for is still done."""

    async def close(self) -> None:
        """Wait for what was asked for; its answers are sent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._loop.run_in_executor(None, self._worker.shutdown)

    def reread(self) -> None:
        """Read the book again. If it cannot be read, the schedules stay unchanged."""
        if self._book is None:
            return
        try:
            self._run(self._book.read_all, lambda read: self._keeper.reload(*read), _log_not_reloaded)
        except Refusal as refusal:
            _log_not_reloaded(refusal)

    def describe(
        self, position: int, count: int, done: Callable[[list[dict[str, Any]], Refusal | None], None]
    ) -> None:
        known = self._keeper.known()[position : position + count]

        def work() -> list[dict[str, Any]]:
            now_us = machine_us()
            return [describe(one, now_us, self._pid) for one in known]

        self._run(work, lambda lines: done(lines, None), lambda refusal: done([], refusal))

    def add(
        self, stated: dict[str, Any], terms: Terms, replace: bool, done: Callable[[Refusal | None], None]
    ) -> None:
        plan = _plan(stated, terms)
        self._refuse_configured(plan.name)
        limits = self._driver.scheduler.limits
        book = self._book

        def work() -> dict[str, Plan] | None:
            _check(plan, limits)
            return book.add(plan, replace=replace) if book is not None else None

        def finish(written: dict[str, Plan] | None) -> None:
            try:
                if written is None:
                    written = dict(self._keeper.written)
                    put(written, plan, replace=replace, where=MEMORY)
            except BookError as error:
                done(_refusal(error))
                return
            self._keeper.apply(written)
            done(None)

        self._run(work, finish, done)

    def remove(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        self._refuse_configured(name)
        book = self._book

        def work() -> tuple[dict[str, Plan], bool] | None:
            return book.discard(name) if book is not None else None

        def finish(result: tuple[dict[str, Plan], bool] | None) -> None:
            if result is None:
                written = dict(self._keeper.written)
                found = written.pop(name, None) is not None
            else:
                written, found = result
            if not found:
                done(_unknown(name))
                return
            self._keeper.apply(written)
            done(None)

        self._run(work, finish, done)

    def pause(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        self._set_paused(name, True, done)

    def resume(self, name: str, done: Callable[[Refusal | None], None]) -> None:
        self._set_paused(name, False, done)

    def _set_paused(self, name: str, paused: bool, done: Callable[[Refusal | None], None]) -> None:
        if not self._keeper.is_known(name):
            raise _unknown(name)
        book, at_us = self._book, self._keeper.time_us()
        before = self._keeper.pauses

        def work() -> dict[str, Pause] | None:
            try:
                if book is not None:
                    return book.pauses.change(name, paused=paused, at_us=at_us)
                changed(before, name, paused=paused, at_us=at_us)  # refuses what is too much
            except PauseError as error:
                raise Refusal(STORE_DOWN, str(error)) from error
            return None

        def finish(pauses: dict[str, Pause] | None) -> None:
            if pauses is None:
                pauses = changed(self._keeper.pauses, name, paused=paused, at_us=at_us)
            self._keeper.apply_pauses(pauses)
            done(None)

        self._run(work, finish, done)

    def run(self, name: str) -> Job:
        job = self._keeper.run(name)
        if job is None:
            raise _unknown(name)
        return job

    def _look(self) -> None:
        """Once a second: has somebody else changed the book?"""
        self._timer = self._loop.call_later(CHECK_S, self._look)
        book = self._book
        assert book is not None
        if self._looking or self._pending >= PENDING_MAX:
            return
        self._looking = True

        def work() -> tuple[dict[str, Plan], dict[str, Pause]] | None:
            stamps = book.stamps()
            if stamps == self._stamps:
                return None
            read = book.read_all()
            self._stamps = stamps
            return read

        def finish(read: tuple[dict[str, Plan], dict[str, Pause]] | None) -> None:
            self._looking = self._unreachable = False
            if read is not None and read != (self._keeper.written, self._keeper.pauses):
                self._keeper.reload(*read)

        def refuse(refusal: Refusal) -> None:
            self._looking = False
            if not self._unreachable:
                self._unreachable = True
                _log_not_reloaded(refusal)

        self._run(work, finish, refuse)

    def _refuse_configured(self, name: str) -> None:
        if self._keeper.is_configured(name):
            raise Refusal(BAD_REQUEST, f'name: schedule "{name}" is defined in the settings of the hall')

    # --- the thread

    def _run(
        self,
        work: Callable[[], _Result],
        finish: Callable[[_Result], None],
        refuse: Callable[[Refusal], None],
    ) -> None:
        """Do the work in the thread, and call one of the others inside a later turn."""
        if self._closed:
            raise Refusal(CLOSING, "the hall is closing")
        if self._pending >= PENDING_MAX:
            raise Refusal(HALL_FULL, f"{PENDING_MAX} requests about schedules are under way")
        self._pending += 1

        def run() -> None:
            """Runs in the thread."""
            try:
                result = work()
            except Refusal as refusal:
                self._answer(refuse, refusal)
            except BookError as error:
                self._answer(refuse, _refusal(error))
            except Exception as error:  # noqa: BLE001 (a bug of ours: it is raised on the loop)
                self._loop.call_soon_threadsafe(_fail_loudly, error)
            else:
                self._answer(finish, result)

        self._worker.submit(run)

    def _answer(self, call: Callable[[_Result], None], result: _Result) -> None:
        """Called in the thread."""
        self._loop.call_soon_threadsafe(self._inside_a_turn, call, result)

    def _inside_a_turn(self, call: Callable[[_Result], None], result: _Result) -> None:
        self._pending -= 1
        self._driver.turn()
        call(result)


def _fail_loudly(error: Exception) -> None:
    raise error


def _log_not_reloaded(refusal: Refusal) -> None:
    _log.error("the schedules were not reloaded: %s", refusal.text)


def _plan(stated: dict[str, Any], terms: Terms) -> Plan:
    priority: Priority = "high" if terms.priority == HIGH else "low" if terms.priority == LOW else "normal"
    numbers = {field: getattr(terms, term) for field, term in NUMBERS.items()}
    return Plan(**stated, priority=priority, **numbers)


def _check(plan: Plan, limits: Limits) -> None:
    """Refuse a plan with a fault, and one whose jobs the hall would refuse."""
    for field, problem in plan.faults():
        # A plan calls it `every`, in the words of the settings.
        raise Refusal(BAD_REQUEST, f"{'every_us' if field == 'every' else field}: {problem}")
    for field, problem in plan.excesses(limits):
        raise Refusal(BAD_REQUEST, f"{field}: {problem}")


def _unknown(name: str) -> Refusal:
    return Refusal(BAD_REQUEST, f'name: there is no schedule "{name}"')


def _refusal(error: BookError) -> Refusal:
    if isinstance(error, NameTaken):
        return Refusal(BAD_REQUEST, f"name: {error}")
    return Refusal(HALL_FULL if isinstance(error, BookFull) else STORE_DOWN, str(error))
