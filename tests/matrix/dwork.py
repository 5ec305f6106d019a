"""dwork: pyzmq with our codec, by a client that asks again until it is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from dwork_peer import Asker
from many_doors import complete, create

from hiringhall.dialects.dwork import wire

from .contract import ASK_S, PATIENCE_S, End, Refused, Submitted, Submitter, Task, Worker

if TYPE_CHECKING:
    from hiringhall.dialects.dwork.wire import Query


class DworkSubmitted(Submitted):
    def __init__(self, asker: Asker, name: bytes, failed: int) -> None:
        super().__init__()
        self._asker = asker
        self._name = name
        self._failed = failed
        """Tasks of the queue that had failed before."""

    async def end(self) -> End:
        """A consumer that needs the end asks for the status of the queue, and looks the task up."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await asyncio.to_thread(self._asker.ask, wire.encode(wire.LOOKUP, name=self._name))
                status = await asyncio.to_thread(self._asker.ask, wire.encode(wire.OK))
                if any(state == wire.RECORDED for task in found.tasks for state, _ in task.log or ()):
                    return End("done", found.tasks[0].origin or None)
                if _failed(status) > self._failed:
                    return End("failed", found.tasks[0].origin or None if found.tasks else None)
                if status.name is not None and status.name.startswith(b"0 ready, 0 waiting, 0 assigned"):
                    return End("ended")
                await asyncio.sleep(ASK_S)


class DworkSubmitter(Submitter):
    async def __aenter__(self) -> Self:
        self._asker = Asker(self.house.dwork[self.queue])
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._asker.close)

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        """The name of a task is what workers of other dialects receive; its origin is for dwork."""
        name = (key or f"task-{self.house.number()}").encode()
        failed = _failed(await asyncio.to_thread(self._asker.ask, wire.encode(wire.OK)))
        if await asyncio.to_thread(create, self._asker, name, payload) != wire.OK:
            raise Refused
        return DworkSubmitted(self._asker, name, failed)


def _failed(status: Query) -> int:
    assert status.name is not None
    return int(status.name.split(b",")[3].split()[0])


class DworkWorker(Worker):
    async def __aenter__(self) -> Self:
        self._asker = Asker(self.house.dwork[self.queue])
        self._location = self.name.encode()
        # A location is known from its first request on; the hall bids for it only if its skill is known.
        await self._steal()
        await self.house.rate(self.queue, self.skill, self.name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._asker.leave, self._location)
        await asyncio.to_thread(self._asker.close)

    async def _steal(self) -> None:
        answer = await asyncio.to_thread(self._asker.ask, wire.encode(wire.STEAL, location=self._location))
        for task in answer.tasks:
            self.arrived.put_nowait(Task(task.origin, task.name, task.name))

    async def take(self) -> Task:
        async with asyncio.timeout(PATIENCE_S):
            while self.arrived.empty():
                await asyncio.sleep(ASK_S)
                await self._steal()
        return self.arrived.get_nowait()

    async def finish(self, task: Task, result: bytes) -> None:
        assert await asyncio.to_thread(self._complete, task, result) == wire.OK

    async def told_at_report(self, task: Task) -> bool:
        return await asyncio.to_thread(self._complete, task, b"too late") == wire.NOT_FOUND

    async def die(self) -> None:
        """It says nothing more."""

    def _complete(self, task: Task, result: bytes) -> int:
        assert isinstance(task.own, bytes)
        return complete(self._asker, self._location, task.own, result)
