"""The blocking face: the asyncio client and worker, on a loop in a thread. Safe to use from any thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from hiringhall.peers.gearman.client import AsyncClient
from hiringhall.peers.gearman.worker import AsyncWorker, Grab, Handler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType

    from hiringhall.peers.gearman.client import Priority
    from hiringhall.peers.gearman.errors import ServerError
    from hiringhall.peers.gearman.jobs import AsyncJob, Progress, Receipt, Status, Update

Answer = TypeVar("Answer")
Args = ParamSpec("Args")


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gearman-client", daemon=True)
        self._thread.start()

    def wait(self, call: Coroutine[Any, Any, Answer], timeout_s: float | None) -> Answer:
        """The call's answer; raises TimeoutError after `timeout_s`, and then gives the call up."""
        answer = asyncio.run_coroutine_threadsafe(_within(call, timeout_s), self._loop)
        try:
            return answer.result()
        finally:
            # Nobody waits for it after a KeyboardInterrupt.
            answer.cancel()

    def close(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _end_others() -> None:
    """What is still under way on this loop is given up."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _within(call: Coroutine[Any, Any, Answer], timeout_s: float | None) -> Answer:
    async with asyncio.timeout(timeout_s):
        return await call


def _blocking(
    method: Callable[Concatenate[AsyncClient, Args], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Client, Args], Answer]:
    """The same method, same arguments, same words of explanation; it waits."""

    def call(client: Client, /, *args: Args.args, **kwargs: Args.kwargs) -> Answer:
        return client.wait(method(client.asynchronous, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Job:
    """A foreground job: iterate over it for its updates, ask for its `result`.

    >>> with Client(server) as client:
    ...     job = client.submit("count", b"3")
    ...     for update in job:
    ...         print(update)
    ...     job.result()
    Progress(numerator=1, denominator=3)
    Progress(numerator=2, denominator=3)
    Progress(numerator=3, denominator=3)
    b'counted'
    """

    def __init__(self, client: Client, job: AsyncJob) -> None:
        self._client = client
        self.asynchronous = job
        """The job itself."""

    @property
    def handle(self) -> bytes:
        return self.asynchronous.handle

    @property
    def progress(self) -> Progress:
        """The latest."""
        return self.asynchronous.progress

    @property
    def ended(self) -> bool:
        return self.asynchronous.ended

    def result(self, timeout_s: float | None = None) -> bytes:
        """The bytes of its end; raises JobFailed, ConnectionLost, or TimeoutError (and then it goes on)."""
        return self._client.wait(self.asynchronous.result(), timeout_s)

    def __iter__(self) -> Iterator[Update]:
        updates = aiter(self.asynchronous)
        while True:
            try:
                yield self._client.wait(_next(updates))
            except _Exhausted:
                return


class _Exhausted(Exception):
    """StopAsyncIteration, in a form that may pass through a future."""


async def _next(updates: Any) -> Any:
    try:
        return await anext(updates)
    except StopAsyncIteration:
        raise _Exhausted from None


class Client:
    """Submits jobs and asks about them; see AsyncClient, whose methods these are.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` bounds each call; a call over it raises TimeoutError.
    """

    def __init__(
        self,
        *servers: str,
        exceptions: bool = True,
        connect_timeout_s: float = 5.0,
        timeout_s: float | None = None,
    ) -> None:
        self.asynchronous = AsyncClient(*servers, exceptions=exceptions, connect_timeout_s=connect_timeout_s)
        self.timeout_s = timeout_s
        self._loop = _LoopThread()

    run = _blocking(AsyncClient.run)
    submit_background = _blocking(AsyncClient.submit_background)
    submit_at = _blocking(AsyncClient.submit_at)
    submit_schedule = _blocking(AsyncClient.submit_schedule)
    status_unique = _blocking(AsyncClient.status_unique)
    echo = _blocking(AsyncClient.echo)
    set_option = _blocking(AsyncClient.set_option)
    admin = _blocking(AsyncClient.admin)

    def submit(
        self,
        function: str | bytes,
        data: bytes = b"",
        *,
        unique: str | bytes = b"",
        priority: Priority = "normal",
        reducer: str | bytes = b"",
    ) -> Job:
        """Submit a foreground job and go on; see AsyncClient.submit."""
        call = self.asynchronous.submit(function, data, unique=unique, priority=priority, reducer=reducer)
        return Job(self, self.wait(call))

    def status(self, job: Receipt | Job | bytes) -> Status:
        """How a job is doing; see AsyncClient.status."""
        return self.wait(self.asynchronous.status(job.asynchronous if isinstance(job, Job) else job))

    def wait(self, call: Coroutine[Any, Any, Answer], timeout_s: float | None = None) -> Answer:
        """The answer of any call of the asynchronous client."""
        return self._loop.wait(call, self.timeout_s if timeout_s is None else timeout_s)

    def close(self) -> None:
        """Leave all servers."""
        self._loop.wait(self.asynchronous.close(), None)
        self._loop.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Worker:
    """Does jobs until it is stopped; see AsyncWorker for what its arguments mean.

    >>> worker = Worker(server, client_id="one-of-many")
    >>> worker.register("shout", lambda job: job.data.upper())
    >>> with worker, Client(server) as client:
    ...     client.run("shout", b"hello")
    b'HELLO'

    `work` does it in the calling thread, `with` in a thread beside. For a process that ends well on SIGTERM:

        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.work()
    """

    def __init__(
        self,
        *servers: str,
        client_id: str = "",
        slots: int = 1,
        grab: Grab = "all",
        heartbeat_s: float = 0.0,
        connect_timeout_s: float = 5.0,
        retry_max_s: float = 10.0,
        on_error: Callable[[ServerError], None] | None = None,
    ) -> None:
        self.asynchronous = AsyncWorker(
            *servers,
            client_id=client_id,
            slots=slots,
            grab=grab,
            heartbeat_s=heartbeat_s,
            connect_timeout_s=connect_timeout_s,
            retry_max_s=retry_max_s,
            on_error=on_error,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while it works."""
        self._stop_asked = False
        self._thread: threading.Thread | None = None

    def register(self, function: str | bytes, handler: Handler, timeout_s: int = 0) -> None:
        """Be able to do a function. The server fails a job that runs longer than `timeout_s`."""
        self._tell(functools.partial(self.asynchronous.register, function, handler, timeout_s))

    def function(self, name: str | bytes, timeout_s: int = 0) -> Callable[[Handler], Handler]:
        """Register the decorated function."""

        def decorate(handler: Handler) -> Handler:
            self.register(name, handler, timeout_s)
            return handler

        return decorate

    def unregister(self, function: str | bytes) -> None:
        """Take no more jobs of a function."""
        self._tell(functools.partial(self.asynchronous.unregister, function))

    def work(self) -> None:
        """Work until `stop` is called, from another thread or a signal handler."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """Take no more jobs; `work` returns when those under way are done."""
        self._stop_asked = True
        self._tell(self.asynchronous.stop)

    def __enter__(self) -> Worker:
        self._thread = threading.Thread(target=self.work, name="gearman-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert self._thread is not None
        self._thread.join()

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
