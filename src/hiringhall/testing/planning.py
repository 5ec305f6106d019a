"""The schedules of the hall of a test: the real keeper and editor, by its clock and without a thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from hiringhall.core.errors import Refusal
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.editor import Editor
from hiringhall.schedules.keeper import Keeper

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.scheduler import Scheduler
    from hiringhall.engine.turn import Engine

T = TypeVar("T")


class Clocked(Protocol):
    """The hall, as its schedules see it."""

    now_us: int
    scheduler: Scheduler


class Planning:
    """Stands for the driver, its clock and the event loop, as keeper and editor use them. All inside turns."""

    def __init__(self, hall: Clocked, engine: Engine) -> None:
        self._hall = hall
        self.engine = engine
        self.scheduler = hall.scheduler
        self.clock = self
        self._timer: _Timer | None = None
        self._keeper = Keeper(cast("Any", self), cast("Any", self), (), None, self.now_us)
        self._keeper.load()
        self.editor = _Editor(cast("Any", self), cast("Any", self), self._keeper, None, os.getpid())

    def next_us(self) -> int:
        """When a schedule may be due; 0: there is none."""
        return self._timer.at_us if self._timer is not None and self._keeper.written else 0

    def check(self) -> None:
        """Fire what is due, inside a turn."""
        timer = self._timer
        if timer is not None and timer.at_us <= self._hall.now_us:
            self._timer = None
            timer.action()

    # --- for the keeper

    def now_us(self) -> int:
        return self._hall.now_us

    def turn(self) -> None:
        """It is open."""

    def call_later(self, delay_s: float, action: Callable[[], None]) -> _Timer:
        self._timer = _Timer(self._hall.now_us + round(delay_s * SECOND_US), action)
        return self._timer


class _Timer:
    """The keeper has one at a time, and replaces it when it cancels it."""

    def __init__(self, at_us: int, action: Callable[[], None]) -> None:
        self.at_us = at_us
        self.action = action

    def cancel(self) -> None:
        """The next one is set at once."""


class _Editor(Editor):
    """Works at once."""

    def _run(
        self, work: Callable[[], T], finish: Callable[[T], None], refuse: Callable[[Refusal], None]
    ) -> None:
        try:
            result = work()
        except Refusal as refusal:
            refuse(refusal)
        else:
            finish(result)
