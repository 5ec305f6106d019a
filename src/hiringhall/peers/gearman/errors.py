"""What can go wrong, as a caller sees it. All of it is a `GearmanError`."""

from __future__ import annotations


class GearmanError(Exception):
    """The root: whoever catches it catches everything below."""


class ConnectionLost(GearmanError):
    """No server could be reached, or the connection ended while something was under way.

    A job that was being submitted may or may not have been taken in: submit it again with the same `unique`,
    and it will not be doubled while it lives.
    """


class ServerError(GearmanError):
    """The server said no: an ERROR packet, or an ERR line of the admin protocol."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class JobFailed(GearmanError):
    """The job ended without a result. A worker's handler may raise it too.

    `exception` is what the worker said of it: empty when it gave no reason, or when the client did not ask
    for exceptions. Its first line is the message; further ones, such as a traceback, are a note.
    """

    def __init__(self, exception: bytes = b"", handle: bytes = b"") -> None:
        reason, _, more = exception.decode(errors="replace").partition("\n")
        reason = reason or "the worker gave no reason"
        super().__init__(f"{handle.decode(errors='replace')}: {reason}" if handle else reason)
        if more:
            self.add_note(more)
        self.exception = exception
        self.handle = handle
