"""WMP: jobs of the project's own manager, for which the hall works, and the project's own worker."""

from __future__ import annotations

import asyncio
from typing import Self

import zmq.asyncio

from hiringhall.dialects.wmp import wire
from hiringhall.peers import wmp

from .contract import PATIENCE_S, End, HandlerWorker, Submitted, Submitter, Task


class WmpSubmitted(Submitted):
    def __init__(self, job: wmp.Submitted) -> None:
        super().__init__()
        self.job = job

    async def end(self) -> End:
        async for update in self.job:
            if isinstance(update, wmp.Data):
                self.chunks += update.data
            else:
                self.progress.append((update.numerator, update.denominator))
        try:
            return End("done", await self.job.result())
        except wmp.JobFailed as failure:
            return End("failed", failure.reason, failure.code)
        except wmp.JobCancelled:
            return End("cancelled")

    async def cancel(self) -> None:
        self.job.cancel()


class WmpSubmitter(Submitter):
    keeps_jobs = True
    waits_for_room = True

    async def __aenter__(self) -> Self:
        self._jobs: list[wmp.Submitted] = []
        return self

    async def submit(self, payload: bytes, key: str = "") -> Submitted:
        job = self.house.manager.submit(self.queue, payload, key=key)
        self._jobs.append(job)
        return WmpSubmitted(job)

    async def __aexit__(self, *_: object) -> None:
        for job in self._jobs:
            job.cancel()


class WmpWorker(HandlerWorker):
    states_skill = True

    async def __aenter__(self) -> Self:
        self._resources = ""
        self._stopped = asyncio.Event()
        if self.doomed:
            self.run(self._take_one())
        else:
            await self._start()
        return self

    async def _start(self) -> None:
        # The hall bids for a WMP worker only if its skill is known.
        self.run(
            wmp.Worker(
                [self.house.wmp],
                {self.queue: self._work},
                name=self.name,
                skills={self.queue: self.skill},
                resources=self._resources,
                ready_max_s=1.0,
            ).run()
        )

    async def _work(self, job: wmp.Job) -> bytes:
        try:
            return await self.handle(job.payload, job.key, job, job.resources)
        except asyncio.CancelledError:
            self._stopped.set()
            raise

    async def _take_one(self) -> None:
        """Plain frames: our worker gives its job back when it ends."""
        role = (b"role", self.queue.encode())
        skill = (b"skill", b"%d %b" % (self.skill, self.queue.encode()))
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.connect(f"tcp://{self.house.wmp}")
            await dealer.send_multipart([b"", b"", wire.encode_body(wire.READY, [role, skill])])
            while (message := wire.parse_body((await dealer.recv_multipart())[-1])).command != wire.TAKE:
                if message.command == wire.WAKE:
                    await dealer.send_multipart([b"", b"", wire.encode_body(wire.GIVE, [role])])
            self.arrived.put_nowait(Task(message.payload, message.first(b"key"), message))
            await asyncio.Event().wait()

    async def rate(self, skill: int) -> None:
        """Its next READY says it: ours says it from the start, so another takes its place. The same with
        resources.
        """
        self.skill = skill
        await self._replace()

    async def equip(self, resources: str) -> None:
        self._resources = resources
        await self._replace()

    async def _replace(self) -> None:
        await self.die()
        await self._start()

    async def progress(self, task: Task, numerator: int, denominator: int) -> None:
        await task.own.progress(numerator, denominator)  # type: ignore[attr-defined]

    async def chunk(self, task: Task, data: bytes) -> None:
        await task.own.send(data)  # type: ignore[attr-defined]

    async def fail(self, task: Task, code: int, text: bytes) -> None:
        self.outcome(task).set_exception(wmp.JobFailed(text, code))

    async def told_to_stop(self, task: Task) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._stopped.wait()
