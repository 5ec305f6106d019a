"""When a SUBMIT_JOB_SCHED is due.

The specification leaves this open. Here the job runs once, at the next minute that matches, and never in the
minute of its submission. A field that is empty, "*" or a number out of range matches everything; weekday 0 is
Monday. If both the day and the weekday are given, one of them has to match, as in cron. A field that is not a
number is refused, because a guess would run the job at the wrong time.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from hiringhall.core.errors import BAD_REQUEST, Refusal

_FIELDS: Final = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))


def find_zone(name: str) -> tzinfo:
    """The time zone with a name. Raises ZoneInfoNotFoundError, or ValueError for an empty name."""
    return UTC if name == "UTC" else ZoneInfo(name)


def next_due_us(fields: list[bytes], now_us: int, zone: tzinfo) -> int:
    """The next matching minute after `now_us`, for minute, hour, day, month, weekday. May raise Refusal."""
    parts: list[str] = []
    for text, (name, low, high) in zip(fields, _FIELDS, strict=True):
        parts.append(_read_field(text, name, low, high))
    if parts[4] != "*":
        parts[4] = str((int(parts[4]) + 1) % 7)  # in cron, weekday 0 is Sunday
    now = datetime.fromtimestamp(now_us // 1_000_000, zone)
    try:
        due = next(CronSim(" ".join(parts), now))
    except (CronSimError, StopIteration):
        raise Refusal(BAD_REQUEST, "no date matches this schedule") from None
    return int(due.timestamp()) * 1_000_000


def _read_field(text: bytes, name: str, low: int, high: int) -> str:
    if text in (b"", b"*"):
        return "*"
    digits = text.removeprefix(b"-")
    if not digits.isdigit():
        wrong = f"the {name} of a schedule must be a number from {low} to {high}, or * for any"
        raise Refusal(BAD_REQUEST, wrong)
    if digits is not text or len(digits) > 2 or not low <= int(digits) <= high:
        return "*"
    return str(int(digits))
