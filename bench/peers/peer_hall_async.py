"""The hall with its SDK: the asyncio face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_hall import FUNCTIONS
from load import AsyncPeer, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall import Job


class AsyncHall(AsyncPeer):
    async def start(self) -> None:
        """Nothing to do: the first submit connects."""

    async def submit(self, function: str, pair: Pair) -> Job[int]:
        return await FUNCTIONS[function].asubmit(*pair)

    async def result(self, handle: Job[int]) -> int:
        return await handle

    async def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return [result async for result in FUNCTIONS[function].astarmap(pairs)]


peer = AsyncHall()
