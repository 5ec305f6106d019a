"""PING/PONG: the project's own client, and a worker of plain pyzmq, which can be gone without a word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import zmq.asyncio

from hiringhall.dialects.pingpong import wire
from hiringhall.peers import pingpong

from .contract import PATIENCE_S, End, Refused, Submitted, Submitter, Task, Worker, stop

if TYPE_CHECKING:
    from hiringhall.peers.pingpong import Request

    from .house import House

PING_S: Final = 0.4


class PingPongSubmitted(Submitted):
    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    async def end(self) -> End:
        try:
            return End("done", await asyncio.to_thread(self._request.result))
        except pingpong.JobFailed as failure:
            return End("failed", failure.reason, failure.code)
        except pingpong.JobCancelled as cancelled:
            return End("cancelled", str(cancelled).encode())
        except pingpong.Refused as refusal:
            raise Refused(refusal.reason) from refusal


class PingPongSubmitter(Submitter):
    async def __aenter__(self) -> Self:
        self._client = pingpong.Client(self.house.pingpong_clients[self.queue], timeout_s=PATIENCE_S, retries=0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._client.close)

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        return PingPongSubmitted(self._client.start(payload))


class PingPongWorker(Worker):
    """It cannot say that it leaves: so the next one has its identity, and the hall misses nobody."""

    def __init__(self, house: House, queue: str, *, skill: int = 0, doomed: bool = False) -> None:
        super().__init__(house, queue, skill=skill, doomed=doomed)
        self.name = f"{queue}-doomed" if doomed else queue

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.setsockopt(zmq.LINGER, 0)
        self._dealer.setsockopt(zmq.IDENTITY, self.name.encode())
        self._dealer.connect(f"tcp://{self.house.pingpong_workers[self.queue]}")
        self._idle = asyncio.Event()
        self._idle.set()
        await self._say(wire.READY)
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._ping())]
        return self

    async def die(self) -> None:
        for task in self._tasks:
            await stop(task)
        self._tasks = []
        self._dealer.close()

    async def __aexit__(self, *_: object) -> None:
        await self.die()
        self._context.term()

    async def _listen(self) -> None:
        while True:
            _, body = await self._dealer.recv_multipart()
            if body != wire.PONG:
                self._idle.clear()
                self.arrived.put_nowait(Task(body, None, body))

    async def _ping(self) -> None:
        while True:
            await self._idle.wait()
            await asyncio.sleep(PING_S)
            if self._idle.is_set():
                await self._say(wire.PING)

    async def _say(self, body: bytes) -> None:
        await self._dealer.send_multipart([b"", body])

    async def finish(self, task: Task, result: bytes) -> None:
        await self._say(result)
        self._idle.set()

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        await self.finish(task, wire.pack_error(b"%d" % code, text))
