"""What can go wrong, as a caller sees it. All of it is a `PingPongError`."""

from __future__ import annotations


class PingPongError(Exception):
    """The root: whoever catches it catches everything below."""


class NoAnswer(PingPongError):
    """The hall has not answered any of the tries in time. The job may have been done, and more than once."""


class Refused(PingPongError):
    """The hall did not take the job in: `reason` is its word for why."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.text = text


class JobCancelled(PingPongError):
    """Somebody called the job off."""


class JobFailed(PingPongError):
    """The job ended without a result. A worker's handler may raise it too, to choose the code.

    `code` is a number from 1 to 255, `reason` whatever the worker said of it.
    """

    def __init__(self, reason: bytes = b"", code: int = 1) -> None:
        if not 1 <= code <= 255:
            raise ValueError(f"the code of a failure is a number from 1 to 255, not {code}")
        super().__init__(f"{reason.decode(errors='replace') or 'no reason was given'} (code {code})")
        self.reason = reason
        self.code = code
