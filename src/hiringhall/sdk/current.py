"""The job that is being run: `current_job()` inside a job function.

Invariant: it is a context variable, so that jobs in threads and in tasks of one process each see their own.
"""

from __future__ import annotations

import contextlib
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class Reports(Protocol):
    """Where a running job's reports go: the worker's side."""

    def progress(self, numerator: int, denominator: int, remaining_us: int) -> None: ...

    def chunk(self, data: bytes, *, warning: bool) -> None: ...

    def log(self, data: bytes) -> None: ...

    def heartbeat(self) -> None: ...

    @property
    def cancelled(self) -> bool: ...


class CurrentJob:
    """What a job function can learn of its own job, and tell those who watch it."""

    __slots__ = ("_ends_s", "_reports", "attempt", "id", "key", "queue")

    def __init__(
        self, job_id: int, queue: str, key: str, attempt: int, reports: Reports, run_s: float | None = None
    ) -> None:
        self.id = job_id
        self.queue = queue
        self.key = key
        self.attempt = attempt
        """1 at the first."""
        self._reports = reports
        self._ends_s = None if run_s is None else time.monotonic() + run_s

    def progress(self, done: int, of: int = 100, *, remaining: float = 0) -> None:
        """Tell how far it is; `remaining` is the time in seconds that it will still take, if known."""
        self._reports.progress(max(int(done), 0), max(int(of), 0), max(round(remaining * 1e6), 0))

    def chunk(self, data: bytes | str, *, warning: bool = False) -> None:
        """Send a piece of data, or a warning, to those who watch; it is kept with the job."""
        self._reports.chunk(_bytes(data), warning=warning)

    def log(self, text: str) -> None:
        """Write a line to the job's log."""
        self._reports.log(_bytes(text))

    def heartbeat(self) -> None:
        """Show life. A worker does that by itself; this is for functions that want to say it."""
        self._reports.heartbeat()

    @property
    def cancelled(self) -> bool:
        """The job was cancelled or took too long: stop, the result is not wanted."""
        return self._reports.cancelled

    def time_left(self) -> float | None:
        """Seconds until the timeout of this attempt; None: it has no timeout."""
        return None if self._ends_s is None else max(self._ends_s - time.monotonic(), 0.0)


_CURRENT: Final[ContextVar[CurrentJob]] = ContextVar("current_job")


def current_job() -> CurrentJob:
    """The job that runs here. Raises RuntimeError outside of one."""
    try:
        return _CURRENT.get()
    except LookupError:
        raise RuntimeError(
            "no job runs here: current_job() works in a job function that a worker calls"
        ) from None


@contextlib.contextmanager
def running(job: CurrentJob) -> Iterator[CurrentJob]:
    """Make it the current job, for a worker."""
    token = _CURRENT.set(job)
    try:
        yield job
    finally:
        _CURRENT.reset(token)


def _bytes(data: bytes | str) -> bytes:
    return data.encode(errors="replace") if isinstance(data, str) else data
