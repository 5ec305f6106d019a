"""One run: commands are submitted in a window, and what becomes of each is told in the wanted order.

Invariant: at most `window` jobs are submitted and not written, so that a run of any length takes the same
memory. Each job has a key of the run, so that a submit that is repeated, after a lost connection or by
`--resume`, finds the job that is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.sdk.conversation import Chunked, Logged
from hiringhall.sdk.errors import HallError, HallRefused
from hiringhall.sdk.watching import ALL, Bulk
from hiringhall.shell import journal
from hiringhall.shell.command import ShellCommand, encode
from hiringhall.shell.outputs import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from hiringhall.sdk.connection import Connection
    from hiringhall.sdk.conversation import Ended, JobSpec
    from hiringhall.shell.feeding import Feeder, Planned

PART_JOBS: Final = 500
"""Jobs of one frame."""
CANCELLED: Final = 130
NOT_SUBMITTED: Final = 126
CANCEL_REASON: Final = b"hall run was interrupted"
LOG_LINE: Final = 2
"""Kind of a line of output: the worker tells with one that another attempt begins."""


class Order(NamedTuple):
    """What is the same for all jobs of a run."""

    run: str
    queue: bytes
    terms: dict[str, Any]
    cwd: bytes
    env: dict[str, str]
    window: int
    in_order: bool
    resume: bool
    started_us: int
    """The hall's time when a resumed run began: what had ended before is done, or is tried again."""
    with_times: bool = False
    """When each command started must be known."""


class Job:
    """A job that is under way."""

    __slots__ = (
        "code",
        "complete",
        "job_id",
        "output",
        "planned",
        "revived",
        "seconds",
        "started_s",
        "state",
        "text",
    )

    def __init__(self, planned: Planned, folder: Path, *, complete: bool) -> None:
        self.planned = planned
        self.output = Output(folder, planned.number)
        self.complete = complete
        """All that it writes is heard; if not, its output is read from the hall at its end."""
        self.revived = False
        """It had failed in an earlier run, and was started again."""
        self.job_id = 0
        self.state = ""
        self.code = 0
        self.seconds: float | None = None
        self.started_s: float | None = None
        """In seconds since 1970."""
        self.text = ""
        """Why it failed."""


class _Said(msgspec.Struct):
    """What a result or a failure tells of the command."""

    seconds: float | None = None
    type: str = ""
    text: str = ""


_SAID: Final = msgspec.json.Decoder(_Said)


class Run:
    """Drives the connection. `tell` is called with each job at its end, in order if that is wanted; whoever is
    told calls `written` when the job is done with.
    """

    def __init__(
        self,
        connection: Connection,
        order: Order,
        feeder: Callable[[Callable[[], None]], Feeder],
        tell: Callable[[Job], None],
        folder: Path,
    ) -> None:
        """`feeder`: makes the source of jobs; it is given what it calls to wake the run. `folder`: for long
        output.
        """
        self._connection = connection
        self._order = order
        self._tell = tell
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._bulk = Bulk()
        self._waiter = asyncio.Event()
        self._feeder = feeder(self._wake_from_thread)
        self._terms = msgspec.Raw(msgspec.msgpack.encode(order.terms))
        self._submitted: dict[int, Job] = {}
        """Jobs whose ids are not known yet, by their number."""
        self._live: dict[int, Job] = {}
        """By id, until the end."""
        self._early: dict[int, Job] = {}
        """Ended before their turn, by number."""
        self._under_way = 0
        """Jobs that were taken from the feeder and not written."""
        self._next = 1
        """The number of the job whose turn it is."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self.interrupted = False
        self._waiting_only = True
        """An interrupted run withdraws only what has not begun."""
        self._withdrawn: set[int] = set()
        connection.on_frame[Chunked] = self._chunked
        connection.on_frame[Logged] = self._logged
        connection.on_disconnected.append(self._disconnected)

    @property
    def total(self) -> int | None:
        """How many jobs there are; None: that is not known yet."""
        return self._feeder.total if self._feeder.exhausted else None

    @property
    def under_way(self) -> int:
        return self._under_way

    @property
    def failed(self) -> bool:
        """It ends before its jobs do."""
        return self._failed is not None

    async def drive(self) -> None:
        """Return when every job was written. Raises HallError, BadInput, or what `tell` raises."""
        while True:
            self._waiter.clear()
            self._settle()
            if self.interrupted:
                self._withdraw_known()
            self._fill()
            if self._failed is not None:
                raise self._failed
            if self._feeder.ended and not self._under_way:
                break
            if self._bulk.waiter is None:
                self._bulk.waiter = self._loop.create_future()
                self._bulk.waiter.add_done_callback(lambda _: self._waiter.set())
            if not self._bulk.ended and self._bulk.failed is None:
                await self._waiter.wait()
        if self._feeder.problem is not None:
            raise self._feeder.problem

    def _wake_from_thread(self) -> None:
        # The input may end after the run, which does not wait for it.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._waiter.set)

    # --- submitting

    def _fill(self) -> None:
        """Submit more jobs, if there is room for enough of them to be worth a frame."""
        order = self._order
        room = order.window - self._under_way
        if room <= 0 or (self._under_way and room < min(order.window // 4, PART_JOBS)):
            return
        planned = self._feeder.take(min(room, PART_JOBS))
        if not planned:
            return
        self._under_way += len(planned)
        specs: list[JobSpec] = []
        first = 0
        for one in planned:
            job = Job(one, self._folder, complete=not order.resume)
            if one.problem:
                self._ended_here(job)
                continue
            if not specs:
                first = one.number
            elif one.number != first + len(specs):
                self._submit(specs, first)
                specs, first = [], one.number
            self._submitted[one.number] = job
            specs.append(self._spec(one))
        if specs:
            self._submit(specs, first)
        if room > len(planned):
            # There may be more at once.
            self._waiter.set()

    def _spec(self, planned: Planned) -> JobSpec:
        order = self._order
        tag = os.fsdecode(b" ".join(planned.arguments))
        payload = encode(ShellCommand(planned.command, order.cwd, order.env, tag))
        return (
            order.queue,
            payload,
            self._terms,
            journal.key(order.run, planned.number, planned.command),
            0,
            [],
        )

    def _submit(self, specs: list[JobSpec], first: int) -> None:
        self._connection.submit_bulk(specs, self._bulk, first, level=ALL, again=self._order.resume)

    def _ended_here(self, job: Job) -> None:
        """It is not submitted at all."""
        job.state, job.code, job.text = "failed", NOT_SUBMITTED, job.planned.problem
        self._told_in_turn(job)

    # --- what the hall says

    def _find(self, job_id: int) -> Job | None:
        job = self._live.get(job_id)
        if job is None:
            number = self._bulk.places.get(job_id)
            job = self._submitted.pop(number, None) if number is not None else None
            if job is not None:
                job.job_id = job_id
                self._live[job_id] = job
        return job

    def _chunked(self, chunk: Any) -> None:
        job = self._find(chunk.job_id)
        if job is not None and job.complete:
            job.output.add(chunk.data, warning=chunk.warning)

    def _logged(self, line: Any) -> None:
        """Another attempt begins: what the one before has written is not shown."""
        job = self._find(line.job_id)
        if job is not None:
            job.output.clear()

    def _disconnected(self, _: str) -> None:
        for job in (*self._live.values(), *self._submitted.values()):
            job.complete = False

    def _settle(self) -> None:
        """Take what has ended."""
        ends, self._bulk.ended = self._bulk.ended, []
        for end in ends:
            job = self._find(end.job_id)
            if job is None:
                continue
            del self._live[end.job_id]
            self._bulk.places.pop(end.job_id, None)
            if job.complete:
                self._finish(job, end)
            else:
                self._start(self._complete(job, end))
        if self._bulk.failed is not None:
            self._failed = self._bulk.failed

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
        self._waiter.set()

    async def _complete(self, job: Job, end: Ended) -> None:
        """Read from the hall what was not heard. What an earlier run left unfinished is started again."""
        order = self._order
        again = order.resume and end.state != "done" and not job.revived and not self.interrupted
        if again or order.with_times:
            described = await self._connection.request(wire.JOB, (end.job_id,))
            job.started_s = (described["started_us"] or described["ended_us"]) / 1_000_000
            if again and described["ended_us"] < order.started_us:
                job.revived = True
                await self._revive(job, end)
                return
        job.output.clear()
        position = 0
        while True:
            lines, position = await self._connection.request(wire.OUTPUT, (end.job_id, position))
            for _, kind, data in lines:
                if kind == LOG_LINE:
                    job.output.clear()
                else:
                    job.output.add(data, warning=bool(kind))
            if not lines:
                break
        self._finish(job, end)

    async def _revive(self, job: Job, end: Ended) -> None:
        """Run a job again that had failed or was cancelled in an earlier run."""
        number = job.planned.number
        if end.state == "failed":
            with contextlib.suppress(HallRefused):
                await self._connection.request(wire.RETRY, (end.job_id,))
                self._bulk.places[end.job_id] = number
                self._live[end.job_id] = job
                await self._connection.watch_bulk(end.job_id, self._bulk, ALL)
                return
        # The key of an ended job is free.
        self._submitted[number] = job
        self._connection.submit_bulk([self._spec(job.planned)], self._bulk, number, level=ALL)

    def _finish(self, job: Job, end: Ended) -> None:
        job.job_id, job.state, job.code = end.job_id, end.state, end.code
        try:
            said = _SAID.decode(end.result)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            said = _Said(text=end.result.decode(errors="replace"))
        job.seconds = said.seconds
        if job.started_s is None:
            job.started_s = time.time() - (said.seconds or 0.0)
        if end.state != "done":
            job.code = end.code or 1
            job.text = (
                said.text if said.type.startswith("exit ") or not said.type else f"{said.type}: {said.text}"
            )
        self._told_in_turn(job)

    # --- telling

    def _told_in_turn(self, job: Job) -> None:
        if not self._order.in_order:
            self._tell(job)
            return
        self._early[job.planned.number] = job
        while (job_in_turn := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._tell(job_in_turn)

    def written(self, jobs: list[Job]) -> None:
        """Nothing more is wanted of these jobs."""
        self._under_way -= len(jobs)
        for job in jobs:
            job.output.clear()
        self._waiter.set()

    # --- ending early

    def stop(self) -> None:
        """Submit nothing more, and withdraw what has not begun."""
        self._interrupt(waiting_only=True)

    def cancel(self) -> None:
        """End what runs, too."""
        self._interrupt(waiting_only=False)

    def abort(self, error: Exception) -> None:
        """End the run with this error, unless another one ends it already."""
        if self._failed is None:
            self._failed = error
        self._waiter.set()

    def _interrupt(self, *, waiting_only: bool) -> None:
        self.interrupted = True
        self._waiting_only = waiting_only
        self._withdrawn.clear()
        self._feeder.stop()
        self._withdraw_known()

    def _withdraw_known(self) -> None:
        """Withdraw each job once, as soon as its id is known."""
        for job_id in list(self._bulk.places):
            self._find(job_id)
        ids = [job_id for job_id in self._live if job_id not in self._withdrawn]
        if ids:
            self._withdrawn.update(ids)
            self._start(self._withdraw(ids, waiting_only=self._waiting_only))

    async def _withdraw(self, ids: list[int], *, waiting_only: bool) -> None:
        for start in range(0, len(ids), PART_JOBS):
            part = ids[start : start + PART_JOBS]
            await asyncio.gather(*(self._withdraw_one(job_id, waiting_only=waiting_only) for job_id in part))

    async def _withdraw_one(self, job_id: int, *, waiting_only: bool) -> None:
        # It may have ended meanwhile, or begun.
        with contextlib.suppress(HallRefused):
            if waiting_only:
                described = await self._connection.request(wire.JOB, (job_id,))
                if described["state"] == "leased":
                    return
            await self._connection.request(wire.CANCEL, (job_id, CANCEL_REASON))


async def hall_time_us(connection: Connection) -> int:
    """What the hall's clock says. Raises HallError."""
    counted = await connection.request(wire.METRICS, None)
    at_us = counted["at_us"]
    if not isinstance(at_us, int):
        raise HallError("the hall does not tell its time")
    return at_us
