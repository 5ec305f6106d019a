"""The hall as a worker of other WMP managers: it takes their jobs, hands them in, and answers with their ends.

The law: a job taken from another manager is a job of the hall as any other, watched by its errand; when its
manager calls it off it ends here too, unless somebody else wants it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from hiringhall.core.errors import Refusal
from hiringhall.core.jobs import CANCELLED, DONE, FAILURE, JobSpec, Terms
from hiringhall.core.peer import Peer
from hiringhall.peers.wmp import JobFailed, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.core.jobs import Job
    from hiringhall.engine.driver import Driver
    from hiringhall.peers.wmp import Job as TakenJob

_CALLED_OFF: Final = b"its manager called it off"
_TOO_SLOW: Final = "its manager does not take the data that comes ahead of the result"
PROGRESS_BYTES: Final = 100
"""What a piece of news costs by itself."""
NEWS_BYTES_MAX: Final = 64 << 20
"""Data that waits to be told to a manager; when more comes after this the job is given up."""


class Errand(Peer):
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
        self._worker = Worker(managers, dict.fromkeys(roles, self._do), slots=slots, name=name)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = asyncio.create_task(self._worker.run())

    def stop_taking(self) -> None:
        """The hall drains: what is under way may be finished."""
        self._worker.stop()

    async def close(self) -> None:
        """Give back what is still under way."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    async def _do(self, taken: TakenJob) -> bytes:
        errand = Errand()
        job = self._hand_in(taken, errand)
        try:
            while (news := await errand.news.get()) is not None:
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

    def _hand_in(self, taken: TakenJob, errand: Errand) -> Job:
        spec = JobSpec(taken.role.encode(errors="surrogateescape"), taken.payload, taken.key, self._terms)
        self._driver.turn()
        try:
            return self._driver.scheduler.submit(spec, errand)
        except Refusal as refusal:
            raise JobFailed(refusal.text, FAILURE) from refusal

    def _call_off(self, job: Job, errand: Errand) -> None:
        self._driver.turn()
        if job.ended:
            return
        if job.watchers == [errand] and not job.terms.detached:
            self._driver.scheduler.cancel(job, _CALLED_OFF)
        else:
            self._driver.scheduler.unwatch(job, errand)
