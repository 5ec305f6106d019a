"""A worker's place at one server, for as long as the worker runs, however often the connection is made anew.

              +--- noop ----------------------------------+
              v                                           |
    [awake] --job_assign_req--> [asking] --"no, sorry"--> [refused] --worker_sleep--> (until a noop)
       ^                            |
       +------ job_assign_res ------+     the task runs; its end is announced

The law: at most one question is open, and a task that was assigned is always answered, or given back, while
its connection stands and the server still wants it, stopping or not. A worker that breaks off in the middle of
a task says no goodbye: the server counts the loss.
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
"""The code of a task that ended without one of its own."""
_RETRY_FIRST_S: Final = 0.1


class Task:
    """A task in the hands of a worker's function. All methods may be called from the function's thread."""

    def __init__(self, station: Station, name: bytes, args: bytes) -> None:
        self.name = name.decode(errors="surrogateescape")
        self.args = args
        self.lost = False
        """Nobody will take the result: its server is gone, or has taken the task back."""
        self._station = station
        self._loop = asyncio.get_running_loop()

    @property
    def server(self) -> str:
        return self._station.server

    def status(self, numerator: int, denominator: int, remaining_s: float = 0) -> None:
        """Tell how far it is, and how long it will take from now, if that can be said."""
        numbers = (numerator, denominator, math.ceil(remaining_s))
        if not all(0 <= number <= wire.WORD_MAX for number in numbers):
            raise ValueError(f"each number of a status is 0 to {wire.WORD_MAX}: {numbers}")
        packet = wire.pack_job_status_announce(*numbers)
        if is_running(self._loop):
            self._station.announce(self, packet)
        else:
            asyncio.run_coroutine_threadsafe(self._announce_and_drain(packet), self._loop).result()

    async def _announce_and_drain(self, packet: bytes) -> None:
        self._station.announce(self, packet)
        await self._station.drain()


class Station:
    """One server, as the worker sees it."""

    def __init__(self, server: str, worker: Worker) -> None:
        self.server = server
        self.refused = False
        """It has said "no, sorry", and no noop since."""
        self._worker = worker
        self._connection: Connection | None = None
        self._heard = False
        """The server has been of use on this connection: the next may be made without a long pause."""
        self._names: list[bytes] = []
        """What the server was told that the worker can do, when it was asked last."""
        self._announced_bytes = 0
        """The body of an end that was announced and may still be refused; 0: none."""
        self._refused_bytes = 0
        """The body of an end that was too large for the server; 0: none was."""
        self._refused_here = False
        """That was on this connection."""
        self._question: asyncio.Future[Task | None] | None = None
        self._task: Task | None = None
        """The task that the server thinks we have."""
        self._running: asyncio.Task[tuple[int, bytes]] | None = None
        self._gone = asyncio.Event()
        self._leaving = False

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    async def keep(self) -> None:
        """Be connected, and connect again after each loss, after pauses that grow."""
        retry_s = _RETRY_FIRST_S
        while True:
            self._gone.clear()
            self._heard = self._refused_here = False
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
            if self._heard:
                retry_s = _RETRY_FIRST_S
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, worker.retry_max_s)

    def introduce(self) -> None:
        """Say what the worker can do: at the start, and whenever that has changed."""
        if self.live:
            self._send(wire.pack_worker_connect(self._worker.names()))
            self._rouse()

    async def ask(self, timeout_s: float) -> Task | None:
        """Ask for a task. None: there is none, or no answer.

        The answer's time begins when the server has taken what was said before: that may be a large result.
        """
        if self._connection is not None:
            await self._connection.taken(timeout_s)
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
        finally:
            self._question = None

    async def attend(self, task: Task, running: asyncio.Task[tuple[int, bytes]]) -> None:
        """Stay with a task to its end, and announce that."""
        self._running = running
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            running.cancel()
            # The server may give the task to another while ours comes to its end.
            self._leaving = True
            self._abort("the worker was cancelled")
            await asyncio.wait([running])
            raise
        finally:
            self._running = None
        self._conclude(task, *((FAILED, b"cancelled") if running.cancelled() else running.result()))

    def refuse(self, task: Task) -> None:
        """Answer a task that the worker cannot do.

        One that it could do when it asked is given back: the server has it for another.
        """
        if as_bytes(task.name) not in self._names:
            self._conclude(task, FAILED, b"this worker does not do that")
            return
        self._task = None
        self._send(wire.WORKER_DISCONNECT_PACKET)
        self.introduce()

    def _conclude(self, task: Task, code: int, data: bytes) -> None:
        """Announce the end. A result that the server would not take is a failure."""
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
        """Why an end is not to be announced; empty: it is."""
        limit = self._worker.packet_bytes_max
        if body_bytes > limit:
            return f"the worker's packet_bytes_max is {limit}"
        if self._refused_bytes and body_bytes >= self._refused_bytes:
            return f"the server has refused one of {self._refused_bytes} bytes"
        return ""

    def announce(self, task: Task, packet: bytes) -> None:
        """Say something of a task, as long as it is this server's."""
        if not task.lost:
            self._send(packet)

    async def drain(self) -> None:
        if self._connection is not None:
            await self._connection.drain()

    def sleep(self) -> None:
        """Say that the worker is about to sleep."""
        if self.live:
            self._send(wire.WORKER_SLEEP_PACKET)

    async def leave(self) -> None:
        """Say goodbye, and close; with a task in its hands, break off."""
        self._leaving = True
        if self._task is not None:
            # After a goodbye the task would be next again, and end worker after worker without blame.
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

    def _rouse(self) -> None:
        self.refused = False
        self._worker.rouse(self)

    def _answer(self, task: Task | None) -> None:
        if self._question is not None and not self._question.done():
            self._question.set_result(task)

    # what the connection tells

    def received(self, packet_type: int, body: bytes) -> None:
        error = read_error(packet_type, body)
        if packet_type == wire.NOOP:
            self._heard = True
            self._rouse()
        elif error is not None:
            self._worker.complain(self.server, error)
            if error.code == wire.PACKET_TOO_LARGE and self._announced_bytes:
                # It closes now, and gives the task out again: the next attempt will know.
                self._refused_here = True
                self._refused_bytes = self._announced_bytes
            if error.code == wire.NO_TASK:
                # It follows what we announced: the task was taken back, or had ended, before that.
                if self._task is not None:
                    self._task.lost = True
            elif self._question is not None:
                self._abort(f"no job and no refusal, but: {error}")
        elif packet_type == wire.JOB_ASSIGN_RES and self._question is not None and not self._question.done():
            self._assigned(body)
        else:
            self._abort(f"{name_of(packet_type)}, which nobody asked for")

    def lost(self, reason: ConnectionLost) -> None:
        if not self._leaving:
            log.warning("%s", reason)
        self._connection = None
        if not self._refused_here:
            # Whoever answers there next may have another limit.
            self._refused_bytes = 0
        self._gone.set()
        if self._task is not None:
            self._task.lost = True
            self._task = None
        if self._running is not None:
            self._running.cancel()
        self._answer(None)

    def _assigned(self, body: bytes) -> None:
        self._heard = True
        self._announced_bytes = 0
        if not body:
            self.refused = True
            self._answer(None)
            return
        fields = wire.parse_job_assign_res(body)
        if fields is None:
            self._abort(f"an assignment of a form not known: {body[:80]!r}")
            return
        self._task = Task(self, *fields)
        self._answer(self._task)
