"""A worker: it bids for jobs of its types, travels to the provider, and performs until it is dismissed.

Invariant: it has at most one next job, and bids only while it has none. Every stage before the performance
has a time limit, so a silent provider cannot block it. When a job is over, nothing of it is remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from hiringhall.dialects.hire.wire import (
    ANNOUNCE,
    AVAIL,
    DISMISS,
    HIRE,
    PERFORM,
    PERFORMING,
    QUIT,
    SKILL_MAX,
    START,
    TIME_US_MAX,
)
from hiringhall.peers.failures import log_failure
from hiringhall.peers.hire.hire_peer import HirePeer, decoded, encoded, log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiringhall.dialects.hire.wire import Line
    from hiringhall.peers.hire.links import Security

_BIDS_MAX: Final = 1_000
"""Remembered bids. A HIRE for an older one is answered with QUIT."""


class Stage(Enum):
    """The stage of a worker's job."""

    HIRED = "hired"
    """It is the next job: the worker still performs another one, or is busy."""
    GOING = "going"
    WAITING = "waiting"
    """The worker has arrived, has sent START, and waits for PERFORM."""
    PERFORMING = "performing"
    DISMISSED = "dismissed"
    QUIT = "quit"
    LOST = "lost"
    """The connection was lost, and the job with it."""


class Job:
    """A job that a worker was hired for."""

    def __init__(self, name: str, kind: str, provider: UUID) -> None:
        self.id = name
        self.type = kind
        self.provider = provider
        self.stage = Stage.HIRED
        self.time_s = 0.0
        """Its duration according to PERFORM; for display and for estimates."""
        self.ends_s = 0.0
        """When that time is over, on the clock of the event loop."""
        self.begun = False
        """The worker has started to perform it."""
        self.called = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.type} {self.stage.value}>"


Perform = Callable[[Job], Awaitable[None]]
"""Runs while a job is performed, and is cancelled at its end. If it returns, the worker stays until it is
dismissed; if it raises, the worker quits."""
Tell = Callable[[Job], None]
"""Is called at every stage of every job. Its exceptions are logged and have no other effect."""


class Worker(HirePeer):
    """Bids for jobs of its types and does them, one now and one next.

        async with Worker("tcp://127.0.0.1:7430", {"bake": 40}, travel_s=lambda kind: 2.5):
            await asyncio.sleep(3600)

    `skills` has its skill in each type; other types are ignored. `travel_s` is the travel time to the provider
    of a type, from where the worker will be when it is free; it is part of every bid, and is waited for before
    START. If it raises, that is logged, and there is no bid. The worker quits if it gets no PERFORM within
    `patience_s` after START. With `overtime_s` it also quits if it is not dismissed that long after PERFORM's
    time is over; None waits forever, as the protocol says. `willing = False` stops the bidding.
    """

    def __init__(
        self,
        address: str,
        skills: Mapping[str, int],
        *,
        travel_s: float | Callable[[str], float] = 0.0,
        perform: Perform | None = None,
        tell: Tell | None = None,
        patience_s: float = 30.0,
        overtime_s: float | None = None,
        uuid: UUID | None = None,
        compact: bool = False,
        security: Security | None = None,
    ) -> None:
        super().__init__(address, uuid, compact=compact, security=security)
        if any(not 0 <= skill <= SKILL_MAX for skill in skills.values()):
            raise ValueError(f"a skill must be a whole number from 0 to {SKILL_MAX}")
        self.skills = dict(skills)
        self.willing = True
        """False: it does not bid, and quits a job that it is hired for by an earlier bid."""
        self.busy_until_s = 0.0
        """On the loop's clock: it does not travel before this (it eats, it sleeps); its bids include it."""
        self.present: Job | None = None
        """The job that it performs."""
        self.next: Job | None = None
        """The job that it is hired for: hired, going, or waiting for PERFORM."""
        self._travel_s = travel_s
        self._handler = perform
        self._tell = tell
        self._patience_s = patience_s
        self._overtime_s = overtime_s
        self._bids: dict[tuple[bytes, bytes], str] = {}
        """The type of each job that it bid for, by provider and job, in the order of the bids."""
        self._free = asyncio.Event()
        """It performs no job."""
        self._free.set()

    def travel_s(self, kind: str) -> float:
        """The travel time to a provider of this type."""
        return self._travel_s(kind) if callable(self._travel_s) else self._travel_s

    def available_s(self, kind: str) -> float:
        """The time until it could start a job of this type: the rest of the present one, and the travel."""
        free_s = self.present.ends_s if self.present is not None else 0.0
        return max(free_s - _now_s(), self.busy_until_s - _now_s(), 0.0) + self.travel_s(kind)

    def quit(self, job: Job | None = None) -> None:
        """Quit a job at any stage; all of them if none is given."""
        for each in (self.next, self.present):
            if each is not None and job in (None, each):
                self.say(QUIT, each.id)
                self._over(each, Stage.QUIT)

    # --- lines of others

    def received(self, line: Line) -> None:
        if line.verb == ANNOUNCE:
            # A job that is announced has no worker: DISMISS was lost, or the provider was restarted.
            self._dismissed(line)
            self._bid(line)
        elif line.verb == HIRE and line.worker == self._speaker:
            self._hired(line)
        elif line.verb == PERFORM:
            job = self.next
            if job is not None and _is(job, line) and job.stage is Stage.WAITING:
                job.time_s = line.time_us / 1_000_000
                job.called.set()
        elif line.verb == DISMISS and line.worker == self._speaker:
            self._dismissed(line)

    def lost(self) -> None:
        self._bids.clear()
        for job in (self.next, self.present):
            if job is not None:
                self._over(job, Stage.LOST)

    def leave(self) -> None:
        self.quit()

    def _dismissed(self, line: Line) -> None:
        for job in (self.next, self.present):
            if job is not None and _is(job, line):
                self._over(job, Stage.DISMISSED)

    def _bid(self, line: Line) -> None:
        kind = decoded(line.type)
        skill = self.skills.get(kind)
        if skill is None or not self.willing or self.next is not None:
            return
        time_s = self.available_s(kind)
        if not time_s * 1_000_000 <= TIME_US_MAX:
            return  # it cannot come, or the time is too long for a bid
        self._bids[line.speaker, line.job] = kind
        if len(self._bids) > _BIDS_MAX:
            del self._bids[next(iter(self._bids))]
        self.say(AVAIL, decoded(line.job), time_s=time_s, skill=skill)

    def _hired(self, line: Line) -> None:
        kind = self._bids.pop((line.speaker, line.job), None)
        if any(job is not None and _is(job, line) for job in (self.next, self.present)):
            return  # a repeated line
        if kind is None or not self.willing or self.next is not None:
            # Two providers have hired it, or it no longer bids: tell them at once.
            self.say(QUIT, decoded(line.job))
            return
        job = Job(decoded(line.job), kind, UUID(bytes=line.speaker))
        self.next = job
        job.task = asyncio.create_task(self._serve(job))
        job.task.add_done_callback(partial(self._served, job))
        self._reached(job, Stage.HIRED)

    # --- a job from HIRE to its end

    async def _serve(self, job: Job) -> None:
        await self._free.wait()
        await asyncio.sleep(self.busy_until_s - _now_s())
        self._reached(job, Stage.GOING)
        await asyncio.sleep(self.travel_s(job.type))
        # Set the stage before START is sent: PERFORM may come at once.
        self._reached(job, Stage.WAITING)
        self.say(START, job.id)
        try:
            async with asyncio.timeout(self._patience_s):
                await job.called.wait()
        except TimeoutError:
            self.quit(job)
            return
        self.next, self.present = None, job
        self._free.clear()
        job.begun = True
        job.ends_s = _now_s() + job.time_s
        self.say(PERFORMING, job.id)
        self._reached(job, Stage.PERFORMING)
        await self._perform(job)

    async def _perform(self, job: Job) -> None:
        limit_s = None if self._overtime_s is None else job.time_s + self._overtime_s
        try:
            async with asyncio.timeout(limit_s):
                if self._handler is not None:
                    await self._handler(job)
                await asyncio.Event().wait()  # until it is dismissed, or quits
        except TimeoutError:
            self.quit(job)

    def _reached(self, job: Job, stage: Stage) -> None:
        job.stage = stage
        if self._tell is not None:
            try:
                self._tell(job)
            except Exception as error:  # noqa: BLE001 (it is logged)
                log_failure(log, f"{job!r}: the tell function", error)

    def _over(self, job: Job, stage: Stage) -> None:
        """Remove every reference to a job that is over."""
        if job is self.next:
            self.next = None
        else:
            self.present = None
            self._free.set()
        if job.task is not None and job.task is not asyncio.current_task():
            job.task.cancel()
        self._reached(job, stage)

    def _served(self, job: Job, task: asyncio.Task[None]) -> None:
        """Quit the job if its handler raised."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("%r: the worker quits", job, exc_info=error)
            self.quit(job)


def _is(job: Job, line: Line) -> bool:
    return encoded(job.id) == line.job and job.provider.bytes == line.speaker


def _now_s() -> float:
    return asyncio.get_running_loop().time()
