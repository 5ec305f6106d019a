"""Celery with Redis as broker and as result backend."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from celery import Celery, group
from load import BlockingPeer, Pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery.result import AsyncResult

WAIT_S_MAX = 60
app = Celery("bench", broker=os.environ["BENCH_REDIS"], backend=os.environ["BENCH_REDIS"])
app.conf.worker_prefetch_multiplier = 128
app.conf.broker_connection_retry_on_startup = True


@app.task(name="add")
def add(a: int, b: int) -> int:
    return a + b


class CeleryPeer(BlockingPeer):
    def submit(self, function: str, pair: Pair) -> AsyncResult[int]:
        return add.delay(*pair)

    def result(self, handle: AsyncResult[int]) -> int:
        return int(handle.get(timeout=WAIT_S_MAX))

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        return list(group(add.s(*pair) for pair in pairs).apply_async().get(timeout=WAIT_S_MAX))


peer = CeleryPeer()
