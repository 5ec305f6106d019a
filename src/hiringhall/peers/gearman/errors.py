"""The exceptions of the Gearman peers. All are subclasses of `GearmanError`."""

from __future__ import annotations


class GearmanError(Exception):
    """The base class of all errors here."""


class ConnectionLost(GearmanError):
    """No server could be reached, or the connection ended during a call.

    A job that was being submitted may or may not have been accepted. Submit it again with the same `unique`:
    while the first one is live, it joins that job.
    """


class ServerError(GearmanError):
    """The server refused: an ERROR packet, or an ERR line of the admin protocol."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class JobFailed(GearmanError):
    """The job ended without a result. A worker's handler may raise it too.

    `exception` is the reason given by the worker. It is empty if the worker gave none, or if the client did not
    ask for exceptions. Its first line is the message; further lines, such as a traceback, are a note.
    """

    def __init__(self, exception: bytes = b"", handle: bytes = b"") -> None:
        reason, _, more = exception.decode(errors="replace").partition("\n")
        reason = reason or "the worker gave no reason"
        super().__init__(f"{handle.decode(errors='replace')}: {reason}" if handle else reason)
        if more:
            self.add_note(more)
        self.exception = exception
        self.handle = handle
