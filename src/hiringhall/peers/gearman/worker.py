"""The worker, for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypedDict

from hiringhall.dialects.gearman import wire
from hiringhall.peers.failures import log_failure, report
from hiringhall.peers.gearman.connection import DEFAULT_SERVER, as_bytes, parse_address
from hiringhall.peers.gearman.errors import ConnectionLost, JobFailed, ServerError
from hiringhall.peers.gearman.session import WorkerJob, WorkerSession, log
from hiringhall.peers.results import as_result
from hiringhall.peers.threads import call_handler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext

Handler = Callable[[WorkerJob], bytes | Awaitable[bytes | None] | None]
"""Gets a job, returns the bytes of its result (None: none). Raising JobFailed fails the job, with its reason if
it has one; any other exception fails it with its message and traceback."""

Grab = Literal["plain", "unique", "all"]
TimeoutUnit = Literal["s", "ms"]

_GRABS: Final = {"plain": wire.GRAB_JOB, "unique": wire.GRAB_JOB_UNIQ, "all": wire.GRAB_JOB_ALL}
_UNITS: Final = {"s": 1, "ms": 1000}
"""How many of each unit make a second."""
_RETRY_FIRST_S: Final = 0.1


class _Function(NamedTuple):
    handler: Handler
    timeout_s: int


class WorkerOptions(TypedDict, total=False):
    """The keyword arguments of `AsyncWorker`, for the blocking `Worker`."""

    client_id: str
    slots: int
    grab: Grab
    heartbeat_s: float
    connect_timeout_s: float
    retry_max_s: float
    on_error: Callable[[ServerError], None] | None
    timeout_unit: TimeoutUnit
    tls: SSLContext | None


class AsyncWorker:
    """Does jobs for any number of servers until it is stopped.

        worker = AsyncWorker("127.0.0.1:4730", client_id="resizer-1", slots=4)

        @worker.function("resize")
        async def resize(job: WorkerJob) -> bytes:
            job.progress(1, 2)
            return await shrink(job.data)

        await worker.run()

    A handler that is not asynchronous runs in a thread, so that the connection stays responsive. A server that
    cannot be reached is tried again with exponential backoff, up to `retry_max_s`.

    `slots` is how many jobs run at once, over all servers. `grab` is how much the server sends of a job:
    "plain" without its unique, "unique", or "all" (with the reducer). With `heartbeat_s` it sends a heartbeat
    while a job runs, for servers that treat a silent worker as lost. `on_error` gets the errors that servers
    report, such as a result that came too late; without it they are logged.

    `timeout_unit` is the unit of CAN_DO_TIMEOUT at the servers: "s" for `hall serve`, unless its door is
    configured otherwise, and "ms" for gearmand and `hall-gearmand`. `tls` is for servers with TLS: any client
    SSLContext, such as that of `hiringhall.peers.tls.client_tls`.
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
        self.servers = servers or (DEFAULT_SERVER,)
        for server in self.servers:
            parse_address(server)
        self.client_id = client_id
        self.grab_type = _GRABS[grab]
        self.heartbeat_s = heartbeat_s
        self.stopping = False
        self._slots = slots
        self._free_slots = slots
        self._waiting: deque[WorkerSession] = deque()
        """Sessions that wait for a free slot to ask for a job."""
        self._sessions: list[WorkerSession] = []
        self._functions: dict[bytes, _Function] = {}
        self._connect_timeout_s = connect_timeout_s
        self._retry_max_s = retry_max_s
        self._on_error = on_error
        self._timeout_unit = timeout_unit
        self.tls = tls
        self._threads: ThreadPoolExecutor
        self._tasks: asyncio.TaskGroup
        self._stop = asyncio.Event()

    def register(self, function: str | bytes, handler: Handler, timeout_s: int = 0) -> None:
        """Offer a function from now on.

        A job that runs longer than `timeout_s` is taken from this worker: it fails, or goes to another.
        """
        name = as_bytes(function)
        self._functions[name] = _Function(handler, timeout_s)
        packet_type, args = self._ability(name, timeout_s)
        for session in self._sessions:
            session.send(packet_type, *args)
            session.wake_up()

    def function(self, name: str | bytes, timeout_s: int = 0) -> Callable[[Handler], Handler]:
        """Register the decorated function."""

        def decorate(handler: Handler) -> Handler:
            self.register(name, handler, timeout_s)
            return handler

        return decorate

    def unregister(self, function: str | bytes) -> None:
        """Take no more jobs for a function."""
        name = as_bytes(function)
        if self._functions.pop(name, None) is not None:
            for session in self._sessions:
                session.send(wire.CANT_DO, name)

    async def run(self) -> None:
        """Work until `stop`.

        Cancelling it disconnects at once, so that the servers give its jobs to others. A handler that runs in a
        thread is still waited for.
        """
        self._threads = ThreadPoolExecutor(self._slots, "gearman-job")
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for server in self.servers:
                    self._tasks.create_task(self._serve(server))
        finally:
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Ask for no more jobs; `run` returns when the running ones are done."""
        self.stopping = True
        self._stop.set()
        for session in self._sessions:
            session.leave_if_idle()

    async def _serve(self, server: str) -> None:
        """Keep a session with one server, and open a new one after a loss."""
        retry_s = _RETRY_FIRST_S
        while not self.stopping:
            session = WorkerSession(server, self)
            self._sessions.append(session)
            try:
                await session.serve(self._connect_timeout_s)
            except ConnectionLost as loss:
                log.warning("%s", loss)
            finally:
                self._sessions.remove(session)
            if session.answered:
                retry_s = _RETRY_FIRST_S
            try:
                async with asyncio.timeout(retry_s):
                    await self._stop.wait()
            except TimeoutError:
                retry_s = min(retry_s * 2, self._retry_max_s)

    # used by sessions

    def abilities(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """The packets that register its functions."""
        for name, function in self._functions.items():
            yield self._ability(name, function.timeout_s)

    def _ability(self, name: bytes, timeout_s: int) -> tuple[int, tuple[bytes, ...]]:
        if not timeout_s:
            return wire.CAN_DO, (name,)
        timeout = timeout_s * _UNITS[self._timeout_unit]
        return wire.CAN_DO_TIMEOUT, (name, str(timeout).encode())

    def take_slot(self, session: WorkerSession) -> bool:
        """Take a slot, or wait for one."""
        if self._free_slots:
            self._free_slots -= 1
            return True
        if session not in self._waiting:
            self._waiting.append(session)
        return False

    def free_slot(self) -> None:
        """Release a slot: the session that waits longest may ask."""
        self._free_slots += 1
        while self._free_slots and self._waiting:
            self._waiting.popleft().ask()

    def start(self, job: WorkerJob) -> asyncio.Task[None]:
        """Start a job as a task."""
        return self._tasks.create_task(self._work(job))

    def report_error(self, server: str, error: ServerError) -> None:
        """A server has sent an error."""
        if self._on_error is not None:
            self._on_error(error)
        else:
            log.warning("%s: %s", server, error)

    async def _work(self, job: WorkerJob) -> None:
        """Run the handler and send its outcome."""
        try:
            result = await self._call(job)
        except JobFailed as failure:
            if failure.exception:
                job.send(wire.WORK_EXCEPTION, failure.exception)
            else:
                job.send(wire.WORK_FAIL)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything, and its client gets it
            log_failure(log, f"{job.handle.decode(errors='replace')}: {job.function}", error)
            job.send(wire.WORK_EXCEPTION, report(error).encode())
        else:
            job.send(wire.WORK_COMPLETE, result)
        finally:
            job.session.ended(job)

    async def _call(self, job: WorkerJob) -> bytes:
        function = self._functions.get(as_bytes(job.function))
        if function is None:
            raise JobFailed(b"this worker no longer has the function %s" % as_bytes(job.function))
        return as_result(await call_handler(function.handler, job, self._threads))
