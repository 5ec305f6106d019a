"""The blocking face: the asyncio client and worker, on a loop in a thread. Safe to use from any thread."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from hiringhall.peers.gearman.client import AsyncClient
from hiringhall.peers.gearman.worker import AsyncWorker, Grab, Handler, TimeoutUnit
from hiringhall.peers.threads import Runner, SyncClient, blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from ssl import SSLContext

    from hiringhall.peers.gearman.client import Priority
    from hiringhall.peers.gearman.errors import ServerError
    from hiringhall.peers.gearman.jobs import AsyncJob, Progress, Receipt, Status, Update

Answer = TypeVar("Answer")


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


class Client(SyncClient[AsyncClient]):
    """Submits jobs and asks about them; see AsyncClient, whose methods these are.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` bounds each call; a call over it raises TimeoutError. A call from the client's own thread raises
    RuntimeError: it would wait for itself.
    """

    def __init__(
        self,
        *servers: str,
        exceptions: bool = True,
        connect_timeout_s: float = 5.0,
        timeout_s: float | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        client = AsyncClient(*servers, exceptions=exceptions, connect_timeout_s=connect_timeout_s, tls=tls)
        super().__init__(client, "gearman-client", timeout_s)

    run = blocking(AsyncClient.run)
    submit_background = blocking(AsyncClient.submit_background)
    submit_at = blocking(AsyncClient.submit_at)
    submit_schedule = blocking(AsyncClient.submit_schedule)
    status_unique = blocking(AsyncClient.status_unique)
    echo = blocking(AsyncClient.echo)
    set_option = blocking(AsyncClient.set_option)
    admin = blocking(AsyncClient.admin)

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
        return self.wait_for(call, timeout_s)


class Worker(Runner[AsyncWorker]):
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
        timeout_unit: TimeoutUnit = "s",
        tls: SSLContext | None = None,
    ) -> None:
        worker = AsyncWorker(
            *servers,
            client_id=client_id,
            slots=slots,
            grab=grab,
            heartbeat_s=heartbeat_s,
            connect_timeout_s=connect_timeout_s,
            retry_max_s=retry_max_s,
            on_error=on_error,
            timeout_unit=timeout_unit,
            tls=tls,
        )
        super().__init__(worker, "gearman-worker")

    def register(self, function: str | bytes, handler: Handler, timeout_s: int = 0) -> None:
        """Be able to do a function; see AsyncWorker.register."""
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
        """Work until `stop` is called, from another thread or a signal handler, or until Ctrl-C."""
        self._run_until_interrupted()
