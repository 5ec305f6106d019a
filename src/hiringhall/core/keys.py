"""The index of live jobs by key.

Invariant: a key belongs to at most one live job of each queue. The same index answers for one queue and for all
queues; a key that only one queue uses, the usual case, costs one entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.jobs import Job

if TYPE_CHECKING:
    from hiringhall.core.queues import Queue


class Keys:
    """The keys of all live jobs."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: dict[bytes, Job | dict[Queue, Job]] = {}

    def find(self, queue: Queue, key: bytes) -> Job | None:
        """The job of a key in one queue."""
        entry = self._jobs.get(key)
        if entry is None:
            return None
        if isinstance(entry, Job):
            return entry if entry.queue is queue else None
        return entry.get(queue)

    def find_any(self, key: bytes) -> Job | None:
        """The oldest job with this key in any queue."""
        entry = self._jobs.get(key)
        if entry is None or isinstance(entry, Job):
            return entry
        return next(iter(entry.values()))

    def add(self, job: Job) -> None:
        """Add a job; no live job of its queue may have its key."""
        entry = self._jobs.setdefault(job.key, job)
        if entry is job:
            return
        if isinstance(entry, Job):
            self._jobs[job.key] = {entry.queue: entry, job.queue: job}
        else:
            entry[job.queue] = job

    def remove(self, job: Job) -> None:
        """Remove a job that has ended, if it holds its key."""
        entry = self._jobs.get(job.key)
        if entry is job:
            del self._jobs[job.key]
        elif isinstance(entry, dict) and entry.get(job.queue) is job:
            del entry[job.queue]
            if len(entry) == 1:
                self._jobs[job.key] = next(iter(entry.values()))

    def all(self) -> list[Job]:
        """Every job that has a key."""
        jobs: list[Job] = []
        for entry in self._jobs.values():
            if isinstance(entry, Job):
                jobs.append(entry)
            else:
                jobs.extend(entry.values())
        return jobs
