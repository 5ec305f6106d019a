"""When a schedule is due, and with what job: by the calendar, across day-light saving, however it is asked."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hiringhall.core.limits import SECOND_US, Limits
from hiringhall.core.terms import HIGH, LOW, NORMAL
from hiringhall.schedules.plan import Missed, Plan, Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US


def us(written: str) -> int:
    """A time such as 2026-03-29T03:00+02:00."""
    return int(datetime.fromisoformat(written).timestamp()) * SECOND_US


def plan(when: str, zone: str = "UTC") -> Plan:
    """A cron expression, or "every" with a number of seconds."""
    if when.startswith("every "):
        return Plan(name="x", queue="q", every_us=int(when.removeprefix("every ")) * SECOND_US, timezone=zone)
    return Plan(name="x", queue="q", cron=when, timezone=zone)


def due(when: str, zone: str, after: str, count: int) -> list[str]:
    """So many due times after a moment, as the wall clock of the zone shows them."""
    schedule, at_us = plan(when, zone), us(after)
    shown: list[str] = []
    for _ in range(count):
        at_us = schedule.next_due_us(at_us)
        shown.append(datetime.fromtimestamp(at_us // SECOND_US, ZoneInfo(zone)).isoformat())
    return shown


# --- the calendar


@pytest.mark.parametrize(
    ("when", "after", "expected"),
    [
        ("30 3 * * *", "2026-11-16T03:29:59+00:00", ["2026-11-16T03:30:00+00:00", "2026-11-17T03:30:00+00:00"]),
        ("30 3 * * *", "2026-11-16T03:30:00+00:00", ["2026-11-17T03:30:00+00:00", "2026-11-18T03:30:00+00:00"]),
        ("*/15 * * * *", "2026-12-31T23:50+00:00", ["2027-01-01T00:00:00+00:00", "2027-01-01T00:15:00+00:00"]),
        ("0 0 31 * *", "2026-01-31T00:00+00:00", ["2026-03-31T00:00:00+00:00", "2026-05-31T00:00:00+00:00"]),
        ("0 0 L * *", "2028-01-31T00:00+00:00", ["2028-02-29T00:00:00+00:00", "2028-03-31T00:00:00+00:00"]),
        ("0 12 29 2 *", "2026-01-01T00:00+00:00", ["2028-02-29T12:00:00+00:00", "2032-02-29T12:00:00+00:00"]),
        ("0 12 29 2 *", "2096-03-01T00:00+00:00", ["2104-02-29T12:00:00+00:00", "2108-02-29T12:00:00+00:00"]),
        ("0 9 * * MON#1", "2026-11-16T00:00+00:00", ["2026-12-07T09:00:00+00:00", "2027-01-04T09:00:00+00:00"]),
        (
            "*/20 30 8 * * *",
            "2026-11-16T08:30:20+00:00",
            ["2026-11-16T08:30:40+00:00", "2026-11-17T08:30:00+00:00"],
        ),
        ("every 1", "2026-11-16T00:00:00+00:00", ["2026-11-16T00:00:01+00:00", "2026-11-16T00:00:02+00:00"]),
        ("every 900", "2026-11-16T00:14:59+00:00", ["2026-11-16T00:15:00+00:00", "2026-11-16T00:30:00+00:00"]),
        ("every 604800", "2026-11-16T00:00+00:00", ["2026-11-19T00:00:00+00:00", "2026-11-26T00:00:00+00:00"]),
    ],
)
def test_the_next_two_due_times(when: str, after: str, expected: list[str]) -> None:
    assert due(when, "UTC", after, 2) == expected


# --- day-light saving

VIENNA, NEW_YORK = "Europe/Vienna", "America/New_York"


@pytest.mark.parametrize(
    ("when", "zone", "after", "expected"),
    [
        # In spring 02:00 becomes 03:00. What is due at a fixed hour is due once that day all the same.
        (
            "30 2 * * *",
            VIENNA,
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            "30 2 * * *",
            NEW_YORK,
            "2026-03-07T12:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
        ),
        (
            "0,30 2 * * *",
            VIENNA,
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"],
        ),
        (
            "30 3 * * *",
            VIENNA,
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:30:00+02:00", "2026-03-30T03:30:00+02:00"],
        ),
        # What follows the clock leaves out the hour that is left out.
        (
            "0 * * * *",
            VIENNA,
            "2026-03-29T00:30+01:00",
            ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"],
        ),
        (
            "0 * * * *",
            NEW_YORK,
            "2026-03-08T00:30-05:00",
            ["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00"],
        ),
        (
            "*/15 * * * *",
            VIENNA,
            "2026-03-29T01:40+01:00",
            ["2026-03-29T01:45:00+01:00", "2026-03-29T03:00:00+02:00"],
        ),
        (
            "*/15 * * * *",
            NEW_YORK,
            "2026-03-08T01:40-05:00",
            ["2026-03-08T01:45:00-05:00", "2026-03-08T03:00:00-04:00"],
        ),
        (
            "*/30 2 * * *",
            VIENNA,
            "2026-03-28T12:00+01:00",
            ["2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        # In autumn 03:00 becomes 02:00 (New York: 02:00 becomes 01:00). A fixed hour counts the first time.
        (
            "30 2 * * *",
            VIENNA,
            "2026-10-24T12:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "30 2 * * *",
            VIENNA,
            "2026-10-25T02:10+01:00",
            ["2026-10-26T02:30:00+01:00", "2026-10-27T02:30:00+01:00"],
        ),
        (
            "30 1 * * *",
            NEW_YORK,
            "2026-10-31T12:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        # What follows the clock is due in both hours.
        (
            "0 * * * *",
            VIENNA,
            "2026-10-25T01:30+02:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"],
        ),
        (
            "0 * * * *",
            NEW_YORK,
            "2026-11-01T00:30-04:00",
            ["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"],
        ),
        (
            "*/15 * * * *",
            VIENNA,
            "2026-10-25T02:40+02:00",
            ["2026-10-25T02:45:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:15:00+01:00"],
        ),
        (
            "*/15 * * * *",
            NEW_YORK,
            "2026-11-01T01:40-04:00",
            ["2026-11-01T01:45:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:15:00-05:00"],
        ),
        # One day a year, and that one twice.
        (
            "*/30 2 25 10 *",
            VIENNA,
            "2026-10-25T02:10+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00"],
        ),
        # An interval is time that passes, whatever the clocks show.
        (
            "every 3600",
            VIENNA,
            "2026-03-29T01:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"],
        ),
        (
            "every 3600",
            VIENNA,
            "2026-10-25T02:00+02:00",
            ["2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"],
        ),
        (
            "every 3600",
            NEW_YORK,
            "2026-03-08T01:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"],
        ),
        (
            "every 86400",
            VIENNA,
            "2026-10-24T12:00+02:00",
            ["2026-10-25T02:00:00+02:00", "2026-10-26T01:00:00+01:00"],
        ),
        # Half an hour, on Lord Howe: 02:00 becomes 02:30.
        (
            "*/10 3 * * *",
            "Australia/Lord_Howe",
            "2026-10-04T00:00+10:30",
            ["2026-10-04T03:00:00+11:00", "2026-10-04T03:10:00+11:00"],
        ),
    ],
)
def test_day_light_saving(when: str, zone: str, after: str, expected: list[str]) -> None:
    assert due(when, zone, after, len(expected)) == expected


@pytest.mark.parametrize("zone", [VIENNA, NEW_YORK])
def test_a_fixed_hour_is_due_once_on_every_day_of_ten_years(zone: str) -> None:
    start_us = us("2026-01-01T12:00+00:00")
    for minute, hour in ((30, 2), (0, 2), (30, 1), (59, 0)):
        times = plan(f"{minute} {hour} * * *", zone).due_between(start_us, start_us + 3653 * DAY_US)
        days = [datetime.fromtimestamp(at_us // SECOND_US, ZoneInfo(zone)).date() for at_us in times]
        assert days == [days[0] + timedelta(days=count) for count in range(3653)]


@pytest.mark.parametrize("zone", [VIENNA, NEW_YORK, "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 * * * *", "*/7 1-3 * * *", "10 0 */2 * * *"])
def test_what_follows_the_clock_is_due_exactly_when_the_clock_matches(zone: str, cron: str) -> None:
    """Every minute of the weeks in which clocks are changed, looked at one by one."""
    schedule = plan(cron, zone)
    matching = _matching(cron)
    for week in ("2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"):
        start_us = us(f"{week}T00:00:00+00:00")
        until_us = start_us + 3 * DAY_US
        seconds = range(start_us // SECOND_US + 1, until_us // SECOND_US + 1)
        wall = (
            (second, datetime.fromtimestamp(second, ZoneInfo(zone))) for second in seconds if second % 10 == 0
        )
        expected = [second * SECOND_US for second, shown in wall if matching(shown)]
        assert list(schedule.due_between(start_us, until_us)) == expected


def _matching(cron: str) -> Callable[[datetime], bool]:
    return {
        "*/15 * * * *": lambda at: at.minute % 15 == 0 and at.second == 0,
        "0 * * * *": lambda at: at.minute == 0 and at.second == 0,
        "*/7 1-3 * * *": lambda at: at.minute % 7 == 0 and 1 <= at.hour <= 3 and at.second == 0,
        "10 0 */2 * * *": lambda at: at.minute == 0 and at.hour % 2 == 0 and at.second == 10,
    }[cron]


# --- laws


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.lists(number, min_size=1, max_size=3).map(lambda chosen: ",".join(map(str, chosen))),
        st.integers(2, 20).map(lambda step: f"*/{step}"),
        st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}"),
    )


CRONS = st.tuples(fields(0, 59), fields(0, 23), st.just("*"), st.just("*"), fields(0, 6)).map(" ".join)
PLANS = st.builds(
    plan,
    st.one_of(CRONS, CRONS.map(lambda cron: f"*/20 {cron}"), st.integers(1, 10**7).map(lambda s: f"every {s}")),
    st.sampled_from(["UTC", VIENNA, NEW_YORK, "Australia/Lord_Howe", "Asia/Kathmandu", "America/Havana"]),
)
CHANGES = ("2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T07:00", "2026-11-01T06:00", "2026-10-03T15:30")
MOMENTS = st.one_of(
    st.integers(us("2020-01-01T00:00+00:00"), us("2040-01-01T00:00+00:00")),
    st.builds(
        lambda change, off_us: us(f"{change}:00+00:00") + off_us,
        st.sampled_from(CHANGES),
        st.integers(-3 * HOUR_US, 3 * HOUR_US),
    ),
)


@settings(max_examples=300, deadline=None)
@given(PLANS, MOMENTS, st.randoms(use_true_random=False))
@example(plan("30 2 * * *", VIENNA), us("2026-10-25T00:45:00+00:00"), random.Random(1))
def test_due_times_grow_and_none_lies_between_two_that_follow_one_another(
    schedule: Plan, after_us: int, chance: random.Random
) -> None:
    before_us = schedule.next_due_us(after_us)
    assert before_us > after_us
    for _ in range(5):
        next_us = schedule.next_due_us(before_us)
        assert next_us - before_us >= SECOND_US
        between_us = chance.randrange(before_us, next_us)
        assert schedule.next_due_us(between_us) == next_us
        assert schedule.is_due(next_us)
        assert not schedule.is_due(between_us) or between_us == before_us
        before_us = next_us


@settings(max_examples=100, deadline=None)
@given(PLANS, MOMENTS, st.integers(0, 3 * DAY_US), st.integers(1, 30))
def test_the_latest_due_times_are_the_last_of_all(
    schedule: Plan, after_us: int, length_us: int, most: int
) -> None:
    if schedule.every_us:
        length_us = min(length_us, 300 * schedule.every_us)
    everything = list(schedule.due_between(after_us, after_us + length_us))
    assert schedule.latest_due(after_us, after_us + length_us, most) == everything[-most:]


def test_the_latest_of_very_many_are_found_without_looking_at_them_all() -> None:
    until_us = us("2026-11-16T00:00:00+00:00")
    schedule = plan("* * * * * *", VIENNA)
    latest = schedule.latest_due(until_us - 3650 * DAY_US, until_us, 1000)
    assert latest == list(range(until_us - 999 * SECOND_US, until_us + 1, SECOND_US))


# --- what is handed in


def test_the_due_time_is_told_in_the_zone_of_the_schedule() -> None:
    schedule = Plan(
        name="x",
        queue="wörk",
        cron="0 6 * * *",
        timezone=VIENNA,
        key="day-{due:%Y-%m-%d}",
        payload='{"due": "{due}", "year": {due:%Y}, "other": {}}',
        priority="high",
        retries=4,
        quits_max=5,
    )
    due_us = us("2026-07-01T06:00+02:00")
    job = schedule.job(due_us, due_us)
    assert job.queue == "wörk".encode()
    assert job.key == b"day-2026-07-01"
    assert job.payload == b'{"due": "2026-07-01T06:00:00+02:00", "year": 2026, "other": {}}'
    assert (job.terms.durable, job.terms.detached, job.terms.failures_max) == (True, True, 4)
    assert job.terms.quits_max == 5
    assert (job.terms.priority, job.due_us) == (HIGH, due_us)


@pytest.mark.parametrize(("word", "level"), [("high", HIGH), ("normal", NORMAL), ("low", LOW)])
def test_priorities(word: Priority, level: int) -> None:
    assert Plan(name="x", queue="q", every_us=SECOND_US, priority=word).job(0, 0).terms.priority == level


def test_only_another_time_makes_it_another_plan() -> None:
    first = Plan(name="x", queue="q", cron="0 6 * * mon")
    missed: Missed = "all"
    same = Plan(name="y", queue="r", cron="0  6 * * MON", payload="p", key="k", retries=1, missed=missed)
    assert first.digest == same.digest
    others = [plan("0 7 * * MON"), plan("0 6 * * MON", VIENNA), plan("every 60"), plan("every 61")]
    assert len({first.digest, *(other.digest for other in others)}) == 5


# --- what is wrong


def faulty() -> Iterator[tuple[Plan, str, str]]:
    good = {"name": "x", "queue": "q", "cron": "0 6 * * *"}
    for change, field, words in (
        ({"cron": ""}, "cron", "set cron or every"),
        ({"every_us": SECOND_US}, "cron", "remove one of them"),
        ({"cron": "61 * * * *"}, "cron", "is not a cron expression: bad minute"),
        ({"cron": "@daily"}, "cron", "is not a cron expression: wrong number of fields"),
        ({"cron": "0 0 31 2 *"}, "cron", "is not a cron expression: bad day-of-month"),
        ({"cron": "* " * 200}, "cron", "is longer than 200 characters"),
        ({"cron": "9" * 150 + " * * * *"}, "cron", "bad minute"),
        ({"cron": "", "every_us": SECOND_US - 1}, "every", 'must be "1s" or more'),
        ({"timezone": "Mars/Base"}, "timezone", '"Mars/Base" is not a known time zone'),
        ({"timezone": "../../etc/passwd"}, "timezone", "is not a known time zone"),
        ({"timezone": "Europe"}, "timezone", "is not a known time zone"),
        ({"timezone": ""}, "timezone", "is not a known time zone"),
        ({"name": ""}, "name", "1 to 64 printable characters"),
        ({"name": "a\nb"}, "name", "1 to 64 printable characters"),
        ({"name": "n" * 65}, "name", "1 to 64 printable characters"),
        ({"queue": ""}, "queue", "give the queue"),
        ({"queue": "\udcff"}, "queue", "is not UTF-8 text"),
        ({"key": "{due:\0}"}, "key", "is not a date format"),
        ({"key": "{due:%Y%}"}, "key", '"{due:%Y%}" is not a date format'),
        ({"payload": "{due:%Q}"}, "payload", '"{due:%Q}" is not a date format'),
        ({"retries": -1}, "retries", "from 0"),
        ({"quits_max": -1}, "quits_max", "from 0"),
        ({"keep_us": -1}, "keep_us", "from 0"),
        ({"late_us": -1}, "late_s", "0 seconds or more"),
    ):
        yield Plan(**{**good, **change}), field, words


@pytest.mark.parametrize(("wrong", "field", "words"), list(faulty()))
def test_a_fault_names_its_setting_and_says_what_to_do(wrong: Plan, field: str, words: str) -> None:
    ((found, text),) = wrong.faults()
    assert found == field
    assert words in text


def test_a_plan_without_faults_has_none() -> None:
    assert list(plan("*/5 0-3 1,15 * MON-FRI", VIENNA).faults()) == []
    assert list(plan("every 1").faults()) == []


def test_what_a_hall_would_refuse_is_known_before() -> None:
    limits = Limits(queue_name_bytes_max=3, key_bytes_max=25, payload_bytes_max=3)
    fine = Plan(name="x", queue="qqq", every_us=SECOND_US, key="{due}", payload="ppp")
    assert list(fine.excesses(limits)) == []
    long = Plan(name="x", queue="qqqq", every_us=SECOND_US, key="-{due}", payload="pppp")
    assert [field for field, _ in long.excesses(limits)] == ["queue", "key", "payload"]


def test_times_before_1970_and_fractions_of_seconds() -> None:
    assert plan("every 10").next_due_us(-1) == 0
    assert plan("* * * * * *").next_due_us(us("2026-01-01T00:00:00+00:00") + 1) == us(
        "2026-01-01T00:00:01+00:00"
    )
    assert datetime.fromtimestamp(plan("0 0 * * *").next_due_us(0) // SECOND_US, UTC).day == 2


def test_a_plan_has_all_terms_of_its_jobs() -> None:
    plan = Plan(name="n", queue="q", every_us=SECOND_US, timeout_us=5, silence_us=6, losses_max=0, skill=7)
    terms = plan.job(0, 0).terms
    assert (terms.run_us, terms.lease_us, terms.losses_max, terms.skill) == (5, 6, 0, 7)
    assert plan.further_terms() == {"timeout_us": 5, "silence_us": 6, "losses_max": 0, "skill": 7}
    assert list(plan.faults()) == []
    assert Plan(name="n", queue="q", every_us=SECOND_US).further_terms() == {}


def test_a_plan_says_what_limits_its_jobs_and_what_they_need_in_the_words_of_the_core() -> None:
    plan = Plan(
        name="n", queue="q", every_us=SECOND_US, limit_key="k", tenant="t", resources="mem=1024M, cpus=2"
    )
    assert list(plan.faults()) == []
    assert plan.job(0, 0).extras == {"limit_key": b"k", "tenant": b"t", "resources": b"cpus=2 mem=1G"}
    assert plan.further_terms() == {"limit_key": "k", "tenant": "t", "resources": "mem=1024M, cpus=2"}
    assert Plan(name="n", queue="q", every_us=SECOND_US, resources="cpus=0").job(0, 0).extras is None


def test_a_term_out_of_bounds_is_a_fault() -> None:
    plan = Plan(name="n", queue="q", every_us=SECOND_US, timeout_us=-1)
    ((field, problem),) = plan.faults()
    assert (field, problem[:32]) == ("timeout_us", "must be a whole number from 0 to")
    for wrong in ("cpus", "gpus=[0]", "cpus=1 cpus=2", "cpus=-1"):
        ((field, problem),) = Plan(name="n", queue="q", every_us=SECOND_US, resources=wrong).faults()
        assert field == "resources"
        assert not problem.startswith("resources")
