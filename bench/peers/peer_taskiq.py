"""taskiq with Redis: a list or a stream as broker, and its Redis result backend."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from load import AsyncPeer, Pair, side_by_side
from taskiq.serializers import ORJSONSerializer
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from taskiq import AsyncTaskiqTask

URL = os.environ["BENCH_REDIS"]
POLL_S = 0.001
WIDTH = 64
"""Connections, and requests of the client at a time: the library has no bulk submit."""
kind = {"list": ListQueueBroker, "stream": RedisStreamBroker}[os.environ.get("BENCH_BROKER", "stream")]
backend: RedisAsyncResultBackend[Any] = RedisAsyncResultBackend(
    URL, serializer=ORJSONSerializer(), keep_results=False, max_connection_pool_size=WIDTH
)
broker = (
    kind(URL, max_connection_pool_size=WIDTH).with_result_backend(backend).with_serializer(ORJSONSerializer())
)


@broker.task("add")
async def add(a: int, b: int) -> int:
    return a + b


@broker.task("nap")
async def nap(a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


FUNCTIONS = {"add": add, "nap": nap}


class Taskiq(AsyncPeer):
    async def start(self) -> None:
        await broker.startup()

    async def submit(self, function: str, pair: Pair) -> AsyncTaskiqTask[int]:
        return await FUNCTIONS[function].kiq(*pair)

    async def result(self, handle: AsyncTaskiqTask[int]) -> int:
        found = await handle.wait_result(check_interval=POLL_S, timeout=60)
        return found.return_value

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        tasks: list[Any] = [None] * len(pairs)
        results = [0] * len(pairs)

        async def send(number: int) -> None:
            tasks[number] = await self.submit(function, pairs[number])

        async def read(number: int) -> None:
            results[number] = await self.result(tasks[number])

        await side_by_side((send(number) for number in range(len(pairs))), WIDTH)
        await side_by_side((read(number) for number in range(len(pairs))), WIDTH)
        return results


peer = Taskiq()
