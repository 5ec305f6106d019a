"""rq with Redis; its workers run jobs in their own process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobs_rq import add
from load import BlockingPeer, Pair
from redis import Redis
from rq import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rq.job import Job

WAIT_S_MAX = 60
CHUNK = 1000
queue = Queue(connection=Redis.from_url(os.environ["BENCH_REDIS"]))


class Rq(BlockingPeer):
    def submit(self, function: str, pair: Pair) -> Job:
        return queue.enqueue(add, *pair)

    def result(self, handle: Job) -> int:
        found = handle.latest_result(timeout=WAIT_S_MAX)
        assert found is not None
        return int(found.return_value)

    def map(self, function: str, pairs: Sequence[Pair]) -> list[int]:
        jobs: list[Job] = []
        for first in range(0, len(pairs), CHUNK):
            data = [Queue.prepare_data(add, args=pair) for pair in pairs[first : first + CHUNK]]
            jobs += queue.enqueue_many(data)
        return [self.result(job) for job in jobs]


peer = Rq()
