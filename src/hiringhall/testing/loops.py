"""An event loop whose clock is that of the stage, and which tells when it has nothing to do.

Invariant: it never waits for time to pass. While it is idle it sleeps until another thread gives it something
to do; who moves the clock wakes it.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class _Selector(selectors.DefaultSelector):
    """Asks the loop before it sleeps."""

    loop: StageLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        return self.loop.sleep(timeout)

    def poll(self) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(0)

    def block(self) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(None)


class StageLoop(asyncio.SelectorEventLoop):
    """`clock` gives the seconds of the stage. `on_idle`, if any, is called on the loop's own thread when it is
    idle; true: it has found something to do.
    """

    def __init__(self, clock: Callable[[], float], on_idle: Callable[[StageLoop], bool] | None = None) -> None:
        # Before the base class, which uses the selector and the clock.
        self._clock = clock
        self._on_idle = on_idle
        self._state = threading.Condition(threading.RLock())
        self._idle = False
        self._due_s: float | None = None
        self._stage_selector = _Selector()
        self._stage_selector.loop = self
        super().__init__(self._stage_selector)

    def time(self) -> float:
        return self._clock()

    @property
    def due_s(self) -> float | None:
        """When its next timer is due, while it is idle; None: it has none."""
        return self._due_s

    def sleep(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Called by the selector."""
        selector = self._stage_selector
        with self._state:
            events = selector.poll()
            if events:
                return events
            self._due_s = None if timeout is None else self.time() + timeout
            if self._on_idle is None:
                self._idle = True
                self._state.notify_all()
        if self._on_idle is not None:
            return selector.poll() if self._on_idle(self) else selector.block()
        try:
            return selector.block()
        finally:
            with self._state:
                self._idle = False

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        with self._state:
            self._idle = False
            return super().call_soon_threadsafe(*args, **kwargs)

    def wake(self) -> None:
        """The clock was moved: look at the timers."""
        if not self.is_closed():
            self.call_soon_threadsafe(_nothing)

    def wait_until_idle(self, answer: Future[Any]) -> None:
        """For another thread: wait until the answer is there, or the loop can do nothing more for it."""
        with self._state:
            while not self._idle and not answer.done():
                self._state.wait()


def _nothing() -> None:
    pass
