"""Gearman, by the project's own client and worker. A client waits for its job, and asks for exceptions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from hiringhall.peers.gearman import AsyncClient, AsyncWorker, Data, JobFailed, Progress, ServerError

from .contract import PATIENCE_S, End, HandlerWorker, Refused, Submitted, Submitter

if TYPE_CHECKING:
    from hiringhall.peers.gearman import AsyncJob, WorkerJob

    from .contract import Task


class GearmanSubmitted(Submitted):
    def __init__(self, client: AsyncClient, job: AsyncJob) -> None:
        super().__init__()
        self._client = client
        self._job = job

    async def end(self) -> End:
        async for update in self._job:
            if isinstance(update, Progress):
                self.progress.append((update.numerator, update.denominator))
            elif isinstance(update, Data):
                self.chunks += update.data
        try:
            return End("done", await self._job.result())
        except JobFailed as failure:
            return End("failed", failure.exception)

    async def cancel(self) -> None:
        assert await self._client.admin(f"cancel job {self._job.handle.decode()}") == ["OK"]


class GearmanSubmitter(Submitter):
    async def __aenter__(self) -> Self:
        self._client = AsyncClient(self.house.gearman)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        try:
            return GearmanSubmitted(self._client, await self._client.submit(self.queue, payload, unique=key))
        except ServerError as error:
            raise Refused(error.code) from error


class GearmanWorker(HandlerWorker):
    async def __aenter__(self) -> Self:
        self._refusals: asyncio.Queue[ServerError] = asyncio.Queue()
        worker = AsyncWorker(self.house.gearman, client_id=self.name, on_error=self._refusals.put_nowait)

        @worker.function(self.queue)
        async def work(job: WorkerJob) -> bytes:
            return await self.handle(job.data, job.unique, job)

        self.run(worker.run())
        return self

    async def progress(self, task: Task, numerator: int, denominator: int) -> None:
        task.own.progress(numerator, denominator)  # type: ignore[attr-defined]

    async def chunk(self, task: Task, data: bytes) -> None:
        task.own.send_data(data)  # type: ignore[attr-defined]

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        self.outcome(task).set_exception(JobFailed(text))

    async def told_at_report(self, task: Task) -> bool:
        await self.progress(task, 9, 9)
        async with asyncio.timeout(PATIENCE_S):
            return (await self._refusals.get()).code == "JOB_NOT_FOUND"
