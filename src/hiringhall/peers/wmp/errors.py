"""The exceptions of the WMP peers. All are subclasses of `WmpError`."""

from __future__ import annotations


class WmpError(Exception):
    """The base class of all errors here."""


class AddressError(WmpError, ValueError):
    """An address that cannot be used: malformed, already in use, or not on this machine."""


class JobFailed(WmpError):
    """The job ended without a result. A worker's handler may raise it too.

    `reason` and `code` (1 to 255) are given by the worker.
    """

    def __init__(self, reason: bytes | str = b"", code: int = 1) -> None:
        self.reason = reason.encode() if isinstance(reason, str) else reason
        super().__init__(self.reason.decode(errors="replace") or "the worker gave no reason")
        if not 1 <= code <= 255:
            raise ValueError(f"the code of a failure must be from 1 to 255, not {code}")
        self.code = code


class JobDeclined(WmpError):
    """A worker's handler raises it to give the job back, for another worker."""


class JobCancelled(WmpError):
    """The job was cancelled by its manager, or its manager has closed."""


class ManagerFull(WmpError):
    """The manager has the maximum number of unfinished jobs: wait for some of them to end."""
