"""What `hall run` writes, in a thread: a pipe that nobody reads must not keep the run from hearing a signal.

Invariant: jobs and lines are written in the order in which they came, one at a time. After the first error jobs
are dropped. The thread is a daemon, and holds no lock while it writes: a write may never end.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.shell.running import Job
    from hiringhall.shell.showing import Show


STUCK_S: Final = 0.25
Line: TypeAlias = list[str]
"""A line that is to be written. Whoever writes it takes it out."""


class Printer:
    """Shows jobs, and lines about the run."""

    def __init__(
        self, show: Show, written: Callable[[list[Job]], None], failed: Callable[[OSError], None]
    ) -> None:
        """`show` is used in the thread. `written`, with jobs that are done with, and `failed` are called in the
        event loop.
        """
        self._show = show
        self._written = written
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[Job | Line | None] = queue.SimpleQueue()
        self._broken = False
        self._ended = asyncio.Event()
        self._moved_s = time.monotonic()
        """When it last began or ended with a job."""
        self.waiting = 0
        """Jobs that were added and are not written."""
        threading.Thread(target=self._run, name="output", daemon=True).start()

    def add(self, job: Job) -> None:
        self.waiting += 1
        self._work.put(job)

    def say(self, text: str) -> None:
        """A line for people, in its turn unless that takes long: it may be about output that nobody reads."""
        line = [text]
        self._work.put(line)
        self._loop.call_later(STUCK_S, self._hurry, line)

    def _hurry(self, line: Line) -> None:
        if line:
            threading.Thread(target=self._write_line, args=(line,), name="line", daemon=True).start()

    @property
    def stuck_s(self) -> float:
        """For how long it has neither begun nor ended with a job."""
        return time.monotonic() - self._moved_s

    async def finish(self) -> None:
        """Write the rest, unless it is abandoned."""
        self._work.put(None)
        await self._ended.wait()

    def abandon(self) -> None:
        """What is not written will never be."""
        self._ended.set()

    # --- in the thread

    def _run(self) -> None:
        ended = False
        while not ended:
            jobs: list[Job] = []
            work = self._work.get()
            while True:
                if work is None:
                    ended = True
                    break
                if isinstance(work, list):
                    self._write_line(work)
                else:
                    self._write_job(work)
                    jobs.append(work)
                try:
                    work = self._work.get_nowait()
                except queue.Empty:
                    break
            if jobs:
                self._call(self._note, jobs)
        with contextlib.suppress(OSError):
            self._show.end()
        self._call(self._ended.set)

    def _write_line(self, line: Line) -> None:
        # OSError: stderr is closed. IndexError: another thread has written it.
        with contextlib.suppress(OSError, IndexError):
            self._show.say(line.pop())

    def _write_job(self, job: Job) -> None:
        if self._broken:
            return
        self._moved_s = time.monotonic()
        try:
            self._show.job(job)
        except OSError as error:
            self._broken = True
            self._call(self._failed, error)
        self._moved_s = time.monotonic()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # The run may have ended without this thread.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    # --- in the event loop

    def _note(self, jobs: list[Job]) -> None:
        self.waiting -= len(jobs)
        self._written(jobs)
