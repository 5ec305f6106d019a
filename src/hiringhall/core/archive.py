"""The latest ended jobs, so that they can still be found, named as parents, and retried.

The law: bounded in number and in bytes; the oldest goes first. The long memory is the store's history, from
which a parent that somebody waits for is brought back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.states import FAILED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.limits import Limits

SPARE_SHIFT: Final = 6
"""Those that go at once are one in 64 of those kept."""


class Archive:
    """Ended jobs, the one that ended last at the end."""

    __slots__ = ("_by_key", "_bytes", "_bytes_max", "_count_max", "_failed", "_kept", "_sizes", "complete")

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.ended_max
        self._bytes_max = limits.ended_bytes_max
        self._kept: dict[int, Job] = {}
        self._by_key: dict[tuple[bytes, bytes], Job] = {}
        self._sizes: dict[int, int] = {}
        """The bytes that each was counted with, where there are any."""
        self._bytes = 0
        self._failed: dict[bytes, int] = {}
        """How many of them failed, by the queue's name."""
        self.complete = True
        """Every line of the history is here too: what is not found here has never ended."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, job: Job) -> None:
        """Keep a job, and let the oldest go when there are too many."""
        self._kept[job.id] = job
        if job.state == FAILED:
            self._count_failed(job.queue.name, 1)
            size = len(job.payload)
            if size:
                self._sizes[job.id] = size
                self._bytes += size
        if job.named:
            self._by_key[job.queue.name, job.key] = job
        if len(self._kept) > self._count_max or self._bytes > self._bytes_max:
            self._let_go()

    def bring_back(self, job: Job) -> None:
        """Keep a job that was looked up in the history. A later one of its name keeps the name."""
        name = (job.queue.name, job.key)
        latest = self._by_key.get(name) if job.named else None
        self.add(job)
        if latest is not None and latest.ended_us > job.ended_us and latest.id in self._kept:
            self._by_key[name] = latest

    def _let_go(self) -> None:
        """Let the oldest go, and some more: a dict comes to its oldest by passing over all that went before."""
        count = len(self._kept)
        count_wanted = min(self._count_max, count - (count >> SPARE_SHIFT))
        size = self._bytes
        oldest: list[Job] = []
        for job in self._kept.values():
            if count <= count_wanted and size <= self._bytes_max:
                break
            oldest.append(job)
            count -= 1
            size -= self._sizes.get(job.id, 0)
        for job in oldest:
            self.discard(job)
        self.complete = False

    def discard(self, job: Job) -> None:
        """Forget a job, because it runs again, was taken back or is too old."""
        if self._kept.pop(job.id, None) is None:
            return
        self._bytes -= self._sizes.pop(job.id, 0)
        if job.state == FAILED:
            self._count_failed(job.queue.name, -1)
        if job.key and self._by_key.get((job.queue.name, job.key)) is job:
            del self._by_key[job.queue.name, job.key]

    def failed(self, queue: bytes) -> int:
        """How many jobs of a queue have failed, were not retried since, and are still kept."""
        return self._failed.get(queue, 0)

    def _count_failed(self, queue: bytes, change: int) -> None:
        count = self._failed.get(queue, 0) + change
        if count:
            self._failed[queue] = count
        else:
            del self._failed[queue]

    def find(self, job_id: int) -> Job | None:
        return self._kept.get(job_id)

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        return self._by_key.get((queue, key))
