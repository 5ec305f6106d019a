"""huey with SQLite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from huey import SqliteHuey
from load import BlockingPeer, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from huey.api import Result

POLL_S = 0.001
huey = SqliteHuey(
    "bench",
    filename=os.environ["BENCH_FOLDER"] + "/huey.db",
    fsync=os.environ["BENCH_FSYNC"] == "full",
    cache_mb=64,
)


@huey.task()
def add(a: int, b: int) -> int:
    return a + b


class Huey(BlockingPeer):
    def submit(self, function: str, pair: Pair) -> Result:
        return add(*pair)

    def result(self, handle: Result) -> int:
        return int(handle.get(blocking=True, timeout=60, backoff=1, max_delay=POLL_S))

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return list(add.map(pairs).get(blocking=True, timeout=60, backoff=1, max_delay=POLL_S))


peer = Huey()
