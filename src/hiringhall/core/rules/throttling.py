"""Throttled keys: for a while after its creation a job answers for its key, even if it has ended.

Invariant: the window of a durable job is on disk with the job, and is dropped from it when its time is over. So
a restart or a take-over changes nothing. The history could not tell: it may have dropped the job, and is too
long to be searched when the hall opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.changes import WindowRow
from hiringhall.core.errors import HALL_FULL, Refusal
from hiringhall.core.timers import Timed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.core.jobs import Job
    from hiringhall.core.scheduler import Scheduler
    from hiringhall.core.table import JobTable


class ThrottleWindow(Timed):
    """The window of one key. Its timer is its end, which is a date."""

    __slots__ = ("job_id", "kept", "name")

    def __init__(self, name: tuple[bytes, bytes], job_id: int) -> None:
        super().__init__()
        self.name = name
        """Queue and key."""
        self.job_id = job_id
        self.kept = False
        """It is on disk, or will be."""

    def ring(self, scheduler: Scheduler) -> None:
        scheduler.throttle_windows.close(self)

    @property
    def counts_down(self) -> bool:
        return False


class ThrottleWindows:
    """All keys that are throttled."""

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._by_name: dict[tuple[bytes, bytes], ThrottleWindow] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, queue: bytes, key: bytes) -> int:
        """The id of the job that answers for this key; 0: it is not throttled."""
        window = self._by_name.get((queue, key))
        return window.job_id if window is not None and window.due_us > self._table.now_us else 0

    def check_room(self) -> None:
        """Refuse a further window if there are as many as the hall may have jobs."""
        most = self._table.limits.jobs_max
        if len(self._by_name) >= most:
            raise Refusal(HALL_FULL, f"{most} keys are throttled, as many as the hall allows (jobs_max)")

    def open(self, job: Job, until_us: int) -> None:
        """A job was submitted that throttles its key."""
        name = (job.queue.name, job.key)
        before = self._by_name.get(name)
        if before is not None:
            self._table.timers.disarm(before)
        window = self._by_name[name] = ThrottleWindow(name, job.id)
        self._table.timers.arm(window, until_us)
        self.note(job)

    def note(self, job: Job) -> None:
        """The job may have become durable: then its window is, too."""
        window = self._by_name.get((job.queue.name, job.key))
        if window is not None and window.job_id == job.id and job.terms.durable:
            window.kept = True
            self._table.ledger.note_window(window.name, WindowRow(*window.name, job.id, window.due_us))

    def close(self, window: ThrottleWindow) -> None:
        """The window is over."""
        del self._by_name[window.name]
        if window.kept:
            self._table.ledger.note_window(window.name, None)

    def withdraw(self, job: Job) -> None:
        """The job was refused after all."""
        window = self._by_name.get((job.queue.name, job.key))
        if window is not None and window.job_id == job.id:
            self._table.timers.disarm(window)
            self.close(window)

    def restore(self, rows: Iterable[WindowRow]) -> None:
        """The windows that were open when the hall closed. Those that are over meanwhile close at once."""
        for row in rows:
            window = self._by_name[row.queue, row.key] = ThrottleWindow((row.queue, row.key), row.job)
            window.kept = True
            self._table.timers.arm(window, row.until_us)

    def all(self) -> list[ThrottleWindow]:
        """Every window."""
        return list(self._by_name.values())
