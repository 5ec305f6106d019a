"""The blocking face: an event loop in its own thread, which runs coroutines for callers of any thread.

Invariant: the thread is a daemon and is stopped at the latest when the interpreter exits, so that a forgotten
`close()` neither hangs nor warns. After `stop` no call is accepted, so all that were accepted have a task or a
reply when these are cancelled, and no caller waits for a loop that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
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


class Reply(Generic[T]):
    """What a caller in another thread waits for. Set on the loop, like a future; later values are ignored."""

    __slots__ = ("_error", "_replies", "_set", "_value")

    def __init__(self, replies: set[Reply[Any]]) -> None:
        self._replies = replies
        """Those that are not set yet. Used on the loop only, like the methods up to `wait`."""
        self._value: T | None = None
        self._error: BaseException | None = None
        self._set = threading.Lock()
        """Held until it is set."""
        self._set.acquire()

    def begin(self, action: Callable[[Reply[T]], None]) -> None:
        """Call the action, which is to set this reply later."""
        self._replies.add(self)
        try:
            action(self)
        except BaseException as error:  # noqa: BLE001 (it belongs to the caller)
            self.set_exception(error)

    def done(self) -> bool:
        return self not in self._replies

    def set_result(self, value: T) -> None:
        if self in self._replies:
            self._replies.remove(self)
            self._value = value
            self._set.release()

    def set_exception(self, error: BaseException) -> None:
        if self in self._replies:
            self._replies.remove(self)
            self._error = error
            self._set.release()

    def wait(self) -> T:
        self._set.acquire()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set without an error: a T


class LoopThread:
    """Started when it is made."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = uvloop.new_event_loop() if loop is None else loop
        self._lock = threading.Lock()
        self._stopped = False
        self._replies: set[Reply[Any]] = set()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. After Ctrl-C, or any other exception here, it is cancelled."""
        waiting = _Call(call, self.loop)
        try:
            self._refuse_own_thread()
            self._schedule(waiting.start)
        except BaseException:
            call.close()
            raise
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

    def ask(self, action: Callable[[Reply[T]], None]) -> T:
        """Call the action on the loop with a reply, and return what that is set to. Unlike `run` this needs no
        task. After Ctrl-C, or any other exception here, the reply is dropped.
        """
        self._refuse_own_thread()
        reply: Reply[T] = Reply(self._replies)
        self._schedule(partial(reply.begin, action))
        try:
            return reply.wait()
        except BaseException as error:
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(reply.set_exception, error)
            raise

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine without waiting for it."""
        try:
            self._schedule(_Call(call, self.loop).start)
        except BaseException:
            call.close()
            raise

    def _refuse_own_thread(self) -> None:
        if threading.current_thread() is self.thread:
            raise RuntimeError("a blocking call on the SDK's own event loop would wait for itself")

    def _schedule(self, start: Callable[[], object]) -> None:
        with self._lock:
            if self._stopped:
                raise HallUnreachable(CLOSED)
            self.loop.call_soon_threadsafe(start)

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
            for reply in list(self._replies):
                reply.set_exception(HallUnreachable(CLOSED))
            while tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
