"""The blocking face: an event loop in its own thread, which runs coroutines for callers of any thread.

Invariant: the thread is a daemon and is stopped at the latest when the interpreter exits, so that a forgotten
`close()` neither hangs nor warns. After `stop` no call is accepted, so all that were accepted have a task when
the tasks are cancelled, and no caller waits for a loop that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import uvloop

from hiringhall.sdk.errors import HallUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
CLOSED: Final = "the connection to the hall was closed by this program"
STOP_S: Final = 5.0
"""How long the thread may take to end."""


class _Call(Generic[T]):
    """A coroutine that runs on the loop for a caller that waits. A lock costs half of what a Future of
    `concurrent.futures` does, and a caller of one job at a time waits twice for each.
    """

    __slots__ = ("_coroutine", "_ended", "_loop", "_task")

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._ended = threading.Lock()
        """Held until the task has ended."""
        self._ended.acquire()

    def start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._done)

    def _done(self, _: asyncio.Task[T]) -> None:
        self._ended.release()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def wait(self) -> T:
        self._ended.acquire()
        assert self._task is not None
        return self._task.result()


class LoopThread:
    """Started when it is made."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = uvloop.new_event_loop() if loop is None else loop
        self._lock = threading.Lock()
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. After Ctrl-C, or any other exception here, it is cancelled."""
        if threading.current_thread() is self.thread:
            call.close()
            raise RuntimeError("a blocking call on the SDK's own event loop would wait for itself")
        waiting = _Call(call, self.loop)
        self._schedule(call, waiting.start)
        try:
            return waiting.wait()
        except asyncio.CancelledError:
            if self._stopped:
                raise HallUnreachable(CLOSED) from None
            raise
        except BaseException:
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(waiting.cancel)
            raise

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine without waiting for it."""
        self._schedule(call, _Call(call, self.loop).start)

    def _schedule(self, call: Coroutine[Any, Any, object], start: Callable[[], None]) -> None:
        with self._lock:
            if not self._stopped:
                self.loop.call_soon_threadsafe(start)
                return
        call.close()
        raise HallUnreachable(CLOSED)

    def stop(self) -> None:
        """Cancel what runs, and end the thread."""
        with self._lock:
            if not self._stopped:
                self._stopped = True
                self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self.thread:
            self.thread.join(STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            # Calls of other threads may still come in: each must end, since its caller waits for it.
            while tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
