"""The native protocol, by the connection of the SDK. A client watches its job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from hiringhall.sdk.conversation import Assigned, Chunked, Progressed, Revoked
from hiringhall.sdk.errors import HallRefused
from hiringhall.sdk.watching import ALL

from .contract import PATIENCE_S, End, Refused, Submitted, Submitter, Task, Worker

if TYPE_CHECKING:
    from hiringhall.sdk.connection import Connection
    from hiringhall.sdk.watching import Watch


class NativeSubmitted(Submitted):
    def __init__(self, connection: Connection, watch: Watch) -> None:
        super().__init__()
        self._connection = connection
        self._watch = watch

    async def end(self) -> End:
        async with asyncio.timeout(PATIENCE_S):
            while not self._watch.settled:
                await self._connection.heard(self._watch)
        end = self._watch.end
        assert end is not None
        return End(end.state, end.result, end.code)

    async def cancel(self) -> None:
        await self._connection.request("cancel", (self._watch.job_id, b"not wanted"))

    def hear_chunk(self, said: Chunked) -> None:
        self.chunks += said.data

    def hear_progress(self, said: Progressed) -> None:
        self.progress.append((said.numerator, said.denominator))


class NativeSubmitter(Submitter):
    """The latest job is watched with all that its worker says."""

    async def __aenter__(self) -> Self:
        self._connection = self.house.connection()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        return await self._submit(payload, key, {})

    async def submit_with_need(self, payload: bytes, skill: int) -> Submitted:
        return await self._submit(payload, "", {"skill": skill})

    async def submit_with_resources(self, payload: bytes, resources: str) -> Submitted:
        return await self._submit(payload, "", {"resources": resources})

    async def _submit(self, payload: bytes, key: str, terms: dict[str, object]) -> Submitted:
        spec = (self.queue.encode(), payload, terms, key.encode(), 0, [])
        try:
            (job_id,) = await self._connection.request("submit", (0, [spec]))
        except HallRefused as refusal:
            raise Refused(refusal.code) from refusal
        job = NativeSubmitted(self._connection, await self._connection.watch(job_id, ALL))
        self._connection.on_frame[Progressed] = job.hear_progress
        self._connection.on_frame[Chunked] = job.hear_chunk
        return job


class NativeWorker(Worker):
    states_skill = True

    async def __aenter__(self) -> Self:
        self._revoked = asyncio.Event()
        self._connection = self.house.connection()
        hear = self._connection.on_frame
        hear[Assigned] = self._assigned
        hear[Revoked] = lambda _: self._revoked.set()
        await self.rate(self.skill)
        return self

    def _assigned(self, said: Assigned) -> None:
        self.arrived.put_nowait(Task(said.payload, said.key, said.lease, said.resources.decode()))

    async def rate(self, skill: int) -> None:
        await self._connection.request("work", self._stated(skill))

    async def equip(self, resources: str) -> None:
        await self._connection.request("work", (*self._stated(self.skill), (resources, b"")))

    def _stated(self, skill: int) -> tuple[object, ...]:
        return self.name.encode(), 1, [(self.queue.encode(), 0, skill)], -1, 0

    async def progress(self, task: Task, numerator: int, denominator: int) -> None:
        await self._connection.request("progress", (task.own, numerator, denominator, 0))

    async def chunk(self, task: Task, data: bytes) -> None:
        await self._connection.request("chunk", (task.own, data, False))

    async def finish(self, task: Task, result: bytes) -> None:
        await self._connection.request("finish", (task.own, result))

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        await self._connection.request("fail", (task.own, code, text, False))

    async def told_to_stop(self, task: Task) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._revoked.wait()

    async def die(self) -> None:
        await self._connection.close()

    async def __aexit__(self, *_: object) -> None:
        await self.die()
