"""Callers of the asyncio face that wait for jobs in a stage: while they wait, jobs run on their event loop.

Invariant: nobody waits for ever. If no job can run and nothing will be due, those who wait get StageStuck.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from hiringhall.sdk.addresses import Address
from hiringhall.sdk.connection import Connection
from hiringhall.sdk.context import find_current_job
from hiringhall.testing.linking import connect
from hiringhall.testing.loops import StageLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from hiringhall.sdk.link import Link
    from hiringhall.testing.stage import Stage
    from hiringhall.testing.worker import Taken

PASSES: Final = 100
"""An event loop that is not ours counts as idle after so many passes in which nothing happened in the stage."""
LOOK_S: Final = 0.001
"""How often an event loop looks at jobs that run in other threads."""
MOVES_MAX: Final = 10_000
"""How often the clock may be moved while somebody waits: a schedule would go on for ever."""
ADDRESS: Final = Address("hall://stage", "stage")


class StageConnection(Connection):
    """The connection of one event loop to the hall of the stage."""

    def __init__(self, stage: Stage, pump: Pump | None) -> None:
        async def dial(_: Address, link: Link, /) -> None:
            connect(stage.memory, link)

        super().__init__([ADDRESS], name="test", dialled=dial)
        self._pump = pump
        """None: a blocking caller waits, and finds jobs by itself."""

    async def wait(self, waiter: asyncio.Future[None]) -> None:
        if self._pump is not None:
            self._pump.add(waiter)
        await waiter

    def limit(self, limit_s: float) -> AbstractAsyncContextManager[object]:
        if self._pump is None or isinstance(self._pump.loop, StageLoop):
            return asyncio.timeout(limit_s)
        return self._pump.limit(limit_s)


class Pump:
    """Runs jobs on one event loop while somebody waits there."""

    def __init__(self, stage: Stage, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._stage = stage
        self._waiters: list[tuple[asyncio.Future[None], int]] = []
        """Who waits, and the job in which; 0: in none."""
        self._jobs: dict[asyncio.Task[None], Taken] = {}
        """Coroutine functions that run here."""
        self._scheduled = False
        self._idle_passes = 0
        self._moves = 0
        """Since somebody began to wait."""

    def add(self, waiter: asyncio.Future[None]) -> None:
        """Somebody waits."""
        self._waiters.append((waiter, _current_id()))
        self._moves = 0
        self._idle_passes = 0
        self._schedule()

    @contextlib.asynccontextmanager
    async def limit(self, limit_s: float) -> AsyncIterator[None]:
        """A timeout by the clock of the stage."""
        async with asyncio.timeout(None) as limit:

            def end() -> None:
                self.loop.call_soon_threadsafe(_expire, limit)

            with self._stage.timer(limit_s, end):
                yield

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._pass)

    def _pass(self) -> None:
        """One pass of the event loop: run a job, let time pass, or see that nothing will happen."""
        self._scheduled = False
        if not self._waited_for():
            return
        if self.run_one():
            self._idle_passes = 0
        elif isinstance(self.loop, StageLoop):
            return  # it calls `idle`
        elif self._idle_passes < PASSES:
            self._idle_passes += 1
        elif self._some_job_is_busy():
            return  # the end of a job schedules the next pass
        elif self._stage.others_run(loop_goes_on=True):
            self._scheduled = True
            self.loop.call_later(LOOK_S, self._pass)
            return
        elif self._moves < MOVES_MAX and self._stage.pass_time():
            self._moves += 1
            self._idle_passes = 0
        else:
            self._give_up()
            return
        self._schedule()

    def idle(self, due_s: float | None) -> bool:
        """A loop of the stage is idle. True: there is something to do again."""
        if self._waited_for() and self.run_one():
            return True
        self._moves += bool(self._waiters)
        if self._moves < MOVES_MAX and self._stage.pass_time(due_s, hall=bool(self._waiters)):
            return True
        return self._give_up()

    def run_one(self) -> bool:
        """Begin the next job, if there is one and the stage allows it."""
        taken = self._stage.take_for_waiter()
        if taken is not None:
            self.begin(taken)
        return taken is not None

    def begin(self, taken: Taken) -> asyncio.Task[None] | None:
        """Run a plain job here and now; a coroutine function as a task."""
        worker = self._stage.worker
        if not taken.function.is_async:
            worker.perform(taken)
            return None
        task = self.loop.create_task(worker.perform_async(taken))
        self._jobs[task] = taken
        task.add_done_callback(self._job_ended)
        return task

    def _job_ended(self, task: asyncio.Task[None]) -> None:
        self._stage.worker.give_back(self._jobs.pop(task))
        self._idle_passes = 0
        self._schedule()

    def _waited_for(self) -> bool:
        self._waiters = [entry for entry in self._waiters if not entry[0].done()]
        return bool(self._waiters)

    def _some_job_is_busy(self) -> bool:
        """A job runs here, and does not itself wait for a job."""
        return not self.waiting_jobs().issuperset(taken.assigned.job_id for taken in self._jobs.values())

    def waiting_jobs(self) -> set[int]:
        """The ids of the jobs in which somebody waits here."""
        return {job_id for waiter, job_id in list(self._waiters) if not waiter.done()}

    def _give_up(self) -> bool:
        """Nothing will happen. True: somebody was told."""
        waiters, self._waiters = self._waiters, []
        for waiter, _ in waiters:
            if not waiter.done():
                waiter.set_exception(self._stage.stuck())
        return bool(waiters)


def _current_id() -> int:
    job = find_current_job()
    return job.id if job is not None else 0


def _expire(limit: asyncio.Timeout) -> None:
    if not limit.expired():
        with contextlib.suppress(RuntimeError):  # the block has ended
            limit.reschedule(asyncio.get_running_loop().time())
