"""Who waits for the ends of jobs: handles one by one, and maps in bulk. No I/O.

Invariant: a handle that nobody holds any more is not in the registry, so that a program which submits and
forgets keeps nothing. What a registry holds is watched again on every new connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    import asyncio

    from hiringhall.sdk.conversation import Chunked, Ended, Logged, Progressed
    from hiringhall.sdk.errors import HallError

ENDS = 1
"""Level of a watch: the end only."""
ALL = 2
"""Level of a watch: progress, chunks and log lines too."""


class Watch:
    """One job, as one connection hears of it."""

    __slots__ = ("__weakref__", "end", "error", "job_id", "level", "news", "owner", "waiters")

    def __init__(self, job_id: int, owner: object, level: int = ENDS) -> None:
        self.job_id = job_id
        self.owner = owner
        """The connection that hears of it."""
        self.level = level
        self.end: Ended | None = None
        self.error: HallError | None = None
        """Why its end will not be heard of."""
        self.news = False
        """It has said something since this was set to False; only with the level ALL."""
        self.waiters: list[asyncio.Future[None]] = []

    @property
    def settled(self) -> bool:
        """Nothing more will be heard."""
        return self.end is not None or self.error is not None

    def wake(self) -> None:
        """Something was heard."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Bulk:
    """Many jobs whose ends are read together. Each job must be its own: none was joined."""

    __slots__ = ("dropped", "ended", "failed", "places", "waiter")

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        """Which of the jobs has which id, from the moment the hall has told it."""
        self.dropped = False
        """Nobody reads it any more."""
        self.ended: list[Ended] = []
        self.failed: HallError | None = None
        """Why an end will not be heard of."""
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """There is something new: ids, ends, or an error."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Watches:
    """All watches of one connection."""

    __slots__ = ("_bulks", "_watches")

    def __init__(self) -> None:
        self._watches: WeakValueDictionary[int, Watch] = WeakValueDictionary()
        self._bulks: dict[int, Bulk] = {}

    def __len__(self) -> int:
        return len(self._watches) + len(self._bulks)

    def add(self, job_id: int, owner: object) -> Watch:
        """The watch of this job: the one that is there, or a new one."""
        watch = self._watches.get(job_id)
        if watch is None:
            watch = self._watches[job_id] = Watch(job_id, owner)
        return watch

    def add_bulk(self, job_ids: list[int], bulk: Bulk) -> None:
        if not bulk.dropped:
            self._bulks.update(dict.fromkeys(job_ids, bulk))

    def drop_bulk(self, bulk: Bulk) -> None:
        """Nobody reads it any more."""
        bulk.dropped = True
        self._bulks = {job_id: other for job_id, other in self._bulks.items() if other is not bulk}

    def waiting(self) -> list[tuple[int, int]]:
        """Jobs whose end has not been heard of, with the level: to be watched on a new connection."""
        single = [(watch.job_id, watch.level) for watch in list(self._watches.values()) if not watch.settled]
        return single + [(job_id, ENDS) for job_id in self._bulks]

    # --- what was heard

    def ended(self, end: Ended) -> None:
        bulk = self._bulks.pop(end.job_id, None)
        if bulk is not None:
            bulk.ended.append(end)
            bulk.wake()
        watch = self._watches.pop(end.job_id, None)
        if watch is not None:
            watch.end = end
            watch.wake()

    def failed(self, job_id: int, error: HallError) -> None:
        """The end of this job will not be heard of."""
        bulk = self._bulks.pop(job_id, None)
        if bulk is not None:
            bulk.failed = error
            bulk.wake()
        watch = self._watches.pop(job_id, None)
        if watch is not None:
            watch.error = error
            watch.wake()

    def heard(self, said: Chunked | Logged | Progressed) -> None:
        watch = self._watches.get(said.job_id)
        if watch is not None:
            watch.news = True
            watch.wake()
