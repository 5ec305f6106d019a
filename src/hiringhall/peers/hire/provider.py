"""A provider: it announces jobs, chooses among the bids, and has the jobs performed.

Invariant: `employ` returns when a worker has performed the job to its end. A worker that quits, does not
come, is silent or is lost is dismissed, and the job is announced again. When `employ` ends, no worker is
hired any more. It raises Left as soon as the provider has left.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID, uuid4

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
    BadLine,
    Line,
    read_line,
    write_line,
)
from hiringhall.peers.hire.errors import Left
from hiringhall.peers.hire.hire_peer import HirePeer, decoded, encoded
from hiringhall.peers.hire.policies import Ask, Bid, Policy, soonest

if TYPE_CHECKING:
    from hiringhall.peers.hire.links import Security

_LINES_MAX: Final = 10_000
"""Received lines about one job that wait to be handled."""


class Performance(NamedTuple):
    """How a job was performed."""

    job: str
    type: str
    worker: UUID
    skill: int
    announced: int
    """How often it was announced: once if all went well."""
    due_s: float
    begun_s: float
    """When its worker started, on the clock of the event loop."""
    ended_s: float

    @property
    def waited_s(self) -> float:
        """How long the provider waited for its worker."""
        return self.begun_s - self.due_s


class _WorkerGone(Exception):
    """The worker will not do the job, and need not be dismissed."""


class _OpenJob:
    """A job that is being announced or performed."""

    def __init__(self, job: str, kind: str, time_s: float, due_s: float, skill: int) -> None:
        self.id = job
        self.type = kind
        self.time_s = time_s
        self.due_s = due_s
        self.skill = skill
        self.announced = 0
        self.lines: asyncio.Queue[Line | None] = asyncio.Queue(_LINES_MAX)
        """None: the connection was lost, or there is one again, or the provider has left."""
        self.hired: UUID | None = None


class Provider(HirePeer):
    """Has jobs done by workers that bid for them; any number at once.

        async with Provider("tcp://127.0.0.1:7430", policy=best_skill) as bakery:
            loaf = await bakery.employ("bake", time_s=30.0)
            print(loaf.worker, "kept us waiting for", loaf.waited_s)

    Bids are accepted for `window_s`. A worker is expected at the time of its bid plus `travel_s`, and may be
    `buffer_s` late; it has `answer_s` to say PERFORMING. A job is announced `ahead_s` before it is due. A job
    without bids is announced again after `pause_s`, which doubles each time up to `pause_max_s`.
    """

    def __init__(
        self,
        address: str,
        *,
        policy: Policy = soonest,
        window_s: float = 0.1,
        travel_s: float = 0.0,
        buffer_s: float = 5.0,
        answer_s: float = 5.0,
        ahead_s: float = 0.0,
        pause_s: float = 0.25,
        pause_max_s: float = 5.0,
        uuid: UUID | None = None,
        compact: bool = False,
        security: Security | None = None,
    ) -> None:
        super().__init__(address, uuid, compact=compact, security=security)
        self._policy = policy
        self._window_s = window_s
        self._travel_s = travel_s
        self._buffer_s = buffer_s
        self._answer_s = answer_s
        self._ahead_s = ahead_s
        self._pause_s = pause_s
        self._pause_max_s = pause_max_s
        self._open_jobs: dict[bytes, _OpenJob] = {}
        self._left = False

    async def employ(
        self,
        type: str,  # noqa: A002 (the protocol's word)
        time_s: float,
        *,
        due_s: float | None = None,
        skill: int = 0,
        satisfied: asyncio.Event | None = None,
        job: str = "",
    ) -> Performance:
        """Have a job done for `time_s`, or until `satisfied` is set, not before `due_s` on the loop's clock.

        `job` is its id; the default is a new UUID. Cancelling this call cancels the job: its worker is
        dismissed. Raises ValueError before anything is sent if an argument is not valid, and Left.
        """
        self._check_present()
        due_s = _now_s() if due_s is None else due_s
        if not math.isfinite(due_s):
            raise ValueError(f"due_s must be a time on the loop's clock, not {due_s}")
        if skill > SKILL_MAX:
            raise ValueError(f"skill must be at most {SKILL_MAX}, not {skill}")
        line = self._announcement(job or str(uuid4()), type, time_s)
        if line.job in self._open_jobs:
            raise ValueError(f"job {job} is already open")
        open_job = _OpenJob(decoded(line.job), type, time_s, due_s, skill)
        self._open_jobs[line.job] = open_job
        pause_s = self._pause_s
        try:
            while _now_s() < open_job.due_s - self._ahead_s:
                await self._pause(open_job, open_job.due_s - self._ahead_s)
            while True:
                chosen = await self._choose(open_job)
                if chosen is None:
                    await self._pause(open_job, _now_s() + pause_s)
                    pause_s = min(2 * pause_s, self._pause_max_s)
                    continue
                pause_s = self._pause_s
                with suppress(_WorkerGone, TimeoutError):
                    return await self._engage(open_job, chosen, satisfied)
        finally:
            del self._open_jobs[line.job]

    def _announcement(self, job: str, kind: str, time_s: float) -> Line:
        """The line as others will parse it: invalid values are refused, and a UUID becomes lower case."""
        if not 0 <= time_s * 1_000_000 <= TIME_US_MAX:
            raise ValueError(f"time_s must be from 0 to {TIME_US_MAX // 1_000_000} (a year), not {time_s}")
        try:
            line = Line(self._speaker, ANNOUNCE, encoded(job), type=encoded(kind))
            return read_line(write_line(line, compact=self._compact))
        except BadLine as reason:
            raise ValueError(str(reason)) from reason

    # --- lines of others

    def received(self, line: Line) -> None:
        open_job = self._open_jobs.get(line.job)
        if open_job is not None and line.verb in (AVAIL, START, PERFORMING, QUIT) and not open_job.lines.full():
            open_job.lines.put_nowait(line)

    def found(self) -> None:
        self._wake()

    def lost(self) -> None:
        self._wake()

    def leave(self) -> None:
        self._left = True
        for open_job in self._open_jobs.values():
            self._dismiss(open_job)
        self._wake()

    def _wake(self) -> None:
        for open_job in self._open_jobs.values():
            if open_job.lines.full():
                open_job.lines.get_nowait()  # no line is as important as the wake-up
            open_job.lines.put_nowait(None)

    # --- a job from ANNOUNCE to its end

    async def _pause(self, open_job: _OpenJob, until_s: float) -> None:
        """Pause while no worker is hired. It ends early if the connection is lost or opened."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                while await self._next_line(open_job) is not None:
                    pass

    async def _choose(self, open_job: _OpenJob) -> Bid | None:
        """Announce the job, and accept bids during the window. None: no bid, or the connection was lost."""
        bids: dict[bytes, Bid] = {}
        while self._link is None:
            await self._next_line(open_job)
        _drop_lines(open_job)
        open_job.announced += 1
        self.say(ANNOUNCE, open_job.id, type=open_job.type)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._window_s):
                while True:
                    line = await self._next_line(open_job)
                    if line is None:
                        return None
                    if line.verb == AVAIL and line.skill >= open_job.skill:
                        arrives_s = _now_s() + line.time_us / 1_000_000 + self._travel_s
                        bids[line.speaker] = Bid(UUID(bytes=line.speaker), line.skill, arrives_s)
                    elif line.verb == QUIT:
                        bids.pop(line.speaker, None)
        return (
            self._policy(list(bids.values()), Ask(open_job.skill, open_job.due_s, _now_s())) if bids else None
        )

    async def _engage(self, open_job: _OpenJob, bid: Bid, satisfied: asyncio.Event | None) -> Performance:
        """Have the job done by this worker. Raises _WorkerGone or TimeoutError if it does not do it."""
        open_job.hired = bid.worker
        self.say(HIRE, open_job.id, worker=bid.worker)
        try:
            await self._expect(open_job, START, max(bid.arrives_s, open_job.due_s, _now_s()) + self._buffer_s)
            await self._wait(open_job, open_job.due_s)
            self.say(PERFORM, open_job.id, type=open_job.type, time_s=open_job.time_s)
            await self._expect(open_job, PERFORMING, _now_s() + self._answer_s)
            begun_s = _now_s()
            await self._wait(open_job, begun_s + open_job.time_s, satisfied)
        finally:
            self._dismiss(open_job)
        return Performance(
            open_job.id,
            open_job.type,
            bid.worker,
            bid.skill,
            open_job.announced,
            open_job.due_s,
            begun_s,
            _now_s(),
        )

    def _dismiss(self, open_job: _OpenJob) -> None:
        if open_job.hired is not None:
            self.say(DISMISS, open_job.id, worker=open_job.hired)
            open_job.hired = None

    async def _expect(self, open_job: _OpenJob, verb: bytes, until_s: float) -> None:
        """Wait for this verb from the hired worker."""
        async with asyncio.timeout_at(until_s):
            while (await self._next_verb(open_job)) != verb:
                pass

    async def _wait(self, open_job: _OpenJob, until_s: float, satisfied: asyncio.Event | None = None) -> None:
        """Wait, unless the worker quits meanwhile."""
        listening = asyncio.create_task(self._expect(open_job, b"", until_s))
        tasks: list[asyncio.Task[object]] = [listening]
        if satisfied is not None:
            tasks.append(asyncio.create_task(satisfied.wait()))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                with suppress(TimeoutError):
                    listening.result()
        finally:
            for task in tasks:
                task.cancel()

    async def _next_verb(self, open_job: _OpenJob) -> bytes:
        """The next verb of the hired worker. Raises _WorkerGone if it quits, or if the connection is lost."""
        while True:
            line = await self._next_line(open_job)
            if line is None:
                raise _WorkerGone
            if open_job.hired is None or line.speaker != open_job.hired.bytes:
                if line.verb == START:
                    # It was dismissed, but has not received that.
                    self.say(DISMISS, open_job.id, worker=UUID(bytes=line.speaker))
                continue
            if line.verb == QUIT:
                open_job.hired = None
                raise _WorkerGone
            return line.verb

    async def _next_line(self, open_job: _OpenJob) -> Line | None:
        """The next line about the job. Raises Left."""
        self._check_present()
        line = await open_job.lines.get()
        self._check_present()
        return line

    def _check_present(self) -> None:
        if self._left:
            raise Left("the provider has left")


def _drop_lines(open_job: _OpenJob) -> None:
    """Drop lines from before an announcement: they do not answer it."""
    while not open_job.lines.empty():
        open_job.lines.get_nowait()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
