"""The hall as a worker of other WMP managers: it takes their jobs, submits them here, and returns the results.

Invariant: a job taken from another manager is a job of the hall like any other, watched by its `Bridge`. When
its manager cancels it, it is cancelled here too, unless it has other watchers. The hall takes no more jobs than
its workers can start now, gives back jobs that no worker takes, and takes no job that has passed it before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import CLOSING, HALL_FULL, QUEUE_FULL, STORE_DOWN, Refusal
from hiringhall.core.jobs import JobSpec
from hiringhall.core.peer import Peer
from hiringhall.core.states import CANCELLED, DONE, FAILURE, QUEUED
from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.context import PASSED_MANAGERS
from hiringhall.peers.wmp import JobDeclined, JobFailed, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms
    from hiringhall.engine.driver import Driver
    from hiringhall.peers.wmp import Job as TakenJob

log: Final = logging.getLogger("hiringhall.wmp")

PLACE_S: Final = 0.5
"""A job that is still queued at two checks this far apart is given back."""
_TEMPORARY: Final = (HALL_FULL, QUEUE_FULL, STORE_DOWN, CLOSING)
"""Refusals that depend on this hall: another worker of the manager can do the job."""
_CANCELLED: Final = b"its manager cancelled it"
_TOO_SLOW: Final = "its manager does not read the data that was sent before the result"
UPDATE_BYTES: Final = 100
"""What an update counts in addition to its data."""
PENDING_BYTES_MAX: Final = 64 << 20
"""Updates that wait to be sent to a manager. If another comes when there are more, the job is given up."""


class Bridge(Peer):
    """Watches one job in the hall, and queues its updates until they are sent to its manager."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: asyncio.Queue[tuple[int, int] | bytes | None] = asyncio.Queue()
        """Progress or data; None: the job has ended."""
        self.pending_bytes = 0
        """The size of the updates that are not sent yet."""
        self.overrun = False
        """An update was dropped, because too many were pending."""
        self.state = CANCELLED
        self.code = FAILURE
        self.result = b""

    def progressed(self, job: Job) -> None:
        self._add((job.numerator, job.denominator), UPDATE_BYTES)

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        del job, warning
        self._add(data, len(data) + UPDATE_BYTES)

    def _add(self, update: tuple[int, int] | bytes, size: int) -> None:
        # A notice must not call a verb: past the limit updates are dropped, and `Agency` gives the job up.
        if self.pending_bytes > PENDING_BYTES_MAX:
            self.overrun = True
            return
        self.updates.put_nowait(update)
        self.pending_bytes += size

    def ended(self, job: Job) -> None:
        # The result of a memory job is dropped after its watchers were notified.
        self.state, self.code, self.result = job.state, job.code, job.result
        self.updates.put_nowait(None)


class Agency:
    """Takes jobs of other managers for some queues of the hall."""

    def __init__(
        self,
        driver: Driver,
        managers: Sequence[str],
        roles: Sequence[str],
        slots: int,
        name: str,
        terms: Terms,
    ) -> None:
        self._driver = driver
        self._terms = terms
        self._name = name
        self._warned = False
        handlers = dict.fromkeys(roles, self._do)
        room = driver.scheduler.spare
        self._worker = Worker(managers, handlers, slots=slots, name=name, via=name, room=room)
        self._running: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._worker.run())
        self._looking = asyncio.create_task(self._look_for_room())

    def stop_taking(self) -> None:
        """The hall drains: take no more jobs; those that were taken can finish."""
        self._worker.stop()

    async def close(self) -> None:
        """Give back the jobs that have not finished."""
        for task in (self._looking, self._running):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _look_for_room(self) -> None:
        """Tell the managers as soon as a worker of the hall waits for a role that was not announced to them."""
        state = self._worker.state
        while True:
            await self._driver.when(lambda: state.has_news)
            self._worker.look_for_room()

    async def _do(self, taken: TakenJob) -> bytes:
        bridge = Bridge()
        job = self._submit(taken, bridge)
        try:
            while (update := await self._next_update(bridge, job)) is not None:
                if bridge.overrun:
                    self._cancel(job, bridge)
                    raise JobFailed(_TOO_SLOW)
                if isinstance(update, bytes):
                    bridge.pending_bytes -= len(update)
                    await taken.send(update)
                else:
                    await taken.progress(*update)
                bridge.pending_bytes -= UPDATE_BYTES
        except asyncio.CancelledError:
            self._cancel(job, bridge)
            raise
        if bridge.state == DONE:
            return bridge.result
        raise JobFailed(bridge.result.decode(errors="replace") or "cancelled", max(bridge.code, FAILURE))

    async def _next_update(self, bridge: Bridge, job: Job) -> tuple[int, int] | bytes | None:
        """Wait for the next update of a job. A job that no worker takes is given back."""
        was_queued = False
        while True:
            try:
                async with asyncio.timeout(PLACE_S):
                    return await bridge.updates.get()
            except TimeoutError:
                if job.state == QUEUED and was_queued:
                    self._cancel(job, bridge)
                    raise JobDeclined("no worker of the hall takes it") from None
                was_queued = job.state == QUEUED

    def _submit(self, taken: TakenJob, bridge: Bridge) -> Job:
        way = (*taken.via, taken.manager)
        if self._name.encode() in way or len(way) > wire.PASSED_MANAGERS_MAX:
            if taken.manager == self._name.encode() and not self._warned:
                self._warned = True
                log.warning("another manager has the name of this hall, %s: rename one of them", self._name)
            raise JobDeclined(
                f"it has passed this hall before, or more than {wire.PASSED_MANAGERS_MAX} managers"
            )
        role = taken.role.encode(errors="surrogateescape")
        spec = JobSpec(role, taken.payload, taken.key, self._terms, extras={PASSED_MANAGERS: b"\n".join(way)})
        self._driver.turn()
        try:
            return self._driver.scheduler.submit(spec, bridge)
        except Refusal as refusal:
            if refusal.reason in _TEMPORARY:
                raise JobDeclined(refusal.text) from refusal
            raise JobFailed(refusal.text, FAILURE) from refusal

    def _cancel(self, job: Job, bridge: Bridge) -> None:
        self._driver.turn()
        if job.ended:
            return
        if job.watchers == [bridge] and not job.terms.detached:
            self._driver.scheduler.cancel(job, _CANCELLED)
        else:
            self._driver.scheduler.unwatch(job, bridge)
