"""Data that a worker sends ahead of its result, for clients that receive a result in one piece.

Invariants: a client gets what the latest attempt has sent, in order, and nothing of earlier ones. What all
clients of a door collect is bounded; a result that is not whole is never passed on as if it were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job
    from hiringhall.core.peer import Peer

COLLECTED_BYTES_MAX: Final = 64 << 20
"""What the clients of one door collect together. A job whose data goes beyond this has no whole result."""
NOT_WHOLE: Final = (
    "the job is done, but its worker sent more data ahead of the result than this door can collect"
)


class Ahead:
    """What the present attempt at a job has sent."""

    __slots__ = ("attempt", "parts", "size")

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.parts: list[bytes] | None = []
        """None: it was too much, and nothing of it is kept."""
        self.size = 0


class Collection:
    """One for each door."""

    def __init__(self, bytes_max: int = COLLECTED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._by_client: dict[Peer, dict[int, Ahead]] = {}
        """By the id of the job."""

    def add(self, client: Peer, job: Job, data: bytes) -> None:
        """Keep data for a client that waits for this job."""
        jobs = self._by_client.setdefault(client, {})
        ahead = jobs.get(job.id)
        if ahead is None or ahead.attempt != job.attempts:
            self._forget(ahead)
            ahead = jobs[job.id] = Ahead(job.attempts)
        if ahead.parts is None:
            return
        if self._size + len(data) > self._bytes_max:
            self._forget(ahead)
            ahead.parts = None
            return
        ahead.parts.append(data)
        ahead.size += len(data)
        self._size += len(data)

    def whole(self, client: Peer, job: Job) -> bytes | None:
        """The result of a job that is done, with what was sent ahead of it. None: there was too much of it."""
        jobs = self._by_client.get(client)
        ahead = jobs.pop(job.id, None) if jobs is not None else None
        if jobs is not None and not jobs:
            del self._by_client[client]
        self._forget(ahead)
        if ahead is None or ahead.attempt != job.attempts:
            return job.result
        if ahead.parts is None:
            return None
        return b"".join([*ahead.parts, job.result])

    def drop(self, client: Peer) -> None:
        """The client is gone."""
        for ahead in self._by_client.pop(client, {}).values():
            self._forget(ahead)

    def _forget(self, ahead: Ahead | None) -> None:
        if ahead is not None:
            self._size -= ahead.size
            ahead.size = 0
