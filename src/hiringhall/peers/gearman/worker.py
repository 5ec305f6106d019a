"""The worker, for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hiringhall.dialects.gearman import wire
from hiringhall.peers.failures import log_failure, report
from hiringhall.peers.gearman.connection import DEFAULT_SERVER, as_bytes, parse_address
from hiringhall.peers.gearman.errors import ConnectionLost, JobFailed, ServerError
from hiringhall.peers.gearman.station import Station, WorkerJob, log
from hiringhall.peers.threads import returned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ssl import SSLContext

Handler = Callable[[WorkerJob], bytes | Awaitable[bytes | None] | None]
"""Gets a job, returns the bytes of its result (None: none). Raising JobFailed fails the job in silence or with
the reason given; any other exception fails it with what it says and its traceback."""

Grab = Literal["plain", "unique", "all"]
TimeoutUnit = Literal["s", "ms"]

_GRABS: Final = {"plain": wire.GRAB_JOB, "unique": wire.GRAB_JOB_UNIQ, "all": wire.GRAB_JOB_ALL}
_UNITS: Final = {"s": 1, "ms": 1000}
"""How many of each are a second."""
_RETRY_FIRST_S: Final = 0.1


class _Function(NamedTuple):
    handler: Handler
    timeout_s: int


class AsyncWorker:
    """Does jobs for any number of servers until it is stopped.

        worker = AsyncWorker("127.0.0.1:4730", client_id="resizer-1", slots=4)

        @worker.function("resize")
        async def resize(job: WorkerJob) -> bytes:
            job.progress(1, 2)
            return await shrink(job.data)

        await worker.run()

    A handler that is not asynchronous runs in a thread, so the connection lives on meanwhile. A server that
    cannot be reached is tried again, each time after twice the wait, up to `retry_max_s`.

    `slots` is how many jobs run at once, over all servers. `grab` is how much it is told of a job: "plain"
    without its unique, "unique", or "all" (with the reducer). `heartbeat_s` lets it show life to the server
    while a job runs, for servers that take a silent worker for lost. `on_error` hears what servers complain
    of, such as a result that came too late; without it that is logged.

    `timeout_unit` is what the servers mean by the number in CAN_DO_TIMEOUT: "s" for `hall serve`, unless its
    door says otherwise, and "ms" for gearmand and `hall-gearmand`. `tls` is for servers that speak TLS: any
    SSLContext of a client, such as `hiringhall.peers.tls.client_tls` makes.
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
        self._line: deque[Station] = deque()
        """Stations that would ask for work and wait for a slot."""
        self._stations: list[Station] = []
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
        """Be able to do a function, from now on.

        A job that runs longer than `timeout_s` is taken from this worker: it has failed, or goes to another.
        """
        name = as_bytes(function)
        self._functions[name] = _Function(handler, timeout_s)
        packet_type, args = self._ability(name, timeout_s)
        for station in self._stations:
            station.send(packet_type, *args)
            station.rouse()

    def function(self, name: str | bytes, timeout_s: int = 0) -> Callable[[Handler], Handler]:
        """Register the decorated function."""

        def decorate(handler: Handler) -> Handler:
            self.register(name, handler, timeout_s)
            return handler

        return decorate

    def unregister(self, function: str | bytes) -> None:
        """Take no more jobs of a function."""
        name = as_bytes(function)
        if self._functions.pop(name, None) is not None:
            for station in self._stations:
                station.send(wire.CANT_DO, name)

    async def run(self) -> None:
        """Work until `stop`.

        Cancelling it leaves the servers at once, so that they give its jobs to others; a handler that runs in a
        thread is still waited for.
        """
        self._threads = ThreadPoolExecutor(self._slots, "gearman-job")
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for server in self.servers:
                    self._tasks.create_task(self._attend(server))
        finally:
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Ask for no more jobs; `run` returns when those under way are done."""
        self.stopping = True
        self._stop.set()
        for station in self._stations:
            station.leave_if_idle()

    async def _attend(self, server: str) -> None:
        """Hold a station at one server, and open the next when it is lost."""
        retry_s = _RETRY_FIRST_S
        while not self.stopping:
            station = Station(server, self)
            self._stations.append(station)
            try:
                await station.serve(self._connect_timeout_s)
            except ConnectionLost as loss:
                log.warning("%s", loss)
            finally:
                self._stations.remove(station)
            if station.heard:
                retry_s = _RETRY_FIRST_S
            try:
                async with asyncio.timeout(retry_s):
                    await self._stop.wait()
            except TimeoutError:
                retry_s = min(retry_s * 2, self._retry_max_s)

    # what stations use

    def abilities(self) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """The packets that say what it can do."""
        for name, function in self._functions.items():
            yield self._ability(name, function.timeout_s)

    def _ability(self, name: bytes, timeout_s: int) -> tuple[int, tuple[bytes, ...]]:
        if not timeout_s:
            return wire.CAN_DO, (name,)
        timeout = timeout_s * _UNITS[self._timeout_unit]
        return wire.CAN_DO_TIMEOUT, (name, str(timeout).encode())

    def take_slot(self, station: Station) -> bool:
        """Take a slot, or stand in line."""
        if self._free_slots:
            self._free_slots -= 1
            return True
        if station not in self._line:
            self._line.append(station)
        return False

    def free_slot(self) -> None:
        """Give a slot back: whoever stands first in line may ask."""
        self._free_slots += 1
        while self._free_slots and self._line:
            self._line.popleft().ask()

    def start(self, job: WorkerJob) -> asyncio.Task[None]:
        """Do one job beside everything else."""
        return self._tasks.create_task(self._work(job))

    def complain(self, server: str, error: ServerError) -> None:
        """A server said that something was wrong."""
        if self._on_error is not None:
            self._on_error(error)
        else:
            log.warning("%s: %s", server, error)

    async def _work(self, job: WorkerJob) -> None:
        """Run the handler and say how it went."""
        try:
            result = await self._call(job)
        except JobFailed as failure:
            if failure.exception:
                job.send(wire.WORK_EXCEPTION, failure.exception)
            else:
                job.send(wire.WORK_FAIL)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything, and its client is told
            log_failure(log, f"{job.handle.decode(errors='replace')}: {job.function}", error)
            job.send(wire.WORK_EXCEPTION, report(error).encode())
        else:
            job.send(wire.WORK_COMPLETE, result)
        finally:
            job.station.ended(job)

    async def _call(self, job: WorkerJob) -> bytes:
        function = self._functions.get(as_bytes(job.function))
        if function is None:
            raise JobFailed(b"this worker no longer does that")
        return _as_result(await returned(function.handler, job, self._threads))


def _as_result(value: object) -> bytes:
    """What a handler returned, as bytes; anything else is the handler's mistake, and its job's failure."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a handler returns bytes or None, not {type(value).__name__}")
