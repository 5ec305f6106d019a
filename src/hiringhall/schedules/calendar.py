"""Due times of a cron expression in a time zone.

The law: due times are a set that depends on the expression and the zone alone, never on where the search
for the next one began. An expression whose minutes and hours name numbers is due once a day for each of
them: what falls into the hour that is left out in spring is due when that hour would have begun, what falls
into the hour that comes twice in autumn is due the first time. Any other (its minutes or hours begin with a
star, or it has seconds) follows the clock on the wall: not due in the hour left out, due in both hours that
look alike.
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
    """Raises ValueError for what is no cron expression, or one that no day matches."""
    usage = "write minute hour day month weekday, as in 30 3 * * MON"
    if len(cron) > CRON_LENGTH_MAX:
        raise ValueError(f"is longer than {CRON_LENGTH_MAX} characters; {usage}")
    try:
        next(CronSim(cron, datetime(2000, 1, 1)))  # noqa: DTZ001 (any zone will do)
    except CronSimError as error:
        problem = str(error)
        raise ValueError(
            f'"{cron}" is no cron expression: {problem[:1].lower()}{problem[1:]}; {usage}'
        ) from None
    except StopIteration:
        raise ValueError(f'"{cron}" matches no day within 50 years') from None


def next_due(cron: str, zone: tzinfo, after: datetime) -> datetime:
    """The first due time later than `after`; both in UTC, on whole seconds."""
    if _names_times(cron):
        for due in CronSim(cron, after.astimezone(zone)):
            if (at := due.astimezone(UTC)) > after:
                return at
        raise AssertionError("`check_cron` lets in nothing that is not due again")
    return _next_on_the_wall(cron, zone, after)


def _names_times(cron: str) -> bool:
    parts = cron.split()
    return len(parts) == 5 and not parts[0].startswith("*") and not parts[1].startswith("*")


def _next_on_the_wall(cron: str, zone: tzinfo, after: datetime) -> datetime:
    """The first second whose wall clock matches: looked for from one change of the wall clock to the next,
    since between two of them it goes as any clock does.
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
        wall = (change + offset - _SECOND).replace(tzinfo=None)  # the change itself may be due


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _next_change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The first second in (after, until] whose offset is not that of `after`."""
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
