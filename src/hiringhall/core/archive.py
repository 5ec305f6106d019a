"""The archive: the latest ended jobs, so that they can be found, named as parents, and retried.

Invariant: it is bounded in jobs and in bytes; the oldest is dropped first. The history in the store keeps them
longer: a parent that a job waits for is looked up there and brought back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.states import FAILED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef
    from hiringhall.core.limits import Limits

SPARE_SHIFT: Final = 6
"""When the archive is full, one in 64 jobs is dropped at once."""


class Archive:
    """Ended jobs, the latest at the end."""

    __slots__ = ("_by_key", "_bytes", "_bytes_max", "_count_max", "_failed", "_kept", "_sizes", "complete")

    def __init__(self, limits: Limits) -> None:
        self._count_max = limits.ended_max
        self._bytes_max = limits.ended_bytes_max
        self._kept: dict[int, Job] = {}
        self._by_key: dict[tuple[bytes, bytes], Job] = {}
        self._sizes: dict[int, int] = {}
        """The payload bytes of each failed job, by id."""
        self._bytes = 0
        self._failed: dict[bytes, dict[int, Job]] = {}
        """The failed jobs by queue name and id."""
        self.complete = True
        """Every row of the history is here too: a job that is not found here has never ended."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, job: Job) -> None:
        """Keep a job; drop the oldest if there are too many."""
        self._kept[job.id] = job
        if job.state == FAILED:
            self._failed.setdefault(job.queue.name, {})[job.id] = job
            size = len(job.payload)
            if size:
                self._sizes[job.id] = size
                self._bytes += size
        if job.named:
            # As in the history, the name means the job that ended last; an end may be reported late.
            name = (job.queue.name, job.key)
            latest = self._by_key.get(name)
            if latest is None or latest.ended_us <= job.ended_us:
                self._by_key[name] = job
        if len(self._kept) > self._count_max or self._bytes > self._bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop several at once: to find its first entry, a dict has to pass over all deleted ones."""
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
        """Drop a job: it is retried, was withdrawn, or is too old."""
        if self._kept.pop(job.id, None) is None:
            return
        self._bytes -= self._sizes.pop(job.id, 0)
        if job.state == FAILED:
            failed = self._failed[job.queue.name]
            del failed[job.id]
            if not failed:
                del self._failed[job.queue.name]
        if job.key and self._by_key.get((job.queue.name, job.key)) is job:
            del self._by_key[job.queue.name, job.key]

    def failed(self, queue: bytes) -> int:
        """How many failed jobs of a queue are kept."""
        return len(self._failed.get(queue, ()))

    def dead_letters(self, queue: bytes, count: int) -> list[Job]:
        """The dead letters of a queue that are kept, the oldest failure first; at most `count`."""
        found: list[Job] = []
        for job in self._failed.get(queue, {}).values():
            if len(found) >= count:
                break
            if job.terms.durable:
                found.append(job)
        return found

    def find(self, job_id: int) -> Job | None:
        """The job with this id, if it is kept."""
        return self._kept.get(job_id)

    def find_key(self, queue: bytes, key: bytes) -> Job | None:
        """The job of this key that ended last, if it is kept."""
        return self._by_key.get((queue, key))

    def find_ref(self, ref: ParentRef) -> Job | None:
        """The job that a child names as its parent."""
        return self._kept.get(ref) if isinstance(ref, int) else self._by_key.get(ref)
