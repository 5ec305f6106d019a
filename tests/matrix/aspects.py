"""What is tried with each pair of dialects, and what was seen of it.

An aspect is a function over a pair. It returns the facts that held, of those that `FACTS` names for it. Whether
that is right is for `losses` to say.

A limit of a queue that is new, such as a maximum of starts, is one more fact of `limits`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from .contract import Refused, Unsupported, stop, until
from .dialects import SUBMITTER_OF, WORKER_OF
from .house import HELD_S, queue_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from .contract import Submitter, Task, Worker
    from .house import House

PAYLOAD: Final = b"oak"
RESULT: Final = b"planks"
TEXT: Final = b"the wood is rotten"
CODE: Final = 7
CHUNK: Final = b"sawdust"
SKILL: Final = 5
RESOURCES: Final = "saws=2"
KEY: Final = "felling"

FACTS: Final = {
    "success": {
        "done": "the job is done, once",
        "payload": "the worker is given the submitter's bytes",
        "end": "the submitter is told, or can ask, that it is done",
        "result": "the submitter gets the bytes of the result",
    },
    "failure": {
        "failed": "the worker can say that it failed",
        "heard": "the submitter is told, or can ask, that it failed",
        "text": "the submitter gets the worker's text",
        "code": "the submitter gets the worker's number, 1 to 255",
    },
    "progress": {"progress": "the submitter sees the worker's progress, such as 1 of 2"},
    "chunks": {
        "data": "data that the worker sends ahead of the result reaches the submitter",
        "ahead": "it reaches the submitter before the end",
    },
    "cancel": {
        "asked": "the submitter can cancel a job that runs, in its own dialect (an operator can in any case)",
        "heard": "the submitter is told, or can ask, that there will be no result",
        "told": "the worker is told, at the latest when it reports",
        "prompt": "the worker is told at once",
    },
    "lost worker": {"again": "the worker is gone without a word, and another one gets the job"},
    "needs": {
        "kept": "a worker without the skill gets the next job, and one with the skill gets this one",
        "asked": "the submitter states the skill in its own dialect",
        "stated": "the worker states its skill in its own dialect",
    },
    "resources": {
        "kept": "a worker without resources does not get a job that needs some, and gets the next job",
        "asked": "the submitter states the resources that its job needs in its own dialect",
        "given": "a worker that states them in its own dialect gets the job, and is told what it may use",
    },
    "limits": {
        "paused": "no job of a paused queue starts; it starts when the queue is resumed",
        "running": "while as many jobs run as the queue may run (`running_max`), no other starts; it does"
        " when one ends",
        "full": "a submitter over the maximum of live jobs (`maxqueue`) is told",
    },
    "key": {
        "joined": "a submit with the same queue and key, by a native client, joins the job",
        "shown": "the worker sees the key",
    },
}
"""The aspects, in the order of the page, and the sentences that each of them looks at."""


class Pair:
    """A submitter's dialect, a worker's dialect, and their queue."""

    def __init__(self, house: House, submitter: str, worker: str) -> None:
        self.house = house
        self.queue = queue_of(submitter, worker)
        self._submitter = SUBMITTER_OF[submitter]
        self._worker = WORKER_OF[worker]
        self._latest = 0
        """The number of the latest worker that the queue had before the present one."""

    def worker(self, *, skill: int = 0, doomed: bool = False) -> Worker:
        return self._worker(self.house, self.queue, skill=skill, doomed=doomed)

    @asynccontextmanager
    async def met(self, *, skill: int = 0, doomed: bool = False) -> AsyncIterator[tuple[Submitter, Worker]]:
        """A submitter and a worker. The queue is empty afterwards."""
        try:
            self._latest = max([each["number"] for each in await self.house.workers(self.queue)], default=0)
            async with self._submitter(self.house, self.queue) as submitter:
                try:
                    async with self.worker(skill=skill, doomed=doomed) as worker:
                        if submitter.waits_for_room and worker.known_by_bid:
                            await self._introduce(worker)
                        yield submitter, worker
                finally:
                    # A submitter that waits is told of the end before it leaves.
                    await self.house.clear(self.queue)
        finally:
            await self.house.need(self.queue, 0)

    async def _introduce(self, worker: Worker) -> None:
        """Give the worker a job to bid for."""
        other = await self.submit_other()
        await worker.finish(await worker.take(), RESULT)
        await until(lambda: self.house.is_over(other), "the first job is done")

    async def submit_other(self, **terms: object) -> int:
        """A job of an operator in the same queue."""
        spec = (self.queue.encode(), b"", terms, b"", 0, [])
        (job_id,) = await self.house.operator.request("submit", (0, [spec]))
        assert isinstance(job_id, int)
        return job_id

    async def started(self, job_id: int) -> bool:
        """Whether the job that has just started is this one."""
        begun: list[bool] = []

        async def known() -> bool:
            begun[:] = [job_id == job["id"] for job in await self.house.live(self.queue) if job["attempts"]]
            begun.extend([True] if await self.house.is_over(job_id) else [])
            return bool(begun)

        await until(known, "the hall knows which job has started")
        return all(begun)

    async def hold(self) -> None:
        """From now on a worker whose jobs end with their time keeps them."""
        if self._worker.ends_with_time:
            await self.house.need(self.queue, 0, HELD_S)

    async def rate(self, worker: Worker, skill: int) -> None:
        """How good the worker is from now on: it says so itself, or an operator does."""
        if worker.states_skill:
            await worker.rate(skill)
            return
        names: list[str] = []

        async def known() -> bool:
            workers = await self.house.workers(self.queue)
            new = [each for each in workers if each["number"] > self._latest]
            names[:] = [each["name"].decode() for each in workers if each["name"] == worker.name.encode()]
            names.extend(each["name"].decode() for each in new)
            return bool(names)

        await until(known, "the hall knows the worker")
        await self.house.rate(self.queue, skill, names[0])

    async def counted(self, total: str, count: int) -> None:
        """Wait until so many jobs of the queue have ended like this."""

        async def recorded() -> bool:
            return (await self.house.counts(self.queue))[total] == count

        await until(recorded, f"{total} of {self.queue} is {count}")

    async def reported(self, worker: Worker, task: Task) -> None:
        """Report progress, and wait until the hall knows it. Raises Unsupported."""
        await worker.progress(task, 1, 2)
        number = await self.house.live_id(self.queue)

        async def arrived() -> bool:
            return tuple((await self.house.job(number))["progress"]) == (1, 2)

        await until(arrived, "the hall knows the progress")


async def see_success(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        done = (await pair.house.counts(pair.queue))["done_total"]
        job = await submitter.submit(PAYLOAD)
        task = await worker.take()
        await worker.finish(task, RESULT)
        end = await job.end()
        await pair.counted("done_total", done + 1)
        told = end.state in ("done", "ended")
        return held(done=True, payload=task.payload == PAYLOAD, end=told, result=end.data == RESULT)


async def see_failure(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        failed = (await pair.house.counts(pair.queue))["failed_total"]
        job = await submitter.submit(PAYLOAD)
        try:
            await worker.fail(await worker.take(), CODE, TEXT)
        except Unsupported:
            return set()
        await pair.counted("failed_total", failed + 1)
        if submitter.announces_again:
            await worker.finish(await worker.take(), RESULT)
        end = await job.end()
        heard = end.state == "failed"
        return held(failed=True, heard=heard, text=end.data == TEXT, code=end.code == CODE)


async def see_progress(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        job = await submitter.submit(PAYLOAD)
        task = await worker.take()
        try:
            await pair.reported(worker, task)
        except Unsupported:
            return set()
        await job.look()
        await worker.finish(task, RESULT)
        await job.end()
        return held(progress=(1, 2) in job.progress)


async def see_chunks(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        job = await submitter.submit(PAYLOAD)
        task = await worker.take()
        try:
            await worker.chunk(task, CHUNK)
        except Unsupported:
            return set()
        await pair.reported(worker, task)  # so the hall has read the chunk before it
        if job.asks:
            # Output is written with the next commit, which nobody waits for.
            async def kept() -> bytes:
                await job.look()
                return job.chunks

            await until(kept, "the output is kept")
        await worker.finish(task, RESULT)
        end = await job.end()
        return held(data=job.chunks == CHUNK or end.data == CHUNK + RESULT, ahead=job.chunks == CHUNK)


async def see_cancel(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        await pair.hold()
        job = await submitter.submit(PAYLOAD)
        task = await worker.take()
        number = await pair.house.live_id(pair.queue)
        asked = True
        try:
            await job.cancel()
        except Unsupported:
            asked = False
            await pair.house.cancel(number)
        await until(lambda: pair.house.is_over(number), "the job is cancelled")
        told = at_once = False
        try:
            await worker.told_to_stop(task)
            told = at_once = True
        except Unsupported:
            with suppress(Unsupported):
                told = await worker.told_at_report(task)
        heard = (await job.end()).state in ("failed", "cancelled", "ended")
        return held(asked=asked, heard=heard, told=told, prompt=at_once)


async def see_lost_worker(pair: Pair) -> set[str]:
    async with pair.met(doomed=True) as (submitter, doomed):
        await pair.hold()
        await submitter.submit(PAYLOAD)
        await doomed.take()
        async with pair.worker() as second:
            await doomed.die()
            await second.take()
            return held(again=True)


async def see_needs(pair: Pair) -> set[str]:
    house, queue = pair.house, pair.queue
    async with pair.met(skill=1) as (submitter, worker):
        if not worker.states_skill:
            await pair.rate(worker, 1)
        asked = True
        try:
            await submitter.submit_with_need(PAYLOAD, SKILL)
        except Unsupported:
            asked = False
            await house.need(queue, SKILL)
            await submitter.submit(PAYLOAD)
        if not submitter.keeps_jobs:
            await until(lambda: house.live(queue), "the job is in the hall")
        # It stands behind the first one, and the worker can do it.
        other = await pair.submit_other(skill=1)
        task = await worker.take()
        skipped = await pair.started(other)
        await worker.finish(task, RESULT)
        await until(lambda: house.is_over(other), "the other job is done")
        await pair.rate(worker, SKILL)
        await worker.take()
        return held(kept=skipped, asked=asked, stated=worker.states_skill)


async def see_resources(pair: Pair) -> set[str]:
    house, queue = pair.house, pair.queue
    async with pair.met() as (submitter, worker):
        asked = True
        try:
            await submitter.submit_with_resources(PAYLOAD, RESOURCES)
        except Unsupported:
            asked = False
            await pair.submit_other(resources=RESOURCES)
        # It stands behind the first one, and needs nothing.
        other = await pair.submit_other()
        task = await worker.take()
        skipped = await pair.started(other)
        await worker.finish(task, RESULT)
        await until(lambda: house.is_over(other), "the other job is done")
        try:
            await worker.equip(RESOURCES)
        except Unsupported:
            kept = skipped and [job["state"] for job in await house.live(queue)] == ["queued"]
            return held(kept=kept, asked=asked)
        task = await worker.take()
        return held(kept=skipped, asked=asked, given=task.resources == RESOURCES)


async def see_limits(pair: Pair) -> set[str]:
    house, queue = pair.house, pair.queue
    async with pair.met() as (submitter, worker):
        taking = asyncio.create_task(worker.take())
        try:
            await house.operator.request("pause", (queue.encode(),))
            job = await submitter.submit(PAYLOAD)
            full = False
            if not submitter.keeps_jobs:
                await until(lambda: house.live(queue), "the job is in the hall")
                full = await _refused_when_full(pair, submitter)
            paused = not taking.done() and not (await house.counts(queue))["running"]
            await house.operator.request("resume", (queue.encode(),))
            await worker.finish(await taking, RESULT)
            await job.end()
        finally:
            await stop(taking)
    return held(paused=paused, running=await _kept_running_max(pair), full=full)


async def _kept_running_max(pair: Pair) -> bool:
    """The queue may run one job, which a worker of the operator's has: it ends before the next one starts."""
    house, queue = pair.house, pair.queue
    async with pair.met() as (submitter, worker):
        await pair.hold()
        taking: asyncio.Task[Task] | None = None
        try:
            async with house.occupied(queue) as other:
                await house.limit(queue, 1)
                taking = asyncio.create_task(worker.take())
                await submitter.submit(PAYLOAD)
                if not submitter.keeps_jobs:
                    await until(lambda: _is_limited(pair), "the job waits for the limit of its queue")
                kept = not taking.done() and (await house.counts(queue))["running"] == 1
            await taking
        finally:
            await stop(taking)
            await house.limit(queue, 0)
        (job,) = await house.live(queue)
        return kept and job["started_us"] >= (await house.job(other))["ended_us"]


async def _is_limited(pair: Pair) -> bool:
    return any(job["situation"] == "limited" for job in await pair.house.live(pair.queue))


async def _refused_when_full(pair: Pair, submitter: Submitter) -> bool:
    await pair.house.command(f"maxqueue {pair.queue} 1")
    try:
        await (await submitter.submit(b"one too many")).end()
    except Refused:
        return True
    finally:
        await pair.house.command(f"maxqueue {pair.queue} 0")
    return False


async def see_key(pair: Pair) -> set[str]:
    async with pair.met() as (submitter, worker):
        await pair.hold()
        await submitter.submit(PAYLOAD, KEY)
        task = await worker.take()
        number = await pair.house.live_id(pair.queue)
        spec = (pair.queue.encode(), PAYLOAD, {}, KEY.encode(), 0, [])
        (joined,) = await pair.house.operator.request("submit", (0, [spec]))
        return held(joined=joined == number, shown=task.key == KEY.encode())


ASPECTS: Final[dict[str, Callable[[Pair], Awaitable[set[str]]]]] = {
    "success": see_success,
    "failure": see_failure,
    "progress": see_progress,
    "chunks": see_chunks,
    "cancel": see_cancel,
    "lost worker": see_lost_worker,
    "needs": see_needs,
    "resources": see_resources,
    "limits": see_limits,
    "key": see_key,
}


def held(**facts: bool) -> set[str]:
    """The facts that hold."""
    return {fact for fact, holds in facts.items() if holds}
