"""The latest ended jobs, so that they can still be found, named as parents, and retried.

The law: bounded in number and in bytes; the oldest goes first. The long memory is the store's history.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.limits import Limits


class Archive:
    """A ring of ended jobs."""

    __slots__ = ("_by_id", "_by_key", "_bytes", "_bytes_max", "_count_max", "_order")

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.ended_max
        self._bytes_max = limits.ended_bytes_max
        self._by_id: dict[int, Job] = {}
        self._by_key: dict[tuple[bytes, bytes], Job] = {}
        self._order: deque[tuple[Job, int]] = deque()
        """Each kept job with the bytes that it was counted with; jobs retried meanwhile are passed over."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, job: Job) -> None:
        size = len(job.payload)
        self._by_id[job.id] = job
        if job.key:
            self._by_key[job.queue.name, job.key] = job
        self._order.append((job, size))
        self._bytes += size

    def pop_surplus(self) -> Job | None:
        """Drop the oldest job while there are too many; None when all is within bounds."""
        while len(self._order) > self._count_max or self._bytes > self._bytes_max:
            job, size = self._order.popleft()
            self._bytes -= size
            if self.discard(job):
                return job
        return None

    def discard(self, job: Job) -> bool:
        """Forget a job, because it runs again or is too old; False if it was not kept."""
        if self._by_id.get(job.id) is not job:
            return False
        del self._by_id[job.id]
        if job.key and self._by_key.get((job.queue.name, job.key)) is job:
            del self._by_key[job.queue.name, job.key]
        return True

    def find(self, job_id: int) -> Job | None:
        return self._by_id.get(job_id)

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        return self._by_key.get((queue, key))
