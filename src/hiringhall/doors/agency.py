"""The hall as a worker of other WMP managers: it takes their jobs, hands them in, and answers with their ends.

The law: a job taken from another manager is a job of the hall as any other, watched by its errand; when its
manager calls it off it ends here too, unless somebody else wants it. The hall takes no more than its workers
can do now, gives back what none of them takes, and takes no job that has passed it before.
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
from hiringhall.dialects.wmp.context import WAY
from hiringhall.peers.wmp import JobDeclined, JobFailed, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.core.jobs import Job
    from hiringhall.core.terms import Terms
    from hiringhall.engine.driver import Driver
    from hiringhall.peers.wmp import Job as TakenJob

log: Final = logging.getLogger("hiringhall.wmp")

PLACE_S: Final = 0.5
"""A job that waits for a worker of the hall at two looks so far apart is given back."""
_FOR_NOW: Final = (HALL_FULL, QUEUE_FULL, STORE_DOWN, CLOSING)
"""Why the hall refuses a job that another worker of its manager can do."""
_CALLED_OFF: Final = b"its manager called it off"
_TOO_SLOW: Final = "its manager does not take the data that comes ahead of the result"
PROGRESS_BYTES: Final = 100
"""What a piece of news costs by itself."""
NEWS_BYTES_MAX: Final = 64 << 20
"""Data that waits to be told to a manager; when more comes after this the job is given up."""


class Bridge(Peer):
    """Hears of one job in the hall, and keeps what is to be told until it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.news: asyncio.Queue[tuple[int, int] | bytes | None] = asyncio.Queue()
        """Progress, data, and None for the end."""
        self.news_bytes = 0
        """What waits there, and has not been told yet."""
        self.overrun = False
        """More came than is kept: something that was to be told is lost."""
        self.state = CANCELLED
        self.code = FAILURE
        self.result = b""

    def progressed(self, job: Job) -> None:
        self._tell((job.numerator, job.denominator), PROGRESS_BYTES)

    def chunked(self, job: Job, data: bytes, warning: bool) -> None:
        del job, warning
        self._tell(data, len(data) + PROGRESS_BYTES)

    def _tell(self, news: tuple[int, int] | bytes, size: int) -> None:
        # A notice calls no verb: beyond the bound nothing more is kept, and `Agency` gives the job up.
        if self.news_bytes > NEWS_BYTES_MAX:
            self.overrun = True
            return
        self.news.put_nowait(news)
        self.news_bytes += size

    def ended(self, job: Job) -> None:
        # A memory job's result is dropped once everybody has heard of it.
        self.state, self.code, self.result = job.state, job.code, job.result
        self.news.put_nowait(None)


class Agency:
    """Takes jobs of other managers for some of the hall's queues."""

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
        """The hall drains: what is under way may be finished."""
        self._worker.stop()

    async def close(self) -> None:
        """Give back what is still under way."""
        for task in (self._looking, self._running):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _look_for_room(self) -> None:
        """Tell the managers as soon as a worker of the hall waits for a role of which they do not know."""
        crew = self._worker.crew
        while True:
            await self._driver.when(lambda: crew.has_news)
            self._worker.look_for_room()

    async def _do(self, taken: TakenJob) -> bytes:
        errand = Bridge()
        job = self._hand_in(taken, errand)
        try:
            while (news := await self._hear(errand, job)) is not None:
                if errand.overrun:
                    self._call_off(job, errand)
                    raise JobFailed(_TOO_SLOW)
                if isinstance(news, bytes):
                    errand.news_bytes -= len(news)
                    await taken.send(news)
                else:
                    await taken.progress(*news)
                errand.news_bytes -= PROGRESS_BYTES
        except asyncio.CancelledError:
            self._call_off(job, errand)
            raise
        if errand.state == DONE:
            return errand.result
        raise JobFailed(errand.result.decode(errors="replace") or "cancelled", max(errand.code, FAILURE))

    async def _hear(self, errand: Bridge, job: Job) -> tuple[int, int] | bytes | None:
        """The next news of a job. One that nobody takes is given back."""
        waits = False
        while True:
            try:
                async with asyncio.timeout(PLACE_S):
                    return await errand.news.get()
            except TimeoutError:
                if job.state == QUEUED and waits:
                    self._call_off(job, errand)
                    raise JobDeclined("no worker of the hall takes it") from None
                waits = job.state == QUEUED

    def _hand_in(self, taken: TakenJob, errand: Bridge) -> Job:
        way = (*taken.via, taken.manager)
        if self._name.encode() in way or len(way) > wire.WAY_MAX:
            if taken.manager == self._name.encode() and not self._warned:
                self._warned = True
                log.warning("a manager has the name of this hall, %s: give one of them another", self._name)
            raise JobDeclined(f"it has been here, or has passed more than {wire.WAY_MAX} managers")
        role = taken.role.encode(errors="surrogateescape")
        spec = JobSpec(role, taken.payload, taken.key, self._terms, extras={WAY: b"\n".join(way)})
        self._driver.turn()
        try:
            return self._driver.scheduler.submit(spec, errand)
        except Refusal as refusal:
            if refusal.reason in _FOR_NOW:
                raise JobDeclined(refusal.text) from refusal
            raise JobFailed(refusal.text, FAILURE) from refusal

    def _call_off(self, job: Job, errand: Bridge) -> None:
        self._driver.turn()
        if job.ended:
            return
        if job.watchers == [errand] and not job.terms.detached:
            self._driver.scheduler.cancel(job, _CALLED_OFF)
        else:
            self._driver.scheduler.unwatch(job, errand)
