"""Times and durations as people type them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Final

from hiringhall.cli.reporting import WRONG_USE, CommandError
from hiringhall.config.quantities import Interval

TIMES: Final = 'a time such as 2026-03-01 or 2026-03-01T12:30, or an age such as "2 h" or "7d"'
SPANS: Final = "a time such as 500ms, 90s, 15m, 6h or 1d, up to 100 years"
UNITS_US: Final = {
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
SPAN_MAX_US: Final = 36_500 * UNITS_US["d"]
_SPAN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(ms|s|m|min|h|d)?")


def read_time(
    option: str, text: str | None, problems: list[str], *, ends: bool = False, now: datetime | None = None
) -> datetime | None:
    """A date and time, in this machine's time zone unless it names another, or an age. A date alone means the
    beginning of that day, or with `ends` its end.
    """
    if text is None:
        return None
    written = text.strip()
    with suppress(ValueError, OverflowError):
        of_a_date = time_of_day.max if ends else time_of_day.min
        return datetime.combine(date.fromisoformat(written), of_a_date).astimezone()
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(written).astimezone()
    try:
        # A bare number is refused: it could mean a year or days.
        return (now or datetime.now(UTC)) - timedelta(microseconds=Interval.parse(written))
    except (ValueError, OverflowError):
        problems.append(f'{option}: "{text}" is not allowed; it takes {TIMES}')
        return None


def read_span_us(option: str, written: str) -> int:
    """A duration: a number with a unit, or seconds. Raises CommandError."""
    found = _SPAN.fullmatch(written.strip())
    span_us = round(float(found[1]) * UNITS_US[found[2] or "s"]) if found else -1
    if not 0 <= span_us <= SPAN_MAX_US:
        raise CommandError(f'{option}: "{written}" is not allowed; it takes {SPANS}', WRONG_USE)
    return span_us
