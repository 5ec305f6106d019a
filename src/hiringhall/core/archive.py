"""The latest ended jobs, so that they can still be found, named as parents, and retried.

The law: bounded in number and in bytes; the oldest goes first. The long memory is the store's history.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from hiringhall.core.jobs import FAILED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.limits import Limits


class Archive:
    """Ended jobs, the one that ended last at the end."""

    __slots__ = ("_by_key", "_bytes", "_bytes_max", "_count_max", "_kept")

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.ended_max
        self._bytes_max = limits.ended_bytes_max
        self._kept: OrderedDict[int, tuple[Job, int]] = OrderedDict()
        """By id, with the bytes that each was counted with."""
        self._by_key: dict[tuple[bytes, bytes], Job] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, job: Job) -> None:
        """Keep a job, and let the oldest go while there are too many."""
        size = len(job.payload) if job.state == FAILED else 0
        self._kept[job.id] = (job, size)
        self._bytes += size
        if job.key:
            self._by_key[job.queue.name, job.key] = job
        while len(self._kept) > self._count_max or self._bytes > self._bytes_max:
            _, (oldest, _) = next(iter(self._kept.items()))
            self.discard(oldest)

    def discard(self, job: Job) -> None:
        """Forget a job, because it runs again, was taken back or is too old."""
        kept = self._kept.pop(job.id, None)
        if kept is None:
            return
        self._bytes -= kept[1]
        if job.key and self._by_key.get((job.queue.name, job.key)) is job:
            del self._by_key[job.queue.name, job.key]

    def find(self, job_id: int) -> Job | None:
        kept = self._kept.get(job_id)
        return kept[0] if kept is not None else None

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        return self._by_key.get((queue, key))
