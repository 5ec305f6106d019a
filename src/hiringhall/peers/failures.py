"""What a worker's function raised, in words that any wire can carry.

The law: whatever it raised, telling of it raises nothing.
"""

from __future__ import annotations

import contextlib
from traceback import format_exception
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging


TRACE_CHARS_MAX: Final = 16_384
"""What is told of a traceback to somebody far away; the log has all of it."""


def describe(error: BaseException) -> str:
    r"""The kind of an exception and what it says. Every encoding takes it, whatever the exception is.

    >>> describe(ValueError("no such user: \ud800"))
    'ValueError: no such user: \\ud800'
    """
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a text that cannot be made must not be the end of a worker
        said = "(it cannot say what happened)"
    return _encodable(f"{type(error).__name__}: {said}")


def report(error: BaseException) -> str:
    """What happened in the first line, as `describe` says it, and below it where: the traceback.

    Of a very long traceback the end is told, which is nearest to what was raised.
    """
    trace = _encodable("".join(format_exception(error)).rstrip())
    return f"{describe(error)}\n{trace[-TRACE_CHARS_MAX:]}"


def log_failure(log: logging.Logger, what: str, error: Exception) -> None:
    """Log that a function failed, and where. A log that cannot take it goes without it."""
    with contextlib.suppress(Exception):
        log.warning("%s failed\n%s", _encodable(what), _encodable("".join(format_exception(error)).rstrip()))


def _encodable(text: str) -> str:
    """Half of a surrogate pair is fine in a str and in no encoding: json.loads, for one, lets it in."""
    return text.encode(errors="backslashreplace").decode()
