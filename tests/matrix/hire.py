"""Hire: the project's own provider and worker. A job has a type and a time, and neither payload nor result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from hiringhall.peers.hire import Provider, Stage
from hiringhall.peers.hire import Worker as HireParticipant

from .contract import PATIENCE_S, End, Submitted, Submitter, Task, Worker, stop
from .house import HELD_S

if TYPE_CHECKING:
    from hiringhall.peers.hire import Job, Performance


class HireSubmitted(Submitted):
    def __init__(self, provider: Provider, queue: str, skill: int) -> None:
        super().__init__()
        self._satisfied = asyncio.Event()
        self.running: asyncio.Task[Performance] = asyncio.create_task(
            provider.employ(queue, HELD_S, satisfied=self._satisfied, skill=skill)
        )

    async def end(self) -> End:
        """A provider ends its job itself. If its worker has quit, it has announced it again."""
        if self.running.cancelled():
            return End("cancelled")
        self._satisfied.set()
        performance = await self.running
        return End("failed" if performance.announced > 1 else "")

    async def cancel(self) -> None:
        """The worker is dismissed."""
        await stop(self.running)


class HireSubmitter(Submitter):
    keeps_jobs = True
    announces_again = True

    async def __aenter__(self) -> Self:
        self._jobs: list[HireSubmitted] = []
        self._provider = Provider(self.house.hire, window_s=0.3, pause_s=0.1, pause_max_s=0.2, buffer_s=2.0)
        await self._provider.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for job in self._jobs:
            if not job.running.done():
                await stop(job.running)
        await self._provider.__aexit__(None, None, None)

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        return await self.submit_with_need(payload, 0)

    async def submit_with_need(self, payload: bytes, skill: int) -> Submitted:
        job = HireSubmitted(self._provider, self.queue, skill)
        self._jobs.append(job)
        return job


class HireWorker(Worker):
    states_skill = True
    ends_with_time = True
    known_by_bid = True

    async def __aenter__(self) -> Self:
        self._dismissed = asyncio.Event()
        self._worker = HireParticipant(
            self.house.hire, {self.queue: self.skill}, perform=self._perform, tell=self._tell
        )
        self._running: asyncio.Task[None] | None = asyncio.create_task(self._worker.run())
        return self

    async def _perform(self, job: Job) -> None:
        self._dismissed.clear()
        self.arrived.put_nowait(Task(None, None, job))

    def _tell(self, job: Job) -> None:
        if job.begun and job.stage is Stage.DISMISSED:
            self._dismissed.set()

    async def finish(self, task: Task, result: bytes) -> None:
        """It works until it is dismissed: when its time is over, or when its provider is satisfied."""

    async def told_to_stop(self, task: Task) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._dismissed.wait()

    async def rate(self, skill: int) -> None:
        self._worker.skills[self.queue] = skill

    async def die(self) -> None:
        """Disconnect without QUIT."""
        await stop(self._running)
        self._running = None

    async def __aexit__(self, *_: object) -> None:
        await self.die()
