"""Describes what a worker's function raised, as text that every protocol can carry.

Invariant: describing an exception never raises one.
"""

from __future__ import annotations

import contextlib
from traceback import format_exception
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging


TRACE_CHARS_MAX: Final = 16_384
"""How much of a traceback is sent to the client; the log has all of it."""


def describe(error: BaseException) -> str:
    r"""The type and the message of an exception, as text that can always be encoded.

    >>> describe(ValueError("no such user: \ud800"))
    'ValueError: no such user: \\ud800'
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a broken __str__ must not end a worker
        text = "(its message cannot be shown)"
    return _encodable(f"{type(error).__name__}: {text}")


def report(error: BaseException) -> str:
    """The first line is that of `describe`, followed by the traceback.

    A very long traceback is cut at its start: its end is nearest to the error.
    """
    trace = _encodable("".join(format_exception(error)).rstrip())
    return f"{describe(error)}\n{trace[-TRACE_CHARS_MAX:]}"


def log_failure(log: logging.Logger, what: str, error: Exception) -> None:
    """Log that a function failed, with the traceback. Errors of the logging itself are ignored."""
    with contextlib.suppress(Exception):
        log.warning("%s failed\n%s", _encodable(what), _encodable("".join(format_exception(error)).rstrip()))


def _encodable(text: str) -> str:
    """Escape lone surrogates: a str may contain them (json.loads accepts them), but no encoding does."""
    return text.encode(errors="backslashreplace").decode()
