"""SAQ with Redis."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING, Any

import orjson
import uvloop
from load import AsyncPeer, Pair
from redis.asyncio import Redis
from saq.queue.redis import RedisQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saq import Job, Queue

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
POLL_S = 0.001
MAP_POLL_S = 0.02
CHUNK = 1000
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "64"))


def make_queue() -> Queue:
    redis = Redis.from_url(os.environ["BENCH_REDIS"], max_connections=2 * CONCURRENCY + 100)
    return RedisQueue(redis, dump=orjson.dumps, load=orjson.loads, max_concurrent_ops=64)


async def add(context: dict[str, Any], *, a: int, b: int) -> int:
    return a + b


async def nap(context: dict[str, Any], *, a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


def settings() -> dict[str, Any]:
    return {"queue": make_queue(), "functions": [add, nap], "concurrency": CONCURRENCY}


class Saq(AsyncPeer):
    async def start(self) -> None:
        self.queue = make_queue()
        await self.queue.connect()

    async def submit(self, function: str, pair: Pair) -> Job:
        job = await self.queue.enqueue(function, a=pair[0], b=pair[1])
        assert job is not None
        return job

    async def result(self, handle: Job) -> int:
        await handle.refresh()
        while not handle.completed:  # refresh(until_complete=...) can miss the end of a job and wait for ever
            await asyncio.sleep(POLL_S)
            await handle.refresh()
        return int(handle.result)

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        # As Queue.map does, but in parts: Queue.map asks for all unfinished jobs again and again.
        jobs = list(await asyncio.gather(*(self.submit(function, pair) for pair in pairs)))
        results: list[int] = []
        while len(results) < len(jobs):
            keys = [job.key for job in jobs[len(results) : len(results) + CHUNK]]
            found = await self.queue.jobs(keys)
            ended = list(itertools.takewhile(lambda job: job is not None and job.completed, found))
            results += [int(job.result) for job in ended if job is not None]
            if len(ended) < len(found):
                await asyncio.sleep(MAP_POLL_S)
        return results


peer = Saq()
