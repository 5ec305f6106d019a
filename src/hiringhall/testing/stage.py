"""A stage: a hall in memory in the place of the real one, and a worker that runs jobs when they are needed.

Invariant: no real time passes and no socket is opened. Functions run in the thread, or on the event loop, of
the test that waits for them or tells them to run.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import heapq
import itertools
import math
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from hiringhall.dialects.native import wire
from hiringhall.sdk.functions import JobFunction
from hiringhall.sdk.hall import Hall, all_halls
from hiringhall.sdk.information import State, read_info
from hiringhall.sdk.loop_thread import LoopThread
from hiringhall.sdk.options import Options, Seconds, microseconds
from hiringhall.sdk.signatures import Signature
from hiringhall.testing.loops import StageLoop
from hiringhall.testing.memory_hall import MemoryHall
from hiringhall.testing.records import StagedJob, staged
from hiringhall.testing.waiting import MOVES_MAX, Pump, StageConnection
from hiringhall.testing.worker import StageWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from hiringhall.sdk.substitute import Substitute
    from hiringhall.testing.worker import Functions, Taken

T = TypeVar("T")
RUNS_MAX: Final = 10_000
"""Jobs of one `run_all`, unless set: jobs that submit jobs for ever must not hang a test."""

_CLOSING: Final[set[asyncio.Future[None]]] = set()
"""Connections of event loops that run on: asyncio keeps no reference to its tasks."""


class StageStuck(RuntimeError):
    """Somebody waits for a job of the stage, and nothing will happen that could end it."""


class Stage:
    """Made by `use`. Without `halls`, it takes the place of the hall for every `Hall` of the program."""

    def __init__(self, halls: tuple[Hall, ...] = (), *, immediate: bool, start: dt.datetime | None) -> None:
        self._halls = halls
        self.immediate = immediate
        """Jobs run when somebody waits for a result."""
        start_s = time.time() if start is None else start.timestamp()
        self._start_us = round(start_s * 1e6)
        self.memory = MemoryHall(self._start_us)
        self._provided: Functions = {}
        self.worker = StageWorker(self.memory, self._functions, self._clock)
        self._loop = StageLoop(self._clock)
        """Of the blocking face."""
        self._thread: LoopThread | None = None
        self._runner: asyncio.Runner | None = None
        """Runs coroutine functions for blocking callers, in their thread."""
        self._runner_busy = threading.Lock()
        self._ends: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[StageConnection, Pump]] = (
            weakref.WeakKeyDictionary()
        )
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._none_ready = -1
        """No job was ready when so much had happened: see `MemoryHall.happened`."""
        self._before: list[tuple[Hall | type[Hall], Substitute | None]] = []

    # --- running jobs

    def run_next(self) -> StagedJob | None:
        """Run the job that a free worker would get now. None: no job is ready."""
        taken = self.worker.take()
        if taken is None:
            return None
        self._perform(taken)
        return self._staged(taken.assigned.job_id)

    def run_all(self, most: int = RUNS_MAX) -> int:
        """Run jobs until none is ready, those that jobs submit included. How many attempts were made."""
        for count in range(most):
            taken = self.worker.take()
            if taken is None:
                return count
            self._perform(taken)
        raise StageStuck(f"after {most} jobs there are still more: do they submit each other for ever?")

    async def arun_next(self) -> StagedJob | None:
        """As `run_next`; a coroutine function runs on this event loop."""
        taken = self.worker.take()
        if taken is None:
            return None
        await self._aperform(taken)
        return self._staged(taken.assigned.job_id)

    async def arun_all(self, most: int = RUNS_MAX) -> int:
        """As `run_all`; coroutine functions run on this event loop."""
        for count in range(most):
            taken = self.worker.take()
            if taken is None:
                return count
            await self._aperform(taken)
        raise StageStuck(f"after {most} jobs there are still more: do they submit each other for ever?")

    # --- time

    @property
    def now(self) -> dt.datetime:
        """The time in the stage, in UTC."""
        return dt.datetime.fromtimestamp(self.memory.now_us / 1e6, dt.UTC)

    def advance(self, seconds: Seconds) -> None:
        """Let time pass: delays, backoffs, timeouts, expiry and schedules become due. No job is run."""
        until_us = self.memory.now_us + microseconds("seconds", seconds)
        while self._move_to_next(until_us):
            pass
        self._move(until_us)

    # --- what happened

    def jobs(
        self, function: JobFunction[..., Any] | str | None = None, *, state: State | None = None
    ) -> list[StagedJob]:
        """The jobs of a function or queue, or all, in the order of their submits, also ended ones."""
        queue = function.queue if isinstance(function, JobFunction) else function
        found = [self._staged(job_id) for job_id in self.memory.job_ids()]
        return [job for job in found if queue in (None, job.queue) and (state is None or job.state == state)]

    def provide(self, name: str, function: Callable[..., Any], *, raw: bool = False) -> None:
        """Have the stage's worker serve a queue whose real workers are elsewhere: see `hall.function`."""
        self._provided[name] = JobFunction(
            self._halls[0] if self._halls else Hall("hall://stage"),
            name,
            Signature(name, function),
            function,
            settings=Options(),
            codec="raw" if raw else "json",
        )

    # --- in the place of the hall: see `Substitute`

    def connection(self) -> StageConnection:
        """The connection of the event loop that runs here."""
        return self._end()[0]

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the SDK for a blocking caller. While it waits for a job, jobs run here."""
        with self.memory.changed:
            if self._thread is None:
                self._thread = LoopThread("stage", self._loop)
        if threading.current_thread() is self._thread.thread:
            call.close()
            raise RuntimeError("a blocking call on the SDK's own event loop would wait for itself")
        answer = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            moves = 0
            while moves < MOVES_MAX:
                seen = self.memory.happened
                self._loop.wait_until_idle(answer)
                if answer.done():
                    return answer.result()
                moves += self._step(seen)
            raise self.stuck()
        finally:
            answer.cancel()

    def start(self, call: Coroutine[Any, Any, object]) -> None:
        """For `hall.executor()`: its jobs run at once."""
        self.run(call)

    def time(self) -> float:
        return self.memory.now_us / 1e6

    # --- for those who wait

    def take_for_waiter(self) -> Taken | None:
        """The next job, if jobs may run because somebody waits. A job that waits for another always may."""
        if not self._helps_waiters() or self._none_ready == self.memory.happened:
            return None
        happened = self.memory.happened
        taken = self.worker.take()
        if taken is None:
            self._none_ready = happened
        return taken

    def _helps_waiters(self) -> bool:
        return self.immediate or bool(self.worker.taken)

    def pass_time(self, due_s: float | None = None, *, hall: bool = True) -> bool:
        """Let time pass until something is due: in the hall, or a timer. False: nothing will be."""
        until_us = 0 if due_s is None else self._start_us + math.ceil(due_s * 1e6) + 1
        if hall and self._helps_waiters():
            return self._move_to_next(until_us or None) or self._move(until_us)
        if until_us:
            while self._move_to_next(until_us):
                pass
        return self._move(until_us)

    @contextlib.contextmanager
    def timer(self, seconds: float, action: Callable[[], None]) -> Iterator[None]:
        """Call an action when so much time has passed within the block."""
        entry = (self.memory.now_us + round(seconds * 1e6), next(self._numbers), action)
        with self.memory.changed:
            heapq.heappush(self._timers, entry)
        try:
            yield
        finally:
            with self.memory.changed:
                if entry in self._timers:
                    self._timers.remove(entry)
                    heapq.heapify(self._timers)

    def stuck(self) -> StageStuck:
        """Why nothing will happen."""
        live = [job for job in self.jobs() if job.state in {"held", "delayed", "queued", "leased"}]
        told = "; ".join(f"job {job.id} of {job.queue} is {job.state}{_why(job)}" for job in live[:5])
        more = f" and {len(live) - 5} more" if len(live) > 5 else ""
        advice = "" if self.immediate else ": call run_all() first, or use(..., immediate=True)"
        return StageStuck(
            f"nothing in the stage can end what is waited for ({told or 'no job is left'}{more}){advice}"
        )

    # --- parts

    def _functions(self) -> Functions:
        halls = self._halls or all_halls()
        known = {queue: function for hall in halls for queue, function in list(hall.functions.items())}
        return {**known, **self._provided}

    def _clock(self) -> float:
        return (self.memory.now_us - self._start_us) / 1e6

    def _staged(self, job_id: int) -> StagedJob:
        info = read_info(self.worker.ask(wire.JOB, (job_id,)))
        function = self._functions().get(info.queue)
        live = self.memory.scheduler.jobs.get(job_id)
        payload = self.worker.payloads.get(job_id)
        if payload is None and live is not None:
            payload = live.payload
        return staged(info, payload, function.codec if function is not None else "json")

    def _end(self) -> tuple[StageConnection, Pump]:
        loop = asyncio.get_running_loop()
        end = self._ends.get(loop)
        if end is None:
            pump = Pump(self, loop)
            end = self._ends[loop] = StageConnection(self, None if loop is self._loop else pump), pump
        return end

    def _step(self, seen: int) -> bool:
        """A blocking caller waits, its event loop is idle, and it has seen what happened so far. True: the
        clock was moved. Raises StageStuck.
        """
        taken = self.take_for_waiter()
        if taken is not None:
            self._perform(taken)
            return False
        with self.memory.changed:
            if self.memory.happened != seen:
                return False  # another thread did something: look again
            if self.others_run():
                self.memory.park()
                return False
        if self.pass_time(self._loop.due_s):
            return True
        with self.memory.changed:
            self.memory.happened += 1
            self.memory.wake()  # who waits for a job of this thread is told, too
        raise self.stuck()

    def others_run(self, *, loop_goes_on: bool = False) -> bool:
        """Something happens in another thread: a job runs that does not itself wait in the stage, or an event
        loop is about to read what the hall said. `loop_goes_on`: the caller returns to its event loop.
        """
        seen = self.memory.happened
        here = threading.get_ident()
        with self.memory.changed:
            links, running = list(self.memory.links), list(self.worker.taken.values())
            quiet = {here, *self.memory.parked}
        deaf = quiet - {here} if loop_goes_on else quiet
        if any(link.under_way and link.thread not in deaf for link in links):
            return True
        # After the links: what was read from them may have ended a wait.
        waiting = {job_id for _, pump in list(self._ends.values()) for job_id in pump.waiting_jobs()}
        busy = any(job.thread not in quiet and job.assigned.job_id not in waiting for job in running)
        return busy or self.memory.happened != seen

    def _perform(self, taken: Taken) -> None:
        """Run a job here."""
        if not taken.function.is_async:
            self.worker.perform(taken)
        elif not _loop_runs_here() and self._runner_busy.acquire(blocking=False):
            try:
                if self._runner is None:
                    self._runner = asyncio.Runner(loop_factory=self._new_loop)
                self._runner.run(self.worker.perform_async(taken))
            finally:
                self._runner_busy.release()
        else:
            _run_in_thread(self._new_loop, self.worker.perform_async(taken))

    async def _aperform(self, taken: Taken) -> None:
        task = self._end()[1].begin(taken)
        if task is not None:
            await task

    def _new_loop(self) -> StageLoop:
        """For coroutine functions: their sleeps let the time of the stage pass."""
        return StageLoop(self._clock, self._idle)

    def _idle(self, loop: StageLoop) -> bool:
        end = self._ends.get(loop)
        return self.pass_time(loop.due_s, hall=False) if end is None else end[1].idle(loop.due_s)

    def _move_to_next(self, until_us: int | None) -> bool:
        """Go on to the next time that is due in the hall, or of a timer, if it is not after `until_us`."""
        due = [self.memory.next_us(), self._timers[0][0] if self._timers else 0]
        next_us = min((time_us for time_us in due if time_us), default=0)
        if not next_us or (until_us is not None and next_us > until_us):
            return False
        if self.worker.taken:
            self._move(next_us - 1)
            self.worker.beat()
        return self._move(next_us)

    def _move(self, time_us: int) -> bool:
        if not time_us:
            return False
        self.memory.move_to(time_us)
        with self.memory.changed:
            while self._timers and self._timers[0][0] <= self.memory.now_us:
                heapq.heappop(self._timers)[2]()
        if self._thread is not None:
            self._loop.wake()
        return True

    # --- the stage itself

    def __enter__(self) -> Self:
        places: tuple[Hall | type[Hall], ...] = self._halls or (Hall,)
        self._before = [(place, place.substitute) for place in places]
        for place in places:
            place.substitute = self
        return self

    def __exit__(self, *_: object) -> None:
        for place, before in self._before:
            place.substitute = before
        for loop, end in list(self._ends.items()):
            if not isinstance(loop, StageLoop) and loop.is_running():
                loop.call_soon_threadsafe(_close_soon, end[0])
        if self._runner is not None:
            self._runner.close()
        if self._thread is not None:
            self._thread.stop()
        else:
            self._loop.close()


def use(*halls: Hall, immediate: bool = True, start: dt.datetime | None = None) -> Stage:
    """In a `with` block: a hall in memory in the place of the real one, for these `Hall` objects or for all.

    `immediate`: jobs run when somebody waits for a result, and waiting costs no time; otherwise they run when
    `run_next` or `run_all` is called. `start` is the time at which the stage begins; now, unless given.
    """
    return Stage(halls, immediate=immediate, start=start)


def _close_soon(connection: StageConnection) -> None:
    closing = asyncio.ensure_future(connection.close())
    _CLOSING.add(closing)
    closing.add_done_callback(_CLOSING.discard)


def _why(job: StagedJob) -> str:
    return f" ({job.why})" if job.why else ""


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_thread(new_loop: Callable[[], StageLoop], call: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end while an event loop runs in this thread."""

    def run() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(call)

    thread = threading.Thread(target=run, name="stage job")
    thread.start()
    thread.join()
