"""The job that a function runs for, as the function sees it: `current_job()`.

Invariant: everything that a function says about its job is a frame of the native protocol, which the worker
sends to the hall as it is.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from hiringhall.dialects.native import wire
from hiringhall.sdk.resources import Given, given_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG: Final = "log"
RENEW: Final = "renew"
PROGRESS_S: Final = 0.05
"""Progress within this time after the last report is not sent, unless it is the end."""
LOG_BYTES_MAX: Final = 64 << 10
"""A longer log line is cut."""


class Sink(Protocol):
    """Takes the frames of a job to the hall."""

    def say(self, lease: int, frame: bytes) -> None:
        """Send a frame. May be called from any thread."""


class CurrentJob:
    """The job that runs now."""

    __slots__ = ("_assign", "_ends_at", "_progress_at", "_sink", "cancelled")

    def __init__(
        self,
        assign: tuple[int, int, bytes, bytes, bytes, int, int]
        | tuple[int, int, bytes, bytes, bytes, int, int, bytes],
        sink: Sink,
    ) -> None:
        """`assign` is the body of the frame: lease, job, queue, payload, key, attempt, run_us; and what it was
        given of the resources of its worker, if it needs some.
        """
        self._assign = assign
        self._sink = sink
        self._ends_at = time.monotonic() + assign[6] / 1e6 if assign[6] else 0.0
        self._progress_at = 0.0
        self.cancelled = False
        """The job was cancelled, or its time is over. Seen by async functions and in threads; a plain function
        in a process of its own is stopped before it can look.
        """

    @property
    def id(self) -> int:
        return self._assign[1]

    @property
    def queue(self) -> str:
        return self._assign[2].decode("utf-8", "backslashreplace")

    @property
    def key(self) -> str:
        """What the submitter called it; the SDK gives each job a key of its own if the submitter does not."""
        return self._assign[4].decode("utf-8", "backslashreplace")

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._assign[5]

    @property
    def resources(self) -> dict[str, Given]:
        """What it may use of the resources of its worker, by name; empty: it needs none.

        `current_job().resources["gpus"].units` are the numbers of its GPUs.
        """
        return given_of(self._assign[7]) if len(self._assign) > 7 else {}

    def progress(self, done: int, of: int = 100, *, remaining: float = 0) -> None:
        """Tell watchers how far the job is, and how many seconds it will still take, if known. Cheap: at most
        20 reports a second are sent.
        """
        now = time.monotonic()
        if now - self._progress_at < PROGRESS_S and done < of:
            return
        self._progress_at = now
        remaining_us = max(round(remaining * 1e6), 0)
        self._say(wire.PROGRESS, (self._assign[0], max(int(done), 0), max(int(of), 0), remaining_us))

    def chunk(self, data: bytes | str, *, warning: bool = False) -> None:
        """Send a piece of data, or a warning, to watchers; it is kept with the job."""
        self._say(wire.CHUNK, (self._assign[0], _bytes(data), warning))

    def log(self, text: str) -> None:
        """Keep a line with the job."""
        self._say(LOG, (self._assign[0], _bytes(text)[:LOG_BYTES_MAX]))

    def heartbeat(self) -> None:
        """Say that the job makes progress: its time limit counts from now."""
        if self._assign[6]:
            self._ends_at = time.monotonic() + self._assign[6] / 1e6
            self._say(RENEW, (self._assign[0],))

    def time_left(self) -> float | None:
        """Seconds until the job is stopped; None: it has no time limit."""
        return max(self._ends_at - time.monotonic(), 0.0) if self._ends_at else None

    def _say(self, kind: str, body: object) -> None:
        self._sink.say(self._assign[0], wire.encode(kind, 0, body))

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.queue}, attempt {self.attempt}>"


CURRENT: Final[ContextVar[CurrentJob | None]] = ContextVar("current_job", default=None)


class _Process:
    """The job of a process that runs one at a time: its helper threads see it too."""

    job: CurrentJob | None = None


PROCESS: Final = _Process()


def current_job() -> CurrentJob:
    """The job that the calling function runs for. Raises RuntimeError outside a job."""
    job = find_current_job()
    if job is None:
        raise RuntimeError("no job runs here: current_job() is for functions that a worker runs")
    return job


def find_current_job() -> CurrentJob | None:
    """The job that the calling function runs for, or None outside a job."""
    return CURRENT.get() or PROCESS.job


@contextmanager
def running(job: CurrentJob) -> Iterator[CurrentJob]:
    """Make a job the current one of this thread or task."""
    token = CURRENT.set(job)
    try:
        yield job
    finally:
        CURRENT.reset(token)


def _bytes(data: bytes | str) -> bytes:
    return data.encode("utf-8", "backslashreplace") if isinstance(data, str) else bytes(data)
