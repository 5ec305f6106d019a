"""What the SDK raises. Every message says what happened, to which thing, and what to do."""

from __future__ import annotations

from typing import Any, Final

TIMEOUT: Final = 124
"""The hall's code for an attempt that took too long."""
CANCELLED: Final = 130
"""The hall's code for a job that was cancelled or has expired."""
HALL_CODES: Final = {
    122: "too many workers quit",
    124: "it took longer than its timeout",
    125: "too many of its workers were lost",
    126: "a job that it depends on failed",
    130: "it was cancelled, or has expired",
}
"""Codes that the hall gives by itself; a worker may use others."""


class HallError(Exception):
    """Something is wrong between this program and the hall."""


class HallUnreachable(HallError):
    """No hall answers, or the connection was lost."""


class HallRefused(HallError):
    """The hall refused a request. `code` is a stable word, see the page of the native protocol."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"the hall refused ({self.code}): {self.text}"


class JobFailed(Exception):
    """The job ended without a result. `type`, `text` and `traceback` are those of the worker's exception."""

    def __init__(
        self,
        job_id: int,
        queue: str,
        code: int,
        type: str = "",  # noqa: A002 (the worker's exception has a type)
        text: str = "",
        traceback: str = "",
    ) -> None:
        super().__init__(job_id, queue, code, type, text, traceback)
        self.job_id = job_id
        self.queue = queue
        self.code = code
        self.type = type
        self.text = text
        self.traceback = traceback
        if traceback:
            self.add_note(f"On the worker:\n{traceback.rstrip()}")

    def __str__(self) -> str:
        job = f"job {self.job_id} ({self.queue})" if self.queue else f"job {self.job_id}"
        said = ": ".join(part for part in (self.type, self.text) if part)
        reason = HALL_CODES.get(self.code, "")
        if not said:
            said = reason or "the worker gave no reason"
        elif reason and not self.type:
            said = f"{reason}: {said}"
        return f"{job} {self._verb} (code {self.code}): {said}"

    _verb = "failed"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


class JobTimeout(JobFailed):
    """The last attempt took longer than the job's timeout."""


class JobCancelled(JobFailed):
    """The job was cancelled, or no worker took it before it expired."""

    _verb = "was cancelled"
