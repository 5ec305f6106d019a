"""What can go wrong, as a caller sees it. All of it is a `WmpError`."""

from __future__ import annotations


class WmpError(Exception):
    """The root: whoever catches it catches everything below."""


class AddressError(WmpError, ValueError):
    """An address that cannot be used: ill-formed, taken, or not of this machine."""


class JobFailed(WmpError):
    """The job ended without a result. A worker's handler may raise it too.

    `reason` is what the worker said of it, `code` (1 to 255) what it called it.
    """

    def __init__(self, reason: bytes | str = b"", code: int = 1) -> None:
        self.reason = reason.encode() if isinstance(reason, str) else reason
        super().__init__(self.reason.decode(errors="replace") or "the worker gave no reason")
        if not 1 <= code <= 255:
            raise ValueError(f"a failure's code is 1 to 255, not {code}")
        self.code = code


class JobDeclined(WmpError):
    """A worker's handler raises it to give the job back: another worker shall have it."""


class JobCancelled(WmpError):
    """The job was cancelled by its manager, or its manager has closed."""


class ManagerFull(WmpError):
    """The manager has as many unfinished jobs as it may have: wait for some of them."""
