"""The worker: it asks all servers in rotation, and sleeps if none has a task.

Invariant: one task at a time, over all servers.
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
from hiringhall.peers.gearman_draft.session import FAILED, Task, WorkerSession, log
from hiringhall.peers.results import as_result
from hiringhall.peers.threads import call_handler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ssl import SSLContext

Function = Callable[[Task], bytes | Awaitable[bytes | None] | None]
"""Gets a task, returns the bytes of its result (None: none). Raising TaskError fails it with that code; any
other exception fails it with code 1, its message and traceback."""


class Worker:
    """Does tasks for any number of servers until it is stopped.

        worker = Worker(["10.0.0.1:4730", "10.0.0.2:4730"])

        @worker.function("resize")
        async def resize(task: Task) -> bytes:
            task.status(1, 2, remaining_s=4)
            return await shrink(task.args)

        await worker.run()

    A function that is not asynchronous runs in a thread, so that the connections stay responsive. After "no,
    sorry" from all servers, the worker sleeps until a server wakes it, or for `sleep_s`. A server that cannot
    be reached is tried again with exponential backoff, up to `retry_max_s`. A server that does not answer
    within `answer_s` is disconnected, because the others wait meanwhile. That time starts when the server has
    read all earlier output, such as a large result; a server that reads none of it for that time is
    disconnected too. `on_error` gets the errors that servers report, such as a result that came too late;
    without it they are logged.

    `packet_bytes_max` is that of the servers' doors: the largest packet that is read and sent. A task with a
    larger result fails with code 1. If a server has a lower limit, the task runs once more, and then fails the
    same way. `tls` is for servers with TLS: any client SSLContext, such as that of
    `hiringhall.peers.tls.client_tls`.
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
        self._sessions = [WorkerSession(server, self) for server in self.servers]
        self._turn = 0
        """The index of the next session to ask."""
        self._stopping = False
        self._asleep = False
        self._woken = asyncio.Event()
        self._threads: ThreadPoolExecutor

    def can_do(self, name: str | bytes, function: Function) -> None:
        """Offer a function from now on."""
        key = as_bytes(name)
        if not key:
            raise ValueError("the name of a task must not be empty")
        self._functions[key] = function
        self._introduce()

    def cant_do(self, name: str | bytes) -> None:
        """Take no more tasks of this name."""
        if self._functions.pop(as_bytes(name), None) is not None:
            self._introduce()

    def function(self, name: str | bytes) -> Callable[[Function], Function]:
        """Offer the decorated function."""

        def decorate(function: Function) -> Function:
            self.can_do(name, function)
            return function

        return decorate

    async def run(self) -> None:
        """Work until `stop`.

        Cancelling it disconnects at once, so that the server gives its task to others. A function that runs in
        a thread is still waited for. If anything else ends it in the middle of a task, no worker_disconnect is
        sent either: the server counts a lost worker.
        """
        self._threads = ThreadPoolExecutor(1, "gearman-draft-task")
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [group.create_task(session.keep()) for session in self._sessions]
                while not self._stopping:
                    await self._step()
                for keeper in keepers:
                    keeper.cancel()
        finally:
            await asyncio.gather(*(session.leave() for session in self._sessions))
            self._threads.shutdown(wait=False)

    def stop(self) -> None:
        """Ask for no more tasks; `run` disconnects and returns when the running one is done."""
        self._stopping = True
        self._woken.set()

    async def _step(self) -> None:
        """Ask the next server that has not refused, and do its task; or sleep, if all have refused."""
        for _ in self._sessions:
            session = self._sessions[self._turn]
            if session.live and not session.refused:
                break
            self._turn = (self._turn + 1) % len(self._sessions)
        else:
            await self._sleep()
            return
        task = await session.ask(self._answer_s)
        self._turn = (self._turn + 1) % len(self._sessions)
        if task is None or task.lost:
            return
        function = self._functions.get(as_bytes(task.name))
        if function is None:
            session.refuse(task)
            return
        await session.wait_for_end(task, asyncio.create_task(self._work(task, function)))
        self._ask_all_again()

    async def _sleep(self) -> None:
        """Sleep at all servers, until one wakes us or `sleep_s` has passed."""
        self._woken.clear()
        if self._stopping:
            return
        self._asleep = True
        for session in self._sessions:
            session.sleep()
        try:
            async with asyncio.timeout(self._sleep_s):
                await self._woken.wait()
        except TimeoutError:
            self._asleep = False
        self._ask_all_again()

    def _ask_all_again(self) -> None:
        for session in self._sessions:
            session.refused = False

    def _introduce(self) -> None:
        for session in self._sessions:
            session.introduce()

    # used by sessions

    def names(self) -> list[bytes]:
        """The names of its functions."""
        return list(self._functions)

    def wake_up(self, session: WorkerSession) -> None:
        """A server has a task, or was just reached. The server that ends a sleep is asked first."""
        if self._asleep:
            self._asleep = False
            self._turn = self._sessions.index(session)
        self._woken.set()

    def report_error(self, server: str, error: ServerError) -> None:
        """A server has sent an error."""
        if self._on_error is not None:
            self._on_error(error)
        else:
            log.warning("%s: %s", server, error)

    async def _work(self, task: Task, function: Function) -> tuple[int, bytes]:
        """Run the function. Return the code and the data of its end."""
        try:
            return 0, as_result(await call_handler(function, task, self._threads))
        except TaskError as failure:
            return failure.code, failure.data
        except Exception as error:  # noqa: BLE001 - a function may raise anything, and its client gets it
            log_failure(log, f"{task.server}: {task.name}", error)
            return FAILED, report(error).encode()
