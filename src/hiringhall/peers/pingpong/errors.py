"""The exceptions of the PING/PONG peers. All are subclasses of `PingPongError`."""

from __future__ import annotations


class PingPongError(Exception):
    """The base class of all errors here."""


class NoAnswer(PingPongError):
    """The hall has not answered any attempt in time. The job may have been done, even more than once."""


class Refused(PingPongError):
    """The hall refused the job: `reason` is its error code."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason
        self.text = text


class JobCancelled(PingPongError):
    """The job was cancelled."""


class JobFailed(PingPongError):
    """The job ended without a result. A worker's handler may raise it too, to choose the code.

    `code` is a number from 1 to 255, `reason` is the text given by the worker.
    """

    def __init__(self, reason: bytes = b"", code: int = 1) -> None:
        if not 1 <= code <= 255:
            raise ValueError(f"the code of a failure must be from 1 to 255, not {code}")
        super().__init__(f"{reason.decode(errors='replace') or 'no reason was given'} (code {code})")
        self.reason = reason
        self.code = code
