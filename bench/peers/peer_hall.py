"""The hall with its SDK: the blocking face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs_hall import FUNCTIONS
from load import BlockingPeer, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall import Job

WAIT_S_MAX = 60


class BlockingHall(BlockingPeer):
    in_flight_threads = True

    def submit(self, function: str, pair: Pair) -> Job[int]:
        return FUNCTIONS[function].submit(*pair)

    def result(self, handle: Job[int]) -> int:
        return handle.result(timeout=WAIT_S_MAX)

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return list(FUNCTIONS[function].starmap(pairs))


peer = BlockingHall()
