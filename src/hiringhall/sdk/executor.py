"""`concurrent.futures.Executor` on a hall: importable functions run as jobs of the queue `hiringhall.call`.

A call is sent as the name "module:qualname" and JSON arguments; a worker imports the function and calls it. So
a lambda, a method or a function of `__main__` is refused, and nothing is pickled.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.sdk.functions import JobFunction
    from hiringhall.sdk.hall import Hall
    from hiringhall.sdk.jobs import Job

QUEUE: Final = "hiringhall.call"

P = ParamSpec("P")
R = TypeVar("R")


def call(target: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a worker does for the executor: import the function and call it."""
    return find(target)(*args, **kwargs)


def find(target: str) -> Callable[..., Any]:
    """The function with this name. Raises ValueError."""
    module_name, _, path = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{target!r} cannot be imported here: {error}") from error
    if not callable(found):
        raise ValueError(f"{target!r} is not a function")  # noqa: TRY004 (the peer's data)
    function: Callable[..., Any] = found
    return function


def name_of(function: Callable[..., Any]) -> str:
    """The name "module:qualname" of an importable function. Raises ValueError."""
    module_name = getattr(function, "__module__", None) or ""
    path = getattr(function, "__qualname__", None) or ""
    importable = module_name and module_name != "__main__" and path and "<" not in path
    found: Any = sys.modules.get(module_name)
    for name in path.split("."):
        found = getattr(found, name, None)
    if not importable or found is not function:
        raise ValueError(
            f"{function!r} cannot be imported by a worker: give the executor a function that stands in a module"
        )
    return f"{module_name}:{path}"


class HallExecutor(Executor):
    """Calls of importable functions as jobs. The result is what JSON makes of it."""

    def __init__(self, hall: Hall, function: JobFunction[..., Any]) -> None:
        self._hall = hall
        self._function = function
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """A future of the result. It is on its way when this returns; the hall has it soon after."""
        target = name_of(fn)
        with self._lock:
            if self._closed:
                raise RuntimeError("the executor was shut down")
            future: Future[R] = Future()
            self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._hall.start(self._run(future, target, list(args), kwargs))
        return future

    async def _run(self, future: Future[Any], target: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Submit the call and bring its outcome to the future."""
        try:
            job = await self._function.asubmit(target, args, kwargs)
            canceller = _Canceller(job)
            future.add_done_callback(canceller.future_done)
            result = await job
        except BaseException as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if future.set_running_or_notify_cancel():
            future.set_result(result)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait for those under way."""
        with self._lock:
            self._closed = True
            under_way = list(self._open)
        if cancel_futures:
            for future in under_way:
                future.cancel()
        if wait:
            wait_for(under_way)


class _Canceller:
    """Cancels the job of a future that was cancelled."""

    def __init__(self, job: Job[Any]) -> None:
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def future_done(self, future: Future[Any]) -> None:
        if future.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._task = self._loop.create_task(self._job.acancel("its future was cancelled"))
