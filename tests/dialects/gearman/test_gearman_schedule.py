"""The reading of SUBMIT_JOB_SCHED."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfoNotFoundError

import pytest

from hiringhall.core.errors import Refusal
from hiringhall.dialects.gearman.schedule import find_zone, next_due_us

THURSDAY = datetime(2026, 1, 1, 12, 30, 15, tzinfo=UTC)


def due(fields: str, now: datetime = THURSDAY, zone: str = "UTC") -> str:
    now_us = int(now.timestamp()) * 1_000_000 + 123_456
    due_us = next_due_us([field.encode() for field in fields.split("/")], now_us, find_zone(zone))
    assert due_us > now_us
    return datetime.fromtimestamp(due_us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("*/*/*/*/*", "2026-01-01 12:31:00"),
        ("////", "2026-01-01 12:31:00"),
        ("30/12/*/*/*", "2026-01-02 12:30:00"),
        ("31/12/1/1/*", "2026-01-01 12:31:00"),
        ("0/*/*/*/*", "2026-01-01 13:00:00"),
        ("00/06/*/*/*", "2026-01-02 06:00:00"),
        ("0/0/15/*/*", "2026-01-15 00:00:00"),
        ("0/0/29/2/*", "2028-02-29 00:00:00"),
        ("0/0/*/*/0", "2026-01-05 00:00:00"),
        ("0/0/*/*/5", "2026-01-03 00:00:00"),
        ("0/0/*/*/6", "2026-01-04 00:00:00"),
        ("0/0/13/*/4", "2026-01-02 00:00:00"),
        ("60/24/0/13/7", "2026-01-01 12:31:00"),
        ("-1/-1/-1/-1/-1", "2026-01-01 12:31:00"),
        ("99999999999999999999/*/*/*/*", "2026-01-01 12:31:00"),
    ],
)
def test_the_next_matching_minute(fields: str, expected: str) -> None:
    assert due(fields) == expected


def test_hours_are_those_of_the_doors_time_zone() -> None:
    assert due("0/6/*/*/*", zone="Europe/Vienna") == "2026-01-02 05:00:00"
    july = datetime(2026, 7, 1, tzinfo=UTC)
    assert due("0/6/*/*/*", july, "Europe/Vienna") == "2026-07-01 04:00:00"


@pytest.mark.parametrize("fields", ["*/*/30/2/*", "*/*/31/4/*"])
def test_a_day_that_never_comes(fields: str) -> None:
    with pytest.raises(Refusal, match="no date"):
        due(fields)


@pytest.mark.parametrize(
    ("fields", "name"), [("x/*/*/*/*", "minute"), ("*/1,2/*/*/*", "hour"), ("*/*/*/*/MON", "weekday")]
)
def test_what_is_no_number_is_refused(fields: str, name: str) -> None:
    with pytest.raises(Refusal, match=name):
        due(fields)


def test_a_zone_must_exist() -> None:
    with pytest.raises(ZoneInfoNotFoundError):
        find_zone("Nowhere/Land")
