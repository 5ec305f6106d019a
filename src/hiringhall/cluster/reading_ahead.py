"""What a standby does while it doubts that the active hall lives: it reads the jobs and fills a scheduler with
them, so that it need not do so after it has taken over.

Invariant: reading changes nothing and decides nothing. What was read is used only if that is still exact after
the take-over, as the store says then. Of all members one reads at a time. A store that is not needed is closed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.changes import Loaded
    from hiringhall.engine.recovery import Restored
    from hiringhall.storage.postgres import PostgresStore

PAUSE_US: Final = 60_000_000
"""If the active hall beats again, the jobs were read in vain. While it is active, they are not read again
before this time is over: a hall that is often late must not be slowed down by its standbys."""
RETRY_US: Final = 500_000
"""While another member reads, it is asked so often whether it has given up."""

_log = logging.getLogger("hiringhall")


class Successor(NamedTuple):
    """What a standby takes over with."""

    store: PostgresStore
    """Not loaded yet."""
    restored: Restored | None = None
    """What it has read ahead; None: nothing."""


class ReadingAhead:
    """Of one standby. `make_store` opens a store that is not loaded yet; it may raise StoreError. Of the ended
    jobs `ended_max` are loaded. `restore` fills a scheduler with what was read.
    """

    def __init__(
        self,
        make_store: Callable[[], PostgresStore],
        ended_max: int,
        restore: Callable[[Loaded], Restored],
    ) -> None:
        self._make_store = make_store
        self._ended_max = ended_max
        self._restore = restore
        self._reading: asyncio.Task[Successor | None] | None = None
        self._unwanted = threading.Event()
        self._incarnation = 0
        """The active hall, as it was seen last."""
        self._not_before_us = 0
        self._closing: set[asyncio.Task[None]] = set()
        self.another_reads = False
        """Another member reads, or has read: if it takes over, it serves sooner."""
        self._now_us = 0

    def answered(self, now_us: int, incarnation: int, *, doubts: bool) -> None:
        """The database has answered, and the active hall has been silent for longer than usual, or has not."""
        self._now_us = now_us
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._not_before_us = 0
        if not doubts:
            self.another_reads = False
            self._drop()
        elif self._reading is None and now_us >= self._not_before_us and not self._closing:
            self._not_before_us = now_us + PAUSE_US
            self._unwanted = threading.Event()
            self._reading = asyncio.ensure_future(self._read())

    async def finish(self) -> Successor | None:
        """With what was read, or with a store that has failed to; None: none has begun."""
        reading, self._reading = self._reading, None
        return None if reading is None else await reading

    async def close(self) -> None:
        self._drop()
        await asyncio.gather(*self._closing)

    def _drop(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            self._unwanted.set()
            closing = asyncio.ensure_future(_close(reading))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _read(self) -> Successor | None:
        loop, unwanted = asyncio.get_running_loop(), self._unwanted
        try:
            store = self._make_store()
        except StoreError as error:
            _log.info("the jobs are not read ahead: %s", error)
            return None
        restored: Restored | None = None
        gc.disable()  # It would look at a million new rows and jobs again and again.
        try:
            self.another_reads = not await loop.run_in_executor(None, store.may_read_ahead)
            if not self.another_reads:
                loaded = await loop.run_in_executor(None, store.read_ahead, self._ended_max, unwanted.is_set)
                if loaded is not None:
                    restored = await loop.run_in_executor(None, self._restore, loaded)
        except StoreError as error:
            _log.info("the jobs are not read ahead: %s", error)
        finally:
            gc.enable()
        if not self.another_reads:
            return Successor(store, restored)
        await loop.run_in_executor(None, store.close)
        if self._unwanted is unwanted:
            self._reading = None
            self._not_before_us = self._now_us + RETRY_US
        return None


async def _close(reading: asyncio.Task[Successor | None]) -> None:
    successor = await reading
    if successor is None:
        return
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, successor.store.close)
    if successor.restored is not None:
        del successor, reading
        await loop.run_in_executor(None, gc.collect)  # jobs refer to each other: nothing else frees them
