"""Where peers meet threads: asyncio for callers that block, and handlers that block beside asyncio.

The law: nothing asynchronous is touched but from its own loop, and no thread is left behind.
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


_OWN_THREAD: Final = "a blocking call from the thread that would answer it: make it from another thread"


class Closable(Protocol):
    """A client, or the like."""

    async def close(self) -> None: ...


class Runnable(Protocol):
    """A worker, or the like. `stop` may come before `run`."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


Args = ParamSpec("Args")
Answer = TypeVar("Answer")
Task = TypeVar("Task")
Asked = TypeVar("Asked", bound=Closable)
Ran = TypeVar("Ran", bound=Runnable)


class SyncClient(Generic[Asked]):
    """Something asynchronous that answers calls, with an event loop in a thread of its own.

    What it calls back, such as a listener, runs in that thread. A blocking call from there would wait for
    itself, and raises RuntimeError: such a call is made from another thread.
    """

    def __init__(self, asynchronous: Asked, thread_name: str, timeout_s: float | None) -> None:
        self.asynchronous = asynchronous
        self.timeout_s = timeout_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=thread_name, daemon=True)
        self._thread.start()

    def wait_for(self, call: Coroutine[Any, Any, Answer], timeout_s: float | None = None) -> Answer:
        """The answer of any call of the asynchronous one; raises TimeoutError after `timeout_s`.

        From the loop's own thread it raises RuntimeError.
        """
        if self._is_here():
            call.close()
            raise RuntimeError(_OWN_THREAD)
        within_s = self.timeout_s if timeout_s is None else timeout_s
        answer: Future[Answer] = Future()
        try:
            self._loop.call_soon_threadsafe(_begin, _within(call, within_s), answer)
            return answer.result()
        finally:
            # Nobody waits for it after a KeyboardInterrupt, which may come at any moment of this.
            answer.cancel()

    def close(self) -> None:
        """Leave all servers. From the loop's own thread it raises RuntimeError."""
        if self._is_here():
            raise RuntimeError(_OWN_THREAD)
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _have_done(self, call: Callable[[], Answer]) -> Answer:
        """Have something done on the loop; it has happened when this returns."""
        if self._is_here() or not self._thread.is_alive():
            return call()

        async def do() -> Answer:
            return call()

        return self.wait_for(do())

    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    async def _leave(self) -> None:
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


def _begin(call: Coroutine[Any, Any, Answer], answer: Future[Answer]) -> None:
    """On the loop: make the call, tell its answer, and give it up when nobody waits any more."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(call)
    task.add_done_callback(functools.partial(_tell_answer, answer))
    answer.add_done_callback(lambda _: loop.call_soon_threadsafe(task.cancel))


def _tell_answer(answer: Future[Answer], task: asyncio.Task[Answer]) -> None:
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
    """The same method, same arguments, same words of explanation; it waits."""

    def call(face: SyncClient[Asked], /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return face.wait_for(method(face.asynchronous, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Runner(Generic[Ran]):
    """Something asynchronous that runs until it is stopped, here or, using `with`, in a thread beside."""

    def __init__(self, asynchronous: Ran, thread_name: str) -> None:
        self.asynchronous = asynchronous
        self._thread_name = thread_name
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while it runs."""
        self._stop_asked = False
        self._thread: threading.Thread | None = None

    def stop(self) -> None:
        """Take nothing more on; it ends when what is under way is done."""
        self._stop_asked = True
        self._tell(self.asynchronous.stop)

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
        """Ctrl-C leaves the servers at once, so that others are given what is under way, and is no error. A
        function that runs in a thread is still waited for.
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

    def _tell(self, call: Callable[[], None]) -> None:
        """Have something done on the loop, or at once when there is none."""
        loop = self._loop
        if loop is None:
            call()
        else:
            loop.call_soon_threadsafe(call)


def is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether we are on this loop, and not in another thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def returned(
    handler: Callable[[Task], bytes | Awaitable[bytes | None] | None], task: Task, threads: Executor
) -> object:
    """What a handler returns: one that is not asynchronous runs in a thread."""
    if inspect.iscoroutinefunction(handler):
        return await handler(task)
    call = asyncio.get_running_loop().run_in_executor(threads, _called, handler, task)
    try:
        result = await asyncio.shield(call)
    except asyncio.CancelledError:
        # A thread cannot be cancelled: the worker is free for another when it returns.
        await asyncio.wait([call])
        raise
    return await result if inspect.isawaitable(result) else result


def _called(handler: Callable[[Task], Answer], task: Task) -> Answer:
    """In the thread: a future cannot carry StopIteration, so it becomes what a coroutine makes of it."""
    try:
        return handler(task)
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error
