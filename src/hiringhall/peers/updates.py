"""The updates and the end of a job that a client waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Update = TypeVar("Update")
Failure = TypeVar("Failure", bound=Exception)


class JobUpdates(Generic[Update, Failure]):
    """Iterate over it for the updates; `result` waits for the end.

    Updates are kept until they are iterated over, at most the last `updates_max`. The iteration ends with the
    job.
    """

    def __init__(self, updates_max: int | None = None) -> None:
        self._updates: deque[Update] = deque(maxlen=updates_max)
        self._changed = asyncio.Event()
        self._outcome: bytes | Failure | None = None
        """None: it has not ended."""
        self._end = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._end.is_set()

    async def result(self) -> bytes:
        """Its result, or raises why there is none."""
        await self._end.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, bytes):
            return self._outcome
        raise self._outcome

    async def __aiter__(self) -> AsyncIterator[Update]:
        while True:
            while self._updates:
                yield self._updates.popleft()
            if self._end.is_set():
                return
            self._changed.clear()
            await self._changed.wait()

    def add_update(self, update: Update) -> None:
        self._updates.append(update)
        self._changed.set()

    def finish(self, outcome: bytes | Failure) -> None:
        """The job has ended. Further calls are ignored."""
        if not self._end.is_set():
            self._outcome = outcome
            self._end.set()
            self._changed.set()
