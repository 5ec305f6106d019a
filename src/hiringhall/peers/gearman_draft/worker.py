"""The worker: it asks each server in turn, and sleeps when none of them has a task.

The law: one task at a time, over all servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.failures import log_failure, report
from hiringhall.peers.gearman_draft.connection import parse_servers
from hiringhall.peers.gearman_draft.errors import ServerError, TaskError
from hiringhall.peers.gearman_draft.jobs import as_bytes
from hiringhall.peers.gearman_draft.station import FAILED, Station, Task, log
from hiringhall.peers.threads import returned

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ssl import SSLContext

Function = Callable[[Task], bytes | Awaitable[bytes | None] | None]
"""Gets a task, returns the bytes of its result (None: none). Raising TaskError fails it with that code; any
other exception fails it with code 1, what it says and its traceback."""


class Worker:
    """Does tasks for any number of servers until it is stopped.

        worker = Worker(["10.0.0.1:4730", "10.0.0.2:4730"])

        @worker.function("resize")
        async def resize(task: Task) -> bytes:
            task.status(1, 2, remaining_s=4)
            return await shrink(task.args)

        await worker.run()

    A function that is not asynchronous runs in a thread, so the connections live on meanwhile. After a round
    of "no, sorry" the worker sleeps until a server wakes it, or for `sleep_s`. A server that cannot be
    reached is tried again, each time after twice the wait, up to `retry_max_s`; one that does not say yes or
    no within `answer_s` is left, for the others wait meanwhile. That time begins when the server has taken
    what was said before, such as a large result; one that takes nothing of it for so long is left as well.
    `on_error` hears what servers complain of, such as a result that came too late; without it that is logged.

    `packet_bytes_max` is that of the servers' doors: the largest packet that is read, and sent. A task whose
    result is larger fails with code 1. When a server refuses less than that, the task runs once more, and fails
    likewise. `tls` is for servers that speak TLS: any SSLContext of a client, such as
    `hiringhall.peers.tls.client_tls` makes.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        sleep_s: float = 30.0,
        answer_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        retry_max_s: float = 10.0,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        on_error: Callable[[ServerError], None] | None = None,
        tls: SSLContext | None = None,
    ) -> None:
        self.servers = parse_servers(servers)
        self.connect_timeout_s = connect_timeout_s
        self.retry_max_s = retry_max_s
        self.packet_bytes_max = packet_bytes_max
        self.tls = tls
        self._sleep_s = sleep_s
        self._answer_s = answer_s
        self._on_error = on_error
        self._functions: dict[bytes, Function] = {}
        self._stations = [Station(server, self) for server in self.servers]
        self._turn = 0
        """Whose turn it is to be asked."""
        self._stopping = False
        self._asleep = False
        self._woken = asyncio.Event()
        self._threads: ThreadPoolExecutor

    def can_do(self, name: str | bytes, function: Function) -> None:
        """Be able to do a task, from now on."""
        key = as_bytes(name)
        if not key:
            raise ValueError("a task has a name")
        self._functions[key] = function
        self._introduce()

    def cant_do(self, name: str | bytes) -> None:
        """Take no more tasks of a name."""
        if self._functions.pop(as_bytes(name), None) is not None:
            self._introduce()

    def function(self, name: str | bytes) -> Callable[[Function], Function]:
        """Be able to do the decorated function."""

        def decorate(function: Function) -> Function:
            self.can_do(name, function)
            return function

        return decorate

    async def run(self) -> None:
        """Work until `stop`.

        Cancelling it leaves the servers at once, so that they give its task to others; a function that runs
        in a thread is still waited for. Whatever else ends it in the middle of a task is no goodbye either: the
        server counts a lost worker.
        """
        self._threads = ThreadPoolExecutor(1, "gearman-draft-task")
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(station.keep()) for station in self._stations]
                while not self._stopping:
                    await self._step()
                for keeper in keepers:
                    keeper.cancel()
        finally:
            await asyncio.gather(*(station.leave() for station in self._stations))
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Ask for no more tasks; `run` says goodbye and returns when the one under way is done."""
        self._stopping = True
        self._woken.set()

    async def _step(self) -> None:
        """Ask the next server that has not refused, and do what it gives; or sleep, if all have."""
        for _ in self._stations:
            station = self._stations[self._turn]
            if station.live and not station.refused:
                break
            self._turn = (self._turn + 1) % len(self._stations)
        else:
            await self._sleep()
            return
        task = await station.ask(self._answer_s)
        self._turn = (self._turn + 1) % len(self._stations)
        if task is None or task.lost:
            return
        function = self._functions.get(as_bytes(task.name))
        if function is None:
            station.refuse(task)
            return
        await station.attend(task, asyncio.create_task(self._work(task, function)))
        self._ask_all_again()

    async def _sleep(self) -> None:
        """Sleep on all servers, until one of them has something or some time has passed."""
        self._woken.clear()
        if self._stopping:
            return
        self._asleep = True
        for station in self._stations:
            station.sleep()
        try:
            async with asyncio.timeout(self._sleep_s):
                await self._woken.wait()
        except TimeoutError:
            self._asleep = False
        self._ask_all_again()

    def _ask_all_again(self) -> None:
        for station in self._stations:
            station.refused = False

    def _introduce(self) -> None:
        for station in self._stations:
            station.introduce()

    # what stations use

    def names(self) -> list[bytes]:
        """All that it can do."""
        return list(self._functions)

    def rouse(self, station: Station) -> None:
        """A server has something, or has just been reached: whoever ends a sleep is asked first."""
        if self._asleep:
            self._asleep = False
            self._turn = self._stations.index(station)
        self._woken.set()

    def complain(self, server: str, error: ServerError) -> None:
        """A server said that something was wrong."""
        if self._on_error is not None:
            self._on_error(error)
        else:
            log.warning("%s: %s", server, error)

    async def _work(self, task: Task, function: Function) -> tuple[int, bytes]:
        """Run the function; the code and the data of its end."""
        try:
            return 0, _as_result(await returned(function, task, self._threads))
        except TaskError as failure:
            return failure.code, failure.data
        except Exception as error:  # noqa: BLE001 - a function may raise anything, and its client is told
            log_failure(log, f"{task.server}: {task.name}", error)
            return FAILED, report(error).encode()


def _as_result(value: object) -> bytes:
    """What a function returned, as bytes; anything else is the function's mistake, and its task's failure."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a function returns bytes or None, not {type(value).__name__}")
