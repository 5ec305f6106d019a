"""Gearman's first draft, by the project's own client and worker. A client waits for its job (sync+wait)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from hiringhall.core.states import CALLED_OFF
from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft import Client, JobFailed, ServerError, TaskError, Worker

from .contract import PATIENCE_S, End, HandlerWorker, Refused, Submitted, Submitter

if TYPE_CHECKING:
    from hiringhall.peers.gearman_draft import Status
    from hiringhall.peers.gearman_draft import Task as DraftTask

    from .contract import Task


class DraftSubmitted(Submitted):
    def __init__(self, client: Client, queue: str, payload: bytes, key: str) -> None:
        super().__init__()
        self.running = asyncio.create_task(client.run(queue, payload, key=key, on_status=self._heard))

    def _heard(self, status: Status) -> None:
        self.progress.append((status.numerator, status.denominator))

    async def end(self) -> End:
        try:
            return End("done", await self.running)
        except JobFailed as failure:
            state = "cancelled" if failure.code == CALLED_OFF else "failed"
            return End(state, failure.data, failure.code)
        except ServerError as error:
            raise Refused(error.text) from error


class DraftSubmitter(Submitter):
    async def __aenter__(self) -> Self:
        self._jobs: list[DraftSubmitted] = []
        self._client = Client(self.house.gearman)
        return self

    async def __aexit__(self, *_: object) -> None:
        for job in self._jobs:
            job.running.cancel()
        await asyncio.gather(*(job.running for job in self._jobs), return_exceptions=True)
        await self._client.close()

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        job = DraftSubmitted(self._client, self.queue, payload, key)
        self._jobs.append(job)
        return job


class DraftWorker(HandlerWorker):
    async def __aenter__(self) -> Self:
        self._refusals: asyncio.Queue[ServerError] = asyncio.Queue()
        worker = Worker(self.house.gearman, on_error=self._refusals.put_nowait)

        @worker.function(self.queue)
        async def work(task: DraftTask) -> bytes:
            return await self.handle(task.args, None, task)

        self.run(worker.run())
        return self

    async def progress(self, task: Task, numerator: int, denominator: int) -> None:
        task.own.status(numerator, denominator)  # type: ignore[attr-defined]

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        self.outcome(task).set_exception(TaskError(code, text))

    async def told_at_report(self, task: Task) -> bool:
        await self.progress(task, 9, 9)
        async with asyncio.timeout(PATIENCE_S):
            return (await self._refusals.get()).code == wire.NO_TASK
