"""beanstalkd, by greenstalk, a client of others."""

from __future__ import annotations

import asyncio
from typing import Final, Self

import greenstalk

from .contract import ASK_S, PATIENCE_S, End, Refused, Submitted, Submitter, Task, Unsupported, Worker

RUN_S: Final = 3600
RESERVE_S: Final = 1


class BeanstalkdSubmitted(Submitted):
    def __init__(self, client: greenstalk.Client, job_id: int) -> None:
        super().__init__()
        self._client = client
        self._job_id = job_id

    async def end(self) -> End:
        """A producer that needs the end asks for the job until it is buried or gone."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    found = await asyncio.to_thread(self._client.stats_job, self._job_id)
                except greenstalk.NotFoundError:
                    return End("ended")
                if found["state"] == "buried":
                    return End("failed")
                await asyncio.sleep(ASK_S)

    async def cancel(self) -> None:
        try:
            await asyncio.to_thread(self._client.delete, self._job_id)
        except greenstalk.NotFoundError as error:
            raise Unsupported from error


class BeanstalkdSubmitter(Submitter):
    async def __aenter__(self) -> Self:
        self._client = await asyncio.to_thread(
            lambda: greenstalk.Client(self.house.beanstalkd, encoding=None, use=self.queue)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        try:
            job_id = await asyncio.to_thread(self._client.put, payload, ttr=RUN_S)
        except greenstalk.OutOfMemoryError as error:
            raise Refused from error
        return BeanstalkdSubmitted(self._client, job_id)


class BeanstalkdWorker(Worker):
    async def __aenter__(self) -> Self:
        self._client = await asyncio.to_thread(
            lambda: greenstalk.Client(self.house.beanstalkd, encoding=None, watch=self.queue)
        )
        self._loop = asyncio.get_running_loop()
        self._leaving = False
        self._reserving: asyncio.Task[None] | None = asyncio.create_task(asyncio.to_thread(self._reserve))
        return self

    def _reserve(self) -> None:
        """Wait for one job."""
        while not self._leaving:
            try:
                job = self._client.reserve(timeout=RESERVE_S)
            except (greenstalk.TimedOutError, greenstalk.DeadlineSoonError):
                continue
            self._loop.call_soon_threadsafe(self.arrived.put_nowait, Task(job.body, None, job))
            return

    async def take(self) -> Task:
        if self._reserving is None:
            self._reserving = asyncio.create_task(asyncio.to_thread(self._reserve))
        task = await super().take()
        await self._reserving
        self._reserving = None
        return task

    async def finish(self, task: Task, result: bytes) -> None:
        await asyncio.to_thread(self._client.delete, task.own)

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        await asyncio.to_thread(self._client.bury, task.own)

    async def told_at_report(self, task: Task) -> bool:
        try:
            await asyncio.to_thread(self._client.delete, task.own)
        except greenstalk.NotFoundError:
            return True
        return False

    async def die(self) -> None:
        self._leaving = True
        if self._reserving is not None:
            await self._reserving
            self._reserving = None
        self._client.close()

    async def __aexit__(self, *_: object) -> None:
        await self.die()
