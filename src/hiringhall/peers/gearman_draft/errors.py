"""The exceptions of the draft's peers. All are subclasses of `DraftError`."""

from __future__ import annotations

from typing import Final

_TEXT_SHOWN: Final = 200


class DraftError(Exception):
    """The base class of all errors here."""


class ConnectionLost(DraftError):
    """No server could be reached, or the connection ended during a call.

    The request may or may not have been executed. `Client.lost` lists jobs that were being submitted.
    """


class ServerError(DraftError):
    """The server refused, with an error code and a reason."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (code {code})")
        self.code = code
        self.text = text


class JobFailed(DraftError):
    """The job failed: `code` is 1 to 255, `data` is the reason given by the worker.

    The first line of `data` is in the message; further lines, such as a traceback, are a note.
    """

    def __init__(self, name: str, code: int, data: bytes) -> None:
        reason, _, more = data.decode(errors="replace").partition("\n")
        super().__init__(
            f"{name} failed with code {code}: {reason[:_TEXT_SHOWN] or 'the worker gave no reason'}"
        )
        if more:
            self.add_note(more)
        self.name = name
        self.code = code
        self.data = data


class TaskError(DraftError):
    """Raised by a worker's function: the task has failed with this code, 1 to 255, and this reason."""

    def __init__(self, code: int, data: bytes = b"") -> None:
        if not 0 < code < 256:
            raise ValueError(f"the code of a failure must be from 1 to 255, not {code}")
        super().__init__(f"code {code}: {data[:_TEXT_SHOWN].decode(errors='replace')}")
        self.code = code
        self.data = data
