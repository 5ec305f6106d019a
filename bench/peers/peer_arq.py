"""arq with Redis."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from load import AsyncPeer, Pair, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arq.jobs import Job

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
POLL_S = 0.001
WIDTH = 64
"""Requests of the client at a time: the library has no bulk submit."""
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "64"))
redis = RedisSettings.from_dsn(os.environ["BENCH_REDIS"])


async def add(context: dict[str, Any], a: int, b: int) -> int:
    return a + b


async def nap(context: dict[str, Any], a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


class Settings:
    functions = (add, nap)
    redis_settings = redis
    max_jobs = CONCURRENCY
    poll_delay = 0.001
    job_serializer = msgspec.msgpack.encode
    job_deserializer = msgspec.msgpack.decode


class Arq(AsyncPeer):
    async def start(self) -> None:
        self.pool = await create_pool(
            redis, job_serializer=msgspec.msgpack.encode, job_deserializer=msgspec.msgpack.decode
        )

    async def submit(self, function: str, pair: Pair) -> Job:
        job = await self.pool.enqueue_job(function, *pair)
        assert job is not None
        return job

    async def result(self, handle: Job) -> int:
        return int(await handle.result(timeout=60, poll_delay=POLL_S))

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        jobs: list[Any] = [None] * len(pairs)
        results = [0] * len(pairs)

        async def send(number: int) -> None:
            jobs[number] = await self.submit(function, pairs[number])

        async def read(number: int) -> None:
            results[number] = await self.result(jobs[number])

        await side_by_side((send(number) for number in range(len(pairs))), WIDTH)
        await side_by_side((read(number) for number in range(len(pairs))), WIDTH)
        return results


peer = Arq()
