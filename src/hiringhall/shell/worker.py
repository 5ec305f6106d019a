"""The shell worker: takes jobs from the hall, runs their commands, and reports output and exit codes.

Invariant: every lease that the hall has given is in `_tasks` until its end was reported or the hall has taken
it back. At most `slots` commands run at a time; a job that has to wait for one that is being ended waits here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hiringhall.dialects.native import wire
from hiringhall.sdk.addresses import read_addresses, read_token
from hiringhall.sdk.failures import Failure
from hiringhall.sdk.resources import environment_of
from hiringhall.shell.allowing import NOT_ALLOWED, Allowance, NotAllowed
from hiringhall.shell.command import BAD_COMMAND, QUEUE, BadCommand, decode
from hiringhall.shell.processes import Processes
from hiringhall.worker.board import Board, counted
from hiringhall.worker.link import Link, LinkLost, Refused
from hiringhall.worker.messages import ASSIGN_FRAME, RESOURCED_FRAME
from hiringhall.worker.prefetch import TICK_US, Prefetch
from hiringhall.worker.stating import Stated

if TYPE_CHECKING:
    from hiringhall.shell.guard import Guard
    from hiringhall.shell.processes import Process
    from hiringhall.worker.board import Told
    from hiringhall.worker.tasks import Counts

TAIL_BYTES: Final = 2048
"""Of the end of standard error, which becomes the text of a failure."""
TICK_S: Final = TICK_US / 1e6
WAIT_S_MAX: Final = 0.2
"""A job that has waited longer here is given back, since it could run elsewhere."""
AHEAD: Final = 4
"""A command is short, and jobs are taken ahead of it, if this many would fit into what is short for a function:
starting a process takes a millisecond or more.
"""
VOID_S: Final = 5.0
"""How long commands go on after the connection was lost, if the hall does not come back sooner."""
LAST_WORDS_S: Final = 2.0
RENEW_S: Final = 0.005
"""A job with a time limit that waited longer than this before it began gets its whole time again."""
NOT_STARTED: Final = 126
"""Code of a job whose shell could not be started."""

DONE: Final = 0
INTERRUPTED: Final = 130


@dataclass
class Settings:
    """What `hall work --shell` was told."""

    queue: bytes = QUEUE
    slots: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    env: tuple[str, ...] = ()
    cwd_below: str | None = None
    grace_s: float = 30.0
    """After the first signal: how long running commands may take to finish."""
    kill_s: float = 5.0
    """Between SIGTERM and SIGKILL for a command."""
    skill: int = 0
    stays_s: float | None = None
    resources: str = ""
    """What it has, for jobs that need some of it."""
    url: str | None = None
    token: str | None = None
    name: str = field(default_factory=lambda: f"{socket.gethostname()} {os.getpid()}")


class Result(msgspec.Struct, frozen=True):
    """The result of a command that succeeded."""

    exit: int
    seconds: float


class Failed(Failure, frozen=True):
    """The result of a command that failed."""

    exit: int = 0
    seconds: float = 0.0


class Task:
    """One lease."""

    __slots__ = (
        "attempt",
        "counts",
        "given",
        "job",
        "lease",
        "payload",
        "process",
        "run_us",
        "slot",
        "started_s",
        "tail",
        "taken_s",
    )

    def __init__(
        self, lease: int, job: int, payload: bytes, attempt: int, run_us: int, counts: Counts, now: float
    ) -> None:
        self.lease = lease
        self.job = job
        self.payload = payload
        self.attempt = attempt
        self.run_us = run_us
        """The limit of its run time; 0: none."""
        self.counts = counts
        self.taken_s = now
        self.started_s = 0.0
        self.given = b""
        """What it may use of the resources of the worker; empty: it needs none."""
        self.slot = 0
        """From 1 on, while it runs."""
        self.tail = b""
        """The end of what it wrote to standard error."""
        self.process: Process | None = None


class ShellWorker:
    """Owner of the connection and of the processes."""

    def __init__(self, settings: Settings, told: Told, guard: Guard) -> None:
        self.settings = settings
        self._guard = guard
        self.board = Board(told, settings.grace_s)
        self.draining = False
        self._allowance = Allowance(settings.env, settings.cwd_below)
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._stated = Stated(settings.skill, None, settings.stays_s, settings.resources)
        self._processes = Processes(self, settings.kill_s)
        self._tasks: dict[int, Task] = {}
        self._waiting: deque[Task] = deque()
        """Those of them that have not begun."""
        self._running: dict[Process, Task] = {}
        """Also those that are being ended and that nobody wants any more."""
        self._free = list(range(1, settings.slots + 1))
        """Numbers of slots, a heap: the lowest is used first."""
        self._prefetch = Prefetch()
        self._told_slots = -1
        self._ticking = False
        self._ticked_s = 0.0
        self._finished = 0
        self._leaving: asyncio.Task[None] | None = None
        self._aborting = False
        # Relative names of files mean something else once a command has run in another folder.
        addresses = [
            address._replace(ca=str(Path(address.ca).absolute())) if address.ca else address
            for address in read_addresses(settings.url)
        ]
        self._link = Link(addresses, self, settings.name, read_token(settings.token))

    async def run(self) -> int:
        """Work until it is told to end; the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self.stop)
        queue = self.settings.queue.decode("utf-8", "backslashreplace")
        self.board.counts_of(self.settings.queue)
        self.board.tell(
            "serving",
            f"serving {queue} ({counted(self.settings.slots, 'shell command')} at a time)",
            functions=[queue],
            worker=self.settings.name,
            pid=os.getpid(),
        )
        self._loop.set_exception_handler(self._fault)
        linking = self._loop.create_task(self._link.run())
        linking.add_done_callback(self._unlinked)
        try:
            return await self._over
        finally:
            linking.cancel()
            self._link.close()
            self._processes.close()

    def _fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error of the worker itself ends it: half a worker would be worse than none."""
        loop.default_exception_handler(context)
        error = context.get("exception")
        if isinstance(error, BaseException) and not self._over.done():
            self._over.set_exception(error)

    def _unlinked(self, linking: asyncio.Task[None]) -> None:
        if not linking.cancelled() and (error := linking.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    # --- the hall speaks

    def connected(self, welcome: dict[str, Any]) -> None:
        self.board.connected("shell", str(self._link.address), str(welcome.get("hall", "")))
        self._stop_void()
        self._introduce()

    def _introduce(self) -> None:
        self._told_slots = self._slots()
        queue = (self.settings.queue, 0, self._stated.skill(self.settings.queue))
        name = self.settings.name.encode(errors="surrogateescape")
        body = self._stated.work_body(name, self._told_slots, [queue])
        self._link.ask(wire.WORK, body).add_done_callback(self._introduced)

    def _introduced(self, answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled() and (error := answer.exception()) is not None and self._link.up:
            self.board.refused(str(error))

    def disconnected(self, reason: str) -> None:
        self.board.disconnected("shell", reason)
        self._void()
        self._loop.call_later(VOID_S, self._stop_void)

    def lost(self) -> None:
        """The hall has heard nothing for too long and has given the jobs to others."""
        self.board.disconnected("shell", "the hall has taken this worker for lost")
        self._void()
        self._stop_void()
        self._introduce()

    def drained(self, draining: bool) -> None:
        self.board.hall_drains("shell", draining)

    def refused(self, code: str, text: str) -> None:
        if code != "stale_lease":
            self.board.refused(f"{text} ({code})")

    def flow(self, flowing: bool) -> None:
        self._processes.flow(flowing)

    def busy(self) -> bool:
        return bool(self._tasks)

    def assigned(self, frame: bytes) -> None:
        given = b""
        try:
            lease, job, queue, payload, _, attempt, run_us = ASSIGN_FRAME.decode(frame)[2]
        except msgspec.ValidationError:
            lease, job, queue, payload, _, attempt, run_us, given = RESOURCED_FRAME.decode(frame)[2]
        counts = self.board.counts_of(queue)
        counts.running += 1
        task = self._tasks[lease] = Task(lease, job, payload, attempt, run_us, counts, self._loop.time())
        task.given = given
        if self.draining:
            self._release(task)
            return
        self._waiting.append(task)
        if self._free:
            self._fill()
        if not self._ticking:
            self._begin_ticking()

    def revoked(self, lease: int) -> None:
        task = self._tasks.pop(lease, None)
        if task is None:
            return
        task.counts.running -= 1
        task.counts.stopped += 1
        self.board.stopped(task)
        if task.process is not None:
            self._processes.stop(task.process)
        else:
            self._waiting.remove(task)
        self._check_drained()

    # --- commands

    def _fill(self) -> None:
        """Start waiting jobs in free slots."""
        while self._free and self._waiting:
            self._start(self._waiting.popleft())

    def _start(self, task: Task) -> None:
        task.started_s = now = self._loop.time()
        if task.run_us and now - task.taken_s > RENEW_S:
            self._link.tell(wire.RENEW, (task.lease,))
        try:
            command = decode(task.payload)
            folder = self._allowance.folder_of(command)
            environment = self._allowance.environment_of(command)
        except BadCommand as error:
            self._fail(task, BAD_COMMAND, "BadCommand", str(error), retry=False)
            return
        except NotAllowed as error:
            self._fail(task, NOT_ALLOWED, "NotAllowed", str(error), retry=False)
            return
        task.payload = b""
        slot = self._free[0]
        environment[b"HALL_JOB"] = b"%d" % task.job
        environment[b"HALL_ATTEMPT"] = b"%d" % task.attempt
        environment[b"HALL_SLOT"] = b"%d" % slot
        if task.given:
            environment.update(environment_of(task.given))
        starting = partial(self._guard.starts, slot)
        try:
            process = self._processes.start(task.lease, command.command, folder, environment, starting)
        except OSError as error:
            self._guard.ends(slot)
            where = f": {os.fsdecode(error.filename)}" if error.filename is not None else ""
            text = f"the command cannot be started: {error.strerror or error}{where}"
            self._fail(task, NOT_STARTED, "NotStarted", text, retry=True)
            return
        task.slot = heappop(self._free)
        task.process = process
        self._guard.begins(slot, process.pid)
        if task.attempt > 1:
            # Between the output of two attempts.
            self._link.tell(wire.LOG, (task.lease, b"attempt %d" % task.attempt))
        self._running[process] = task

    def said(self, process: Process, data: bytes, *, warning: bool) -> None:
        task = self._running[process]
        if self._tasks.get(task.lease) is not task:
            return
        if warning:
            task.tail = (task.tail + data)[-TAIL_BYTES:]
        self._link.send(wire.encode(wire.CHUNK, 0, (task.lease, data, warning)))

    def ended(self, process: Process) -> None:
        task = self._running.pop(process)
        heappush(self._free, task.slot)
        self._guard.ends(task.slot)
        self._finished += 1
        if self._tasks.get(task.lease) is task:
            if process.code == 0:
                del self._tasks[task.lease]
                task.counts.running -= 1
                task.counts.done += 1
                seconds = round(self._loop.time() - task.started_s, 6)
                self._link.send(wire.encode(wire.FINISH, 0, (task.lease, _RESULT.encode(Result(0, seconds)))))
            elif process.stopping:
                self._give_back(task)
            else:
                self._fail(task, process.code, f"exit {process.code}", _text(task.tail), retry=True)
        if self._waiting:
            self._fill()
        self._check_drained()

    def _fail(self, task: Task, code: int, kind: str, text: str, *, retry: bool) -> None:
        if self._tasks.pop(task.lease, None) is None:
            return
        task.counts.running -= 1
        task.counts.failed += 1
        seconds = round(self._loop.time() - task.started_s, 6)
        data = _RESULT.encode(Failed(kind, text, exit=code, seconds=seconds))
        frame = wire.encode(wire.FAIL, 0, (task.lease, code, data, retry))
        self._link.send(frame)
        self.board.failed(task, frame)

    # --- slots

    def _slots(self) -> int:
        # A job that waits here would keep its resources from others.
        each = 0 if self.settings.resources else self._prefetch.each
        return 0 if self.draining else self.settings.slots * (1 + each)

    def _offer(self) -> None:
        """Tell the hall how many jobs this worker takes, if that has changed."""
        slots = self._slots()
        if slots != self._told_slots:
            self._told_slots = slots
            self._link.tell(wire.SLOTS, (slots,))

    def _begin_ticking(self) -> None:
        self._ticking = True
        self._ticked_s = self._loop.time()
        self._finished = 0
        self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Take more jobs ahead while they are short, and give back those that wait for too long."""
        now = self._loop.time()
        elapsed_s = now - self._ticked_s
        finished, self._finished, self._ticked_s = self._finished, 0, now
        self._prefetch.tick(self.settings.slots, AHEAD * finished, int(elapsed_s * 1e6))
        if self._waiting and now - self._waiting[0].taken_s > max(WAIT_S_MAX, 3 * elapsed_s):
            self._prefetch.stalled()
            self._release_waiting()
        self._offer()
        if finished or self._waiting:
            self._loop.call_later(TICK_S, self._tick)
        else:
            self._ticking = False

    def _release_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        # The last one first: each goes to the front of its queue.
        for task in reversed(waiting):
            self._release(task)

    def _release(self, task: Task) -> None:
        if self._tasks.pop(task.lease, None) is not None:
            task.counts.running -= 1
            self._link.tell(wire.RELEASE, (task.lease, True))

    def _give_back(self, task: Task) -> None:
        self._release(task)
        self.board.released(task)

    # --- the end

    def _void(self) -> None:
        """No lease counts any more. Those that run are stopped later."""
        for task in self._tasks.values():
            task.counts.running -= 1
        self._tasks.clear()
        self._waiting.clear()
        self._told_slots = -1
        self._check_drained()

    def _stop_void(self) -> None:
        for process, task in list(self._running.items()):
            if self._tasks.get(task.lease) is not task:
                self._processes.stop(process)

    def stop(self) -> None:
        """Once: finish what runs, within the grace. Twice: end it and give it back."""
        if self.draining:
            if not self._aborting:
                self._aborting = True
                self.board.tell("ending", "ending at once")
                self._expire()
            return
        self.draining = True
        running = len(self._running)
        words = f"ending: {counted(running, 'command')} may finish within {self.settings.grace_s:g} s"
        words += " (a second signal or Ctrl-C ends at once)"
        self.board.tell("draining", words if running else "ending", running=running)
        self._offer()
        self._release_waiting()
        self._loop.call_later(self.settings.grace_s, self._expire)
        self._check_drained()

    def _expire(self) -> None:
        for process in list(self._running):
            self._processes.stop(process)
        self._check_drained()

    def _check_drained(self) -> None:
        if self.draining and not self._running and not self._tasks and self._leaving is None:
            self._leaving = self._loop.create_task(self._leave())

    async def _leave(self) -> None:
        """Wait until the hall has read the last reports."""
        if self._link.up:
            try:
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._link.ask(wire.BEAT, None)
            except (TimeoutError, LinkLost, Refused):
                pass
        if not self._over.done():
            self._over.set_result(INTERRUPTED if self._aborting else DONE)


_RESULT: Final = msgspec.json.Encoder()


def _text(tail: bytes) -> str:
    """The last lines of standard error, without a line that is cut."""
    if len(tail) == TAIL_BYTES:
        tail = tail.partition(b"\n")[2] or tail
    return tail.decode("utf-8", "backslashreplace").rstrip("\n")
