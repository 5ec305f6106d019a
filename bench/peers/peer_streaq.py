"""streaQ with Redis."""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import TYPE_CHECKING

from load import AsyncPeer, Pair
from streaq import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaq.task import Task

POLL_S = 0.001
MAP_POLL_S = 0.02
CHUNK = 1000
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "64"))
worker: Worker[None] = Worker(
    redis_url=os.environ["BENCH_REDIS"],
    concurrency=CONCURRENCY,
    anyio_kwargs={"use_uvloop": True},
)


@worker.task(silent=True)
async def add(a: int, b: int) -> int:
    return a + b


@worker.task(silent=True)
async def nap(a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


FUNCTIONS = {"add": add, "nap": nap}


class Streaq(AsyncPeer):
    async def start(self) -> None:
        await worker.__aenter__()

    async def submit(self, function: str, pair: Pair) -> Task[[int, int], int]:
        return await FUNCTIONS[function].enqueue(*pair)

    # Task.result() opens a subscription for every task and takes 100 ms, so results are read from their keys.
    async def result(self, handle: Task[[int, int], int]) -> int:
        while (raw := await worker.redis.get(worker.results_key + handle.id)) is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        return int((await worker.deserialize(raw))["r"])

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        tasks = [FUNCTIONS[function].enqueue(*pair) for pair in pairs]
        for first in range(0, len(tasks), CHUNK):
            await worker.enqueue_many(tasks[first : first + CHUNK])
        results: list[int] = []
        while len(results) < len(tasks):
            keys = [worker.results_key + task.id for task in tasks[len(results) : len(results) + CHUNK]]
            raws = await worker.redis.mget(keys)
            ended = list(itertools.takewhile(lambda raw: raw is not None, raws))
            results += [int((await worker.deserialize(raw))["r"]) for raw in ended]
            if len(ended) < len(raws):
                await asyncio.sleep(MAP_POLL_S)
        return results


peer = Streaq()
