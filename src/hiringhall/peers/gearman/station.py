"""A worker's place at one server: it asks for work when there is a slot, sleeps when there is none to be had.

            +--- NOOP ---------------------------+
            v                                    |
    [awake] --GRAB--> [asking] --NO_JOB, PRE_SLEEP--> [asleep]
       ^                  |
       +---- JOB_ASSIGN --+     the job runs beside; its end frees the slot

The law: at most one question is open, and a job that was assigned is always answered while the connection
stands, stopping or not.
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
"""How many arguments each has."""


class WorkerJob:
    """A job in the hands of a worker's handler. All methods may be called from the handler's thread."""

    def __init__(
        self, station: Station, handle: bytes, function: bytes, unique: bytes, reducer: bytes, data: bytes
    ) -> None:
        self.station = station
        self.handle = handle
        self.function = function.decode(errors="surrogateescape")
        self.unique = unique
        """Empty when the job has none, or when the worker grabs "plain"."""
        self.reducer = reducer
        self.data = data
        self._loop = asyncio.get_running_loop()

    @property
    def server(self) -> str:
        return self.station.server

    @property
    def lost(self) -> bool:
        """The connection it came by is gone: nobody will take the result."""
        return not self.station.live

    def progress(self, numerator: int, denominator: int) -> None:
        """Tell how far it is."""
        self.send(wire.WORK_STATUS, str(numerator).encode(), str(denominator).encode())

    def send_data(self, data: bytes) -> None:
        """Send a piece of the result ahead of the end."""
        self.send(wire.WORK_DATA, data)

    def warn(self, data: bytes) -> None:
        """Tell the clients something; the job goes on."""
        self.send(wire.WORK_WARNING, data)

    async def drain(self) -> None:
        """Wait until the connection has room: for asynchronous handlers that send a lot."""
        await self.station.drain()

    def send(self, packet_type: int, *args: bytes) -> None:
        """Send a packet about this job; in a thread, wait until there is room for it."""
        if is_running(self._loop):
            self.station.send(packet_type, self.handle, *args)
        else:
            asyncio.run_coroutine_threadsafe(self._send_and_drain(packet_type, args), self._loop).result()

    async def _send_and_drain(self, packet_type: int, args: tuple[bytes, ...]) -> None:
        self.station.send(packet_type, self.handle, *args)
        await self.station.drain()


class Station:
    """One connection of a worker, from its opening to its end."""

    def __init__(self, server: str, worker: AsyncWorker) -> None:
        self.server = server
        self.jobs: dict[WorkerJob, asyncio.Task[None]] = {}
        """What runs now."""
        self.heard = False
        """The server has said something: it works."""
        self._worker = worker
        self._connection: Connection | None = None
        self._asking = False
        self._asleep = False
        self._over: asyncio.Future[ConnectionLost | None] = asyncio.get_running_loop().create_future()

    @property
    def live(self) -> bool:
        return self._connection is not None and self._connection.live

    async def serve(self, connect_timeout_s: float) -> None:
        """Open, work, and return when the worker stops; raises ConnectionLost."""
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
        """Ask for a job, if awake and there is a slot; else stand in line for one."""
        if self._asking or self._asleep or self._worker.stopping or not self.live:
            return
        if self._worker.take_slot(self):
            self._asking = True
            self.send(self._worker.grab_type)

    def rouse(self) -> None:
        """What the worker can do has changed: look again."""
        self._asleep = False
        self.ask()

    def leave_if_idle(self) -> None:
        """Part from the server once the worker stops and nothing is owed."""
        if self._worker.stopping and not self._asking and not self.jobs and not self._over.done():
            self._over.set_result(None)

    def ended(self, job: WorkerJob) -> None:
        """A job's handler has returned and what it said is on its way."""
        del self.jobs[job]
        self._worker.free_slot()
        self.ask()
        self.leave_if_idle()

    async def _beat(self, heartbeat_s: float) -> None:
        while True:
            await asyncio.sleep(heartbeat_s)
            if self.jobs:
                self.send(wire.ECHO_REQ, b"alive")

    # what the connection tells

    def received(self, packet_type: int, body: bytes) -> None:
        self.heard = True
        if packet_type == wire.NOOP:
            self._asleep = False
            self.ask()
        elif packet_type == wire.NO_JOB:
            self._asleep = True
            self.send(wire.PRE_SLEEP)
            self._answered()
        elif packet_type in _ASSIGNMENTS:
            self._assigned(packet_type, body)
        elif packet_type == wire.ERROR:
            code, _, text = body.partition(b"\0")
            self._worker.complain(
                self.server, ServerError(code.decode(errors="replace"), text.decode(errors="replace"))
            )

    def lost(self, reason: ConnectionLost) -> None:
        self._connection = None
        if self._asking:
            self._answered()
        for task in self.jobs.values():
            # Nobody will take the results any more.
            task.cancel()
        if not self._over.done():
            self._over.set_result(reason)

    def _answered(self) -> None:
        """A question found no job: the slot is free for another server."""
        if self._asking:
            self._asking = False
            self._worker.free_slot()
        self.leave_if_idle()

    def _assigned(self, packet_type: int, body: bytes) -> None:
        args = wire.split(body, _ASSIGNMENTS[packet_type])
        if args is None or not self._asking:
            log.warning("%s: an assignment that nobody asked for, or of a form not known", self.server)
            return
        self._asking = False
        handle, function, *middle, data = args
        unique, reducer = (*middle, b"", b"")[:2]
        job = WorkerJob(self, handle, function, unique, reducer, data)
        self.jobs[job] = self._worker.start(job)
        self.ask()
