"""Threads for peers: blocking callers use asyncio through a thread, and blocking handlers run in threads.

Invariant: asyncio objects are used only from their own event loop, and every thread is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Executor
    from types import TracebackType


_OWN_THREAD: Final = "a blocking call from the client's own thread would wait for itself: use another thread"


class Closable(Protocol):
    """A client or something similar."""

    async def close(self) -> None: ...


class Runnable(Protocol):
    """A worker or something similar. `stop` may be called before `run`."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Task = TypeVar("Task")
Asked = TypeVar("Asked", bound=Closable)
Ran = TypeVar("Ran", bound=Runnable)


class SyncClient(Generic[Asked]):
    """The blocking form of an asyncio client, with an event loop in its own thread.

    Callbacks, such as a listener, run in that thread. A blocking call from there would wait for itself, so it
    raises RuntimeError; make it from another thread.
    """

    def __init__(self, asynchronous: Asked, thread_name: str, timeout_s: float | None) -> None:
        self.asynchronous = asynchronous
        self.timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=thread_name, daemon=True)
        self._thread.start()

    def wait_for(self, call: Coroutine[Any, Any, Answer], timeout_s: float | None = None) -> Answer:
        """The result of any call of the asyncio client. Raises TimeoutError after `timeout_s`.

        Raises RuntimeError in the loop's own thread.
        """
        if self._on_own_thread():
            call.close()
            raise RuntimeError(_OWN_THREAD)
        within_s = self.timeout_s if timeout_s is None else timeout_s
        answer: Future[Answer] = Future()
        try:
            self._loop.call_soon_threadsafe(_start_call, _within(call, within_s), answer)
            return answer.result()
        finally:
            # After a KeyboardInterrupt, which may come at any moment, nobody waits for it.
            answer.cancel()

    def close(self) -> None:
        """Disconnect from all servers. Raises RuntimeError in the loop's own thread."""
        if self._on_own_thread():
            raise RuntimeError(_OWN_THREAD)
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _call_on_loop(self, call: Callable[[], Answer]) -> Answer:
        """Call a function on the loop and return its result."""
        if self._on_own_thread() or not self._thread.is_alive():
            return call()

        async def do() -> Answer:
            return call()

        return self.wait_for(do())

    def _on_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    async def _close(self) -> None:
        await self.asynchronous.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start_call(call: Coroutine[Any, Any, Answer], answer: Future[Answer]) -> None:
    """On the loop: start the call, pass on its answer, and cancel it when nobody waits for it."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(call)
    task.add_done_callback(functools.partial(_pass_answer, answer))
    answer.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))


def _pass_answer(answer: Future[Answer], task: asyncio.Task[Answer]) -> None:
    if task.cancelled():
        answer.cancel()
        return
    error = task.exception()
    if not answer.set_running_or_notify_cancel():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


async def _within(call: Coroutine[Any, Any, Answer], timeout_s: float | None) -> Answer:
    async with asyncio.timeout(timeout_s):
        return await call


def blocking(
    method: Callable[Concatenate[Asked, Args], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[SyncClient[Asked], Args], Answer]:
    """The blocking form of a method, with the same arguments and docstring."""

    def call(client: SyncClient[Asked], /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return client.wait_for(method(client.asynchronous, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Runner(Generic[Ran]):
    """The blocking form of an asyncio worker: runs in the calling thread or, using `with`, in its own."""

    def __init__(self, asynchronous: Ran, thread_name: str) -> None:
        self.asynchronous = asynchronous
        self._thread_name = thread_name
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while it runs."""
        self._stop_asked = False
        self._thread: threading.Thread | None = None

    def stop(self) -> None:
        """Take no more jobs; it ends when the running ones are done."""
        self._stop_asked = True
        self._call_soon(self.asynchronous.stop)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run_here, name=self._thread_name, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._thread is not None
        self._thread.join()

    def _run_here(self) -> None:
        asyncio.run(self._run())

    def _run_until_interrupted(self) -> None:
        """Ctrl-C disconnects at once, so that others get the running jobs, and is not an error. A function that
        runs in a thread is still waited for.
        """
        with contextlib.suppress(KeyboardInterrupt):
            self._run_here()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stop_asked:
            self.asynchronous.stop()
        try:
            await self.asynchronous.run()
        finally:
            self._loop = None

    def _call_soon(self, call: Callable[[], None]) -> None:
        """Call a function on the loop, or at once if there is no loop."""
        loop = self._loop
        if loop is None:
            call()
        else:
            loop.call_soon_threadsafe(call)


def is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code runs on this loop, not in another thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def call_handler(
    handler: Callable[[Task], bytes | Awaitable[bytes | None] | None], task: Task, threads: Executor
) -> object:
    """Call a handler and return its result. One that is not asynchronous runs in a thread."""
    if inspect.iscoroutinefunction(handler):
        return await handler(task)
    call = asyncio.get_running_loop().run_in_executor(threads, _call_in_thread, handler, task)
    try:
        result = await asyncio.shield(call)
    except asyncio.CancelledError:
        # A thread cannot be cancelled: the worker is free when it returns.
        await asyncio.wait([call])
        raise
    return await result if inspect.isawaitable(result) else result


def _call_in_thread(handler: Callable[[Task], Answer], task: Task) -> Answer:
    """In the thread: turn StopIteration into RuntimeError, as coroutines do: a future cannot carry it."""
    try:
        return handler(task)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error
