"""Formats a log record as a line of text or JSON.

Invariant: one record is one line of printable characters (a traceback follows it, indented), and no value is
longer than its limit, whatever a peer sent.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

MESSAGE_CHARACTERS_MAX: Final = 1000
VALUE_CHARACTERS_MAX: Final = 200

EVENT_ATTRIBUTE: Final = "hall_event"
"""The attribute of a record with the kind of its event, such as "dead_letter"."""
FIELDS_ATTRIBUTE: Final = "hall_fields"
"""The attribute of a record with its named values, such as the door and the peer."""


def shown(value: str | bytes, characters_max: int = VALUE_CHARACTERS_MAX) -> str:
    """A value in printable characters. All others are escaped, and a long value is truncated."""
    # A character has at most four bytes. Truncate first, so that a long value costs no more than a short one.
    text = (
        value[: characters_max * 4].decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    )
    cut = text[:characters_max]
    if not cut.isprintable():
        cut = "".join([letter if letter.isprintable() else _escaped(letter) for letter in cut])
    return cut if len(text) <= characters_max and len(value) <= characters_max * 4 else cut + "..."


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def stamp(created_s: float) -> str:
    """The time of a record: ISO 8601 with milliseconds, in UTC."""
    return datetime.fromtimestamp(created_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """2026-11-16T21:06:32.123Z WARNING dead letter: failed ... door=gearman:4730 queue=rev handle=H:hall:7"""

    def format(self, record: logging.LogRecord) -> str:
        message = shown(record.getMessage(), MESSAGE_CHARACTERS_MAX)
        parts = [stamp(record.created), f"{record.levelname:<7}", message]
        parts += [f"{name}={_quoted(shown(value))}" for name, value in fields_of(record).items()]
        lines = [" ".join(parts), *_traceback(self, record)]
        return "\n    ".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the same values."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "event": getattr(record, EVENT_ATTRIBUTE, ""),
            "message": shown(record.getMessage(), MESSAGE_CHARACTERS_MAX),
        }
        line |= {name: shown(value) for name, value in fields_of(record).items()}
        traceback = _traceback(self, record)
        if traceback:
            line["traceback"] = traceback
        return json.dumps(line)


def fields_of(record: logging.LogRecord) -> dict[str, str | bytes]:
    fields: dict[str, str | bytes] = getattr(record, FIELDS_ATTRIBUTE, {})
    return fields


def _quoted(text: str) -> str:
    """A value without spaces, or in quotes."""
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    if not record.exc_info:
        return []
    return [
        shown(line, MESSAGE_CHARACTERS_MAX) for line in formatter.formatException(record.exc_info).split("\n")
    ]
