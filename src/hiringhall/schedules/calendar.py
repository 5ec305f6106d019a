"""Due times of a cron expression in a time zone.

Invariant: the set of due times depends only on the expression and the zone, never on where the search for the
next one starts. An expression with numbers for minutes and hours is due once a day for each of them: a time
in the hour that is skipped in spring is due when that hour would have started; a time in the hour that is
repeated in autumn is due the first time. Any other expression (its minutes or hours start with a star, or it
has seconds) follows the wall clock: it is not due in the skipped hour, and due in both of the repeated hours.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

CRON_LENGTH_MAX: Final = 200
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)


def find_zone(name: str) -> tzinfo:
    """A time zone by its name. Raises ValueError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        raise ValueError(f'"{name}" is not a known time zone; it takes a name such as Europe/Vienna') from None


def check_cron(cron: str) -> None:
    """Raise ValueError if it is not a cron expression, or one that matches no day."""
    usage = "write minute hour day month weekday, as in 30 3 * * MON"
    if len(cron) > CRON_LENGTH_MAX:
        raise ValueError(f"is longer than {CRON_LENGTH_MAX} characters; {usage}")
    try:
        next(CronSim(cron, datetime(2000, 1, 1)))  # noqa: DTZ001 (any zone will do)
    except CronSimError as error:
        problem = str(error)
        raise ValueError(
            f'"{cron}" is not a cron expression: {problem[:1].lower()}{problem[1:]}; {usage}'
        ) from None
    except StopIteration:
        raise ValueError(f'"{cron}" matches no day within 50 years') from None


def next_due(cron: str, zone: tzinfo, after: datetime) -> datetime:
    """The first due time later than `after`; both in UTC, on whole seconds."""
    if _has_fixed_times(cron):
        for due in CronSim(cron, after.astimezone(zone)):
            if (at := due.astimezone(UTC)) > after:
                return at
        raise AssertionError("`check_cron` accepts only expressions that are always due again")
    return _next_by_wall_clock(cron, zone, after)


def _has_fixed_times(cron: str) -> bool:
    parts = cron.split()
    return len(parts) == 5 and not parts[0].startswith("*") and not parts[1].startswith("*")


def _next_by_wall_clock(cron: str, zone: tzinfo, after: datetime) -> datetime:
    """The first second whose wall clock matches. The search goes from one change of the UTC offset to the next,
    because the wall clock runs evenly in between.
    """
    offset = _offset(zone, after)
    wall = (after + offset).replace(tzinfo=None)
    while True:
        due = next(CronSim(cron, wall)).replace(tzinfo=UTC) - offset
        change = _next_change(zone, after, due)
        if change is None:
            return due
        after = change
        offset = _offset(zone, change)
        wall = (change + offset - _SECOND).replace(tzinfo=None)  # The change itself may be due.


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _next_change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The first second in (after, until] with another offset than `after`."""
    offset = _offset(zone, after)
    low = after
    while low < until:
        high = min(low + _DAY, until)
        if _offset(zone, high) != offset:
            while high - low > _SECOND:
                middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
                if _offset(zone, middle) == offset:
                    low = middle
                else:
                    high = middle
            return high
        low = high
    return None
