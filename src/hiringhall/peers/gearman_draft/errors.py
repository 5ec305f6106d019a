"""What can go wrong, as a caller sees it. All of it is a `DraftError`."""

from __future__ import annotations

from typing import Final

_TEXT_SHOWN: Final = 200


class DraftError(Exception):
    """The root: whoever catches it catches everything below."""


class ConnectionLost(DraftError):
    """No server could be reached, or the connection ended while something was under way.

    What was asked for at that moment may or may not have been done. A job that was being submitted is among
    those that `Client.lost` lists.
    """


class ServerError(DraftError):
    """The server said no: a code of its list, and why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (code {code})")
        self.code = code
        self.text = text


class JobFailed(DraftError):
    """The job ended without success: `code` is 1 to 255, `data` what the worker said of it.

    The first line of `data` is in the message; further ones, such as a traceback, are a note.
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
    """Raised by a worker's function: the task has failed with this code, 1 to 255, and this to say of it."""

    def __init__(self, code: int, data: bytes = b"") -> None:
        if not 0 < code < 256:
            raise ValueError(f"a code of failure is 1 to 255, not {code}")
        super().__init__(f"code {code}: {data[:_TEXT_SHOWN].decode(errors='replace')}")
        self.code = code
        self.data = data
