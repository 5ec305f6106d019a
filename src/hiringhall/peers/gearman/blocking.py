"""The blocking client and worker: the asyncio ones on a loop in a thread. Safe to use from any thread."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

from hiringhall.peers.gearman.client import AsyncClient
from hiringhall.peers.gearman.worker import AsyncWorker
from hiringhall.peers.threads import Runner, SyncClient, blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from ssl import SSLContext
    from typing import Unpack

    from hiringhall.peers.gearman.client import Priority
    from hiringhall.peers.gearman.jobs import AsyncJob, Progress, Receipt, Status, Update
    from hiringhall.peers.gearman.worker import Handler, WorkerOptions

Answer = TypeVar("Answer")


class Job:
    """A foreground job. Iterate over it for its updates; `result` waits for its end.

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
        """The asyncio job."""

    @property
    def handle(self) -> bytes:
        return self.asynchronous.handle

    @property
    def progress(self) -> Progress:
        """The latest progress."""
        return self.asynchronous.progress

    @property
    def ended(self) -> bool:
        return self.asynchronous.ended

    def result(self, timeout_s: float | None = None) -> bytes:
        """Its result. Raises JobFailed, ConnectionLost, or TimeoutError (then the job continues)."""
        return self._client.wait(self.asynchronous.result(), timeout_s)

    def __iter__(self) -> Iterator[Update]:
        updates = aiter(self.asynchronous)
        while True:
            try:
                yield self._client.wait(_next(updates))
            except _Exhausted:
                return


class _Exhausted(Exception):
    """Stands for StopAsyncIteration, which a future cannot carry."""


async def _next(updates: Any) -> Any:
    try:
        return await anext(updates)
    except StopAsyncIteration:
        raise _Exhausted from None


class Client(SyncClient[AsyncClient]):
    """Submits jobs and asks for their status. The methods are those of AsyncClient.

    >>> with Client(server, timeout_s=30) as client:
    ...     client.run("reverse", b"hello", priority="high")
    b'olleh'

    `timeout_s` limits each call; a longer one raises TimeoutError. A call from the client's own thread raises
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
        """Submit a foreground job without waiting for its end; see AsyncClient.submit."""
        call = self.asynchronous.submit(function, data, unique=unique, priority=priority, reducer=reducer)
        return Job(self, self.wait(call))

    def status(self, job: Receipt | Job | bytes) -> Status:
        """The status of a job; see AsyncClient.status."""
        return self.wait(self.asynchronous.status(job.asynchronous if isinstance(job, Job) else job))

    def wait(self, call: Coroutine[Any, Any, Answer], timeout_s: float | None = None) -> Answer:
        """The result of any call of the asyncio client."""
        return self.wait_for(call, timeout_s)


class Worker(Runner[AsyncWorker]):
    """Does jobs until it is stopped. See AsyncWorker for its arguments.

    >>> worker = Worker(server, client_id="one-of-many")
    >>> worker.register("shout", lambda job: job.data.upper())
    >>> with worker, Client(server) as client:
    ...     client.run("shout", b"hello")
    b'HELLO'

    `work` runs in the calling thread, `with` in a separate one. For a clean end on SIGTERM:

        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        worker.work()
    """

    def __init__(self, *servers: str, **options: Unpack[WorkerOptions]) -> None:
        super().__init__(AsyncWorker(*servers, **options), "gearman-worker")

    def register(self, function: str | bytes, handler: Handler, timeout_s: int = 0) -> None:
        """Offer a function; see AsyncWorker.register."""
        self._call_soon(functools.partial(self.asynchronous.register, function, handler, timeout_s))

    def function(self, name: str | bytes, timeout_s: int = 0) -> Callable[[Handler], Handler]:
        """Register the decorated function."""

        def decorate(handler: Handler) -> Handler:
            self.register(name, handler, timeout_s)
            return handler

        return decorate

    def unregister(self, function: str | bytes) -> None:
        """Take no more jobs for a function."""
        self._call_soon(functools.partial(self.asynchronous.unregister, function))

    def work(self) -> None:
        """Work until `stop` is called from another thread or a signal handler, or until Ctrl-C."""
        self._run_until_interrupted()
