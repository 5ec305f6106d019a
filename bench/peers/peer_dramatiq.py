"""dramatiq with Redis and its Redis result backend."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import Retries
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from load import BlockingPeer, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

URL = os.environ["BENCH_REDIS"]
WAIT_MS_MAX = 60_000
broker = RedisBroker(url=URL, middleware=[Retries(), Results(backend=RedisBackend(url=URL))])
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def add(a: int, b: int) -> int:
    return a + b


class Dramatiq(BlockingPeer):
    def submit(self, function: str, pair: Pair) -> dramatiq.Message[int]:
        return add.send(*pair)

    def result(self, handle: dramatiq.Message[int]) -> int:
        return handle.get_result(block=True, timeout=WAIT_MS_MAX)

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        group = dramatiq.group([add.message(*pair) for pair in pairs]).run()
        return list(group.get_results(block=True, timeout=WAIT_MS_MAX))


peer = Dramatiq()
