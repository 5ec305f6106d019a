"""A worker's session with one server: it asks for jobs while it has a free slot, and sleeps if there are none.

            +--- NOOP ---------------------------+
            v                                    |
    [awake] --GRAB--> [asking] --NO_JOB, PRE_SLEEP--> [asleep]
       ^                  |
       +---- JOB_ASSIGN --+     the job runs in parallel; its end frees the slot

Invariant: at most one request is open. A job that was assigned is always answered while the connection is
open, also when the worker stops.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.connection import Connection
from hiringhall.peers.gearman.errors import ConnectionLost, ServerError
from hiringhall.peers.threads import is_running

if TYPE_CHECKING:
    from hiringhall.peers.gearman.worker import AsyncWorker

log = logging.getLogger("hiringhall.peers.gearman")

_ASSIGNMENTS: Final = {wire.JOB_ASSIGN: 3, wire.JOB_ASSIGN_UNIQ: 4, wire.JOB_ASSIGN_ALL: 5}
"""The number of arguments of each."""


class WorkerJob:
    """A job as a worker's handler gets it. All methods may be called from the handler's thread."""

    def __init__(
        self, session: WorkerSession, handle: bytes, function: bytes, unique: bytes, reducer: bytes, data: bytes
    ) -> None:
        self.session = session
        self.handle = handle
        self.function = function.decode(errors="surrogateescape")
        self.unique = unique
        """Empty if the job has none, or if the worker grabs "plain"."""
        self.reducer = reducer
        self.data = data
        self._loop = asyncio.get_running_loop()

    @property
    def server(self) -> str:
        return self.session.server

    @property
    def lost(self) -> bool:
        """Its connection has ended: the result cannot be delivered."""
        return not self.session.live

    def progress(self, numerator: int, denominator: int) -> None:
        """Send the progress of the job."""
        self.send(wire.WORK_STATUS, str(numerator).encode(), str(denominator).encode())

    def send_data(self, data: bytes) -> None:
        """Send a part of the result before the end."""
        self.send(wire.WORK_DATA, data)

    def warn(self, data: bytes) -> None:
        """Send a warning to the clients; the job continues."""
        self.send(wire.WORK_WARNING, data)

    async def drain(self) -> None:
        """Wait until the connection has room: for asyncio handlers that send a lot."""
        await self.session.drain()

    def send(self, packet_type: int, *args: bytes) -> None:
        """Send a packet about this job. In a thread, wait until there is room for it."""
        if is_running(self._loop):
            self.session.send(packet_type, self.handle, *args)
        else:
            asyncio.run_coroutine_threadsafe(self._send_and_drain(packet_type, args), self._loop).result()

    async def _send_and_drain(self, packet_type: int, args: tuple[bytes, ...]) -> None:
        self.session.send(packet_type, self.handle, *args)
        await self.session.drain()


class WorkerSession:
    """One connection of a worker, from its start to its end."""

    def __init__(self, server: str, worker: AsyncWorker) -> None:
        self.server = server
        self.jobs: dict[WorkerJob, asyncio.Task[None]] = {}
        """The running jobs."""
        self.answered = False
        """The server has sent something, so it works."""
        self._worker = worker
        self._connection: Connection | None = None
        self._asking = False
        self._asleep = False
        self._over: asyncio.Future[ConnectionLost | None] = asyncio.get_running_loop().create_future()

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    async def serve(self, connect_timeout_s: float) -> None:
        """Connect, work, and return when the worker stops. Raises ConnectionLost."""
        self._connection = await Connection.open(self.server, self, connect_timeout_s, self._worker.tls)
        worker = self._worker
        if worker.client_id:
            self.send(wire.SET_CLIENT_ID, worker.client_id.encode())
        for packet_type, args in worker.abilities():
            self.send(packet_type, *args)
        heartbeat = asyncio.create_task(self._beat(worker.heartbeat_s)) if worker.heartbeat_s else None
        try:
            self.ask()
            self.leave_if_idle()
            reason = await self._over
            if reason is not None:
                raise reason
        finally:
            if heartbeat is not None:
                heartbeat.cancel()
            if self._connection is not None:
                await self._connection.close()

    def send(self, packet_type: int, *args: bytes) -> None:
        if self._connection is not None:
            self._connection.send(wire.pack_request(packet_type, *args))

    async def drain(self) -> None:
        if self._connection is not None:
            await self._connection.drain()

    def ask(self) -> None:
        """Ask for a job if awake and a slot is free; otherwise wait for a slot."""
        if self._asking or self._asleep or self._worker.stopping or not self.live:
            return
        if self._worker.take_slot(self):
            self._asking = True
            self.send(self._worker.grab_type)

    def wake_up(self) -> None:
        """The functions of the worker have changed: ask again."""
        self._asleep = False
        self.ask()

    def leave_if_idle(self) -> None:
        """Disconnect if the worker stops and no job or request is open."""
        if self._worker.stopping and not self._asking and not self.jobs and not self._over.done():
            self._over.set_result(None)

    def ended(self, job: WorkerJob) -> None:
        """A job's handler has returned, and its outcome was sent."""
        del self.jobs[job]
        self._worker.free_slot()
        self.ask()
        self.leave_if_idle()

    async def _beat(self, heartbeat_s: float) -> None:
        while True:
            await asyncio.sleep(heartbeat_s)
            if self.jobs:
                self.send(wire.ECHO_REQ, b"alive")

    # called by the connection

    def received(self, packet_type: int, body: bytes) -> None:
        self.answered = True
        if packet_type == wire.NOOP:
            self._asleep = False
            self.ask()
        elif packet_type == wire.NO_JOB:
            self._asleep = True
            self.send(wire.PRE_SLEEP)
            self._release_slot()
        elif packet_type in _ASSIGNMENTS:
            self._assigned(packet_type, body)
        elif packet_type == wire.ERROR:
            code, _, text = body.partition(b"\0")
            self._worker.report_error(
                self.server, ServerError(code.decode(errors="replace"), text.decode(errors="replace"))
            )

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        if self._asking:
            self._release_slot()
        for task in self.jobs.values():
            # The results cannot be delivered any more.
            task.cancel()
        if not self._over.done():
            self._over.set_result(reason)

    def _release_slot(self) -> None:
        """There was no job: the slot is free for another server."""
        if self._asking:
            self._asking = False
            self._worker.free_slot()
        self.leave_if_idle()

    def _assigned(self, packet_type: int, body: bytes) -> None:
        args = wire.split(body, _ASSIGNMENTS[packet_type])
        if args is None or not self._asking:
            log.warning("%s: ignored an assignment that is malformed or was not requested", self.server)
            return
        self._asking = False
        handle, function, *middle, data = args
        unique, reducer = (*middle, b"", b"")[:2]
        job = WorkerJob(self, handle, function, unique, reducer, data)
        self.jobs[job] = self._worker.start(job)
        self.ask()
