"""A worker's session with one server. It lasts as long as the worker runs, over all reconnects.

              +--- noop ----------------------------------+
              v                                           |
    [awake] --job_assign_req--> [asking] --"no, sorry"--> [refused] --worker_sleep--> (until a noop)
       ^                            |
       +------ job_assign_res ------+     the task runs; its end is announced

Invariant: at most one request is open. A task that was assigned is always answered or given back while its
connection is open and the server still wants it, also when the worker stops. A worker that stops in the
middle of a task sends no worker_disconnect, so that the server counts the loss.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.connection import Connection
from hiringhall.peers.gearman_draft.conversation import name_of, read_error
from hiringhall.peers.gearman_draft.errors import ConnectionLost
from hiringhall.peers.gearman_draft.jobs import as_bytes
from hiringhall.peers.threads import is_running

if TYPE_CHECKING:
    from hiringhall.peers.gearman_draft.worker import Worker

log = logging.getLogger("hiringhall.peers.gearman_draft")

FAILED: Final = 1
"""The code of a task that failed without a code of its own."""
_RETRY_FIRST_S: Final = 0.1


class Task:
    """A task as a worker's function gets it. All methods may be called from the function's thread."""

    def __init__(self, session: WorkerSession, name: bytes, args: bytes) -> None:
        self.name = name.decode(errors="surrogateescape")
        self.args = args
        self.lost = False
        """The result cannot be delivered: the connection has ended, or the server took the task back."""
        self._session = session
        self._loop = asyncio.get_running_loop()

    @property
    def server(self) -> str:
        return self._session.server

    def status(self, numerator: int, denominator: int, remaining_s: float = 0) -> None:
        """Send the progress, and the estimated remaining time if it is known."""
        numbers = (numerator, denominator, math.ceil(remaining_s))
        if not all(0 <= number <= wire.WORD_MAX for number in numbers):
            raise ValueError(f"each number of a status must be from 0 to {wire.WORD_MAX}: {numbers}")
        packet = wire.pack_job_status_announce(*numbers)
        if is_running(self._loop):
            self._session.announce(self, packet)
        else:
            asyncio.run_coroutine_threadsafe(self._announce_and_drain(packet), self._loop).result()

    async def _announce_and_drain(self, packet: bytes) -> None:
        self._session.announce(self, packet)
        await self._session.drain()


class WorkerSession:
    """One server, as seen by the worker."""

    def __init__(self, server: str, worker: Worker) -> None:
        self.server = server
        self.refused = False
        """The last answer was "no, sorry", with no noop since."""
        self._worker = worker
        self._connection: Connection | None = None
        self._useful = False
        """The server has worked on this connection: the next one may be opened without a long pause."""
        self._names: list[bytes] = []
        """The functions that the server knew at the last request."""
        self._announced_bytes = 0
        """Size of the last announced end, which may still be refused; 0: none."""
        self._refused_bytes = 0
        """Size of an end that was too large for the server; 0: none."""
        self._refused_here = False
        """That refusal was on this connection."""
        self._question: asyncio.Future[Task | None] | None = None
        self._task: Task | None = None
        """The task that we hold according to the server."""
        self._running: asyncio.Task[tuple[int, bytes]] | None = None
        self._gone = asyncio.Event()
        self._leaving = False

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    async def keep(self) -> None:
        """Stay connected: reconnect after each loss, with growing pauses."""
        retry_s = _RETRY_FIRST_S
        while True:
            self._gone.clear()
            self._useful = self._refused_here = False
            self._announced_bytes = 0
            worker = self._worker
            try:
                self._connection = await Connection.open(
                    self.server, self, worker.connect_timeout_s, worker.packet_bytes_max, worker.tls
                )
            except ConnectionLost as loss:
                log.warning("%s", loss)
            else:
                self.introduce()
                await self._gone.wait()
            if self._useful:
                retry_s = _RETRY_FIRST_S
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, worker.retry_max_s)

    def introduce(self) -> None:
        """Send the functions of the worker: at the start, and whenever they change."""
        if self.live:
            self._send(wire.pack_worker_connect(self._worker.names()))
            self._wake_up()

    async def ask(self, timeout_s: float) -> Task | None:
        """Ask for a task. None: there is none, or no answer.

        The timeout starts when the server has read all earlier output, which may be a large result.
        """
        if self._connection is not None:
            await self._connection.wait_sent(timeout_s)
        if not self.live:
            return None
        self._question = asyncio.get_running_loop().create_future()
        self._names = self._worker.names()
        self._send(wire.JOB_ASSIGN_REQ_PACKET)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._question
        except TimeoutError:
            self._abort(f"no answer to job_assign_req within {timeout_s} s")
            return None
        except asyncio.CancelledError:
            self._leaving = True
            raise
        finally:
            self._question = None

    async def wait_for_end(self, task: Task, running: asyncio.Task[tuple[int, bytes]]) -> None:
        """Wait for the end of a task, and announce it."""
        self._running = running
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            running.cancel()
            # The server may give the task to another worker while ours ends.
            self._leaving = True
            self._abort("the worker was cancelled")
            await asyncio.wait([running])
            raise
        finally:
            self._running = None
        self._conclude(task, *((FAILED, b"cancelled") if running.cancelled() else running.result()))

    def refuse(self, task: Task) -> None:
        """Answer a task whose function the worker does not have.

        If it had the function when it asked, the task is given back, for another worker.
        """
        if as_bytes(task.name) not in self._names:
            self._conclude(task, FAILED, b"this worker does not have the function %s" % as_bytes(task.name))
            return
        self._task = None
        self._send(wire.WORKER_DISCONNECT_PACKET)
        self.introduce()

    def _conclude(self, task: Task, code: int, data: bytes) -> None:
        """Announce the end. A result that is too large for the server becomes a failure."""
        trouble = self._too_large(1 + len(data))
        if trouble:
            text = f"the result of {len(data)} bytes is too large for a packet: {trouble}"
            log.warning("%s: %s: %s", self.server, task.name, text)
            code, data = FAILED, text.encode()
        self._announced_bytes = 1 + len(data)
        self.announce(task, wire.pack_job_complete_announce(code, data))
        if self._task is task:
            self._task = None

    def _too_large(self, body_bytes: int) -> str:
        """Why an end cannot be announced; empty: it can."""
        limit = self._worker.packet_bytes_max
        if body_bytes > limit:
            return f"the worker's packet_bytes_max is {limit}"
        if self._refused_bytes and body_bytes >= self._refused_bytes:
            return f"the server refused a packet of {self._refused_bytes} bytes"
        return ""

    def announce(self, task: Task, packet: bytes) -> None:
        """Send a packet about a task, unless the task is lost."""
        if not task.lost:
            self._send(packet)

    async def drain(self) -> None:
        if self._connection is not None:
            await self._connection.drain()

    def sleep(self) -> None:
        """Tell the server that the worker will sleep."""
        if self.live:
            self._send(wire.WORKER_SLEEP_PACKET)

    async def leave(self) -> None:
        """Send worker_disconnect and close; with a running task, only close."""
        self._leaving = True
        if self._task is not None:
            # After worker_disconnect no loss is counted: a task that ends its worker would run forever.
            self._abort("the worker ended in the middle of a task")
        elif self._connection is not None:
            self._send(wire.WORKER_DISCONNECT_PACKET)
            await self._connection.close()

    def _send(self, packet: bytes) -> None:
        if self._connection is not None:
            self._connection.send(packet)

    def _abort(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)

    def _wake_up(self) -> None:
        self.refused = False
        self._worker.wake_up(self)

    def _answer(self, task: Task | None) -> None:
        if self._question is not None and not self._question.done():
            self._question.set_result(task)

    # called by the connection

    def received(self, packet_type: int, body: bytes) -> None:
        error = read_error(packet_type, body)
        if packet_type == wire.NOOP:
            self._useful = True
            self._wake_up()
        elif error is not None:
            self._worker.report_error(self.server, error)
            if error.code == wire.PACKET_TOO_LARGE and self._announced_bytes:
                # The server closes and assigns the task again: then we know the limit.
                self._refused_here = True
                self._refused_bytes = self._announced_bytes
            if error.code == wire.NO_TASK:
                # It answers our announcement: the task was taken back or had ended before.
                if self._task is not None:
                    self._task.lost = True
            elif self._question is not None:
                self._abort(f"job_assign_req was answered with an error: {error}")
        elif packet_type == wire.JOB_ASSIGN_RES and self._question is not None and not self._question.done():
            self._assigned(body)
        elif packet_type != wire.JOB_ASSIGN_RES or not self._leaving:
            # A task that comes while the worker leaves was asked for: worker_disconnect gives it back.
            self._abort(f"{name_of(packet_type)} was not requested")

    def lost(self, reason: ConnectionLost) -> None:
        if not self._leaving:
            log.warning("%s", reason)
        self._connection = None
        if not self._refused_here:
            # The next server at this address may have another limit.
            self._refused_bytes = 0
        self._gone.set()
        if self._task is not None:
            self._task.lost = True
            self._task = None
        if self._running is not None:
            self._running.cancel()
        self._answer(None)

    def _assigned(self, body: bytes) -> None:
        self._useful = True
        self._announced_bytes = 0
        if not body:
            self.refused = True
            self._answer(None)
            return
        fields = wire.parse_job_assign_res(body)
        if fields is None:
            self._abort(f"a malformed assignment: {body[:80]!r}")
            return
        self._task = Task(self, *fields)
        self._answer(self._task)
