"""Somebody writes [[schedule]] and [[history.queue]] tables: right ones are taken, wrong ones are named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from hiringhall.config import template
from hiringhall.config.loading import Flags, load
from hiringhall.config.quantities import DAY_US, Age, Interval, Size
from hiringhall.config.schedules import ScheduleSettings
from hiringhall.config.schema import Config, QueueHistorySettings
from hiringhall.config.sources import ConfigError
from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.plan import Plan
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS
from hiringhall.storage.contract import QueueRetention, Retention


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(toml: str = "", environ: dict[str, str] | None = None, assignments: tuple[str, ...] = ()) -> Config:
    Path("hall.toml").write_text(toml, encoding="utf-8")
    return load(Flags(None, (), assignments), environ or {}, DOOR_SETTINGS, DEFAULT_DOORS).config


def problems(toml: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(toml, environ)
    return caught.value.problems


USAGE = "write minute hour day month weekday, as in 30 3 * * MON"
ZONES = "it takes a name such as Europe/Vienna"
GOOD = '[[schedule]]\nname = "x"\nqueue = "q"\n'
FULL = """
    [[schedule]]
    name = "first"
    queue = "q"
    cron = "30 3 * * MON"
    timezone = "Europe/Vienna"
    payload = "p {due}"
    key = "k {due:%Y}"
    priority = "low"
    retries = 3
    quits_max = 7
    limit_key = "post"
    tenant = "acme"
    resources = "cpus=2"
    missed = "skip"
    late_s = 1.5

    [[schedule]]
    name = "second"
    queue = "r"
    every = "90s"
"""


# --- schedules


def test_a_schedule_has_the_plan_that_was_written() -> None:
    first, second = read(FULL).schedule
    assert first.plan() == Plan(
        name="first",
        queue="q",
        cron="30 3 * * MON",
        timezone="Europe/Vienna",
        payload="p {due}",
        key="k {due:%Y}",
        priority="low",
        retries=3,
        quits_max=7,
        limit_key="post",
        tenant="acme",
        resources="cpus=2",
        missed="skip",
        late_us=1_500_000,
    )
    assert second.plan() == Plan(name="second", queue="r", every_us=90 * SECOND_US)
    assert read().schedule == ()


def test_variables_and_flags_reach_a_schedule_and_may_make_one() -> None:
    environ = {"HALL_SCHEDULE_1_EVERY": "2h", "HALL_SCHEDULE_0_CRON": "0 4 * * *"}
    first, second = read(FULL, environ, ("schedule[1].queue=s",)).schedule
    assert first.cron == "0 4 * * *"
    assert (second.every, second.queue) == (7200 * SECOND_US, "s")
    made = {"HALL_SCHEDULE_0_NAME": "n", "HALL_SCHEDULE_0_QUEUE": "q", "HALL_SCHEDULE_0_EVERY": "1s"}
    assert [schedule.name for schedule in read("", made).schedule] == ["n"]


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (GOOD, "hall.toml: schedule[0].cron: is missing; set cron or every"),
        (
            GOOD + 'cron = "* * * * *"\nevery = "1s"',
            "hall.toml: schedule[0].cron: and every are both set: remove one of them",
        ),
        (
            GOOD + 'cron = "* * *"',
            f'hall.toml: schedule[0].cron: "* * *" is not a cron expression: wrong number of fields; {USAGE}',
        ),
        *(
            (
                f"{GOOD}every = {written}",
                f"hall.toml: schedule[0].every: {written} is not allowed; it takes {Interval.allowed}",
            )
            for written in ("60", '"60"', '"0.5s"', '"soon"', '"-1s"', '""')
        ),
        (
            GOOD + 'every = "1s"\ntimezone = "Mars/Base"',
            f'hall.toml: schedule[0].timezone: "Mars/Base" is not a known time zone; {ZONES}',
        ),
        (
            GOOD + 'every = "1s"\nkey = "{due:%Q}"',
            'hall.toml: schedule[0].key: "{due:%Q}" is not a date format; write it as in {due:%Y-%m-%d}',
        ),
        (
            GOOD + 'every = "1s"\nresources = "cpus"',
            "hall.toml: schedule[0].resources: 'cpus' must be NAME=AMOUNT, such as cpus=2 or mem=32G",
        ),
        (
            GOOD + 'every = "1s"\nmissed = "some"',
            'hall.toml: schedule[0].missed: "some" is not allowed; it takes one of "latest", "all", "skip"',
        ),
        (
            GOOD + 'every = "1s"\nevry = "1s"',
            "hall.toml: schedule[0].evry: no such setting; did you mean every?",
        ),
        (
            '[[schedule]]\nname = "x"\nevery = "1s"',
            "hall.toml: schedule[0].queue: is missing; it takes text that is not empty",
        ),
        (
            (GOOD + 'every = "1s"\n') * 2,
            'hall.toml: schedule[1].name: "x" is used by schedule[0]',
        ),
        (
            f'[[schedule]]\nname = "x"\nqueue = "{"q" * 513}"\nevery = "1s"',
            (
                "hall.toml: schedule[0].queue: "
                "is too long: at most 512 bytes are allowed (limits.queue_name_bytes_max)"
            ),
        ),
        (
            '[schedule]\nname = "x"',
            "hall.toml: schedule: write each schedule as a separate table headed [[schedule]]",
        ),
        ("schedule = 5", "hall.toml: schedule: write each schedule as a separate table headed [[schedule]]"),
        ("[[shedule]]", "hall.toml: shedule: no such setting; did you mean schedule?"),
    ],
)
def test_a_wrong_schedule_is_named_with_what_is_allowed(toml: str, problem: str) -> None:
    assert problems(toml) == [problem]


def test_a_variable_of_a_schedule_that_is_not_there_is_named() -> None:
    assert problems(FULL, {"HALL_SCHEDULE_7_CRON": "* * * * *"}) == [
        "HALL_SCHEDULE_7_CRON: schedule[7]: no such schedule; there are 2, counted from 0"
    ]


@pytest.mark.parametrize(
    ("written", "interval_us", "text"),
    [
        ("1s", SECOND_US, '"1s"'),
        ("1.5 s", 1_500_000, '"1.5s"'),
        ("15m", 900 * SECOND_US, '"15m"'),
        ("2w", 14 * DAY_US, '"14d"'),
    ],
)
def test_an_interval_has_a_unit(written: str, interval_us: int, text: str) -> None:
    assert (Interval.parse(written), Interval.parse(written).text) == (interval_us, text)


# --- a queue's own history


def test_a_queue_has_rules_of_its_own_and_the_rest_is_as_for_all() -> None:
    config = read("""
        [history]
        age = "30d"
        rows_max = 500
        bytes_max = "2GiB"

        [[history.queue]]
        name = "mail"
        age = "1d"
        bytes_max = "1MiB"

        [[history.queue]]
        name = "captcha"
        dead_age = "2d"
        rows_max = 10
    """)
    assert config.history.retention() == Retention(
        age_us=30 * DAY_US,
        rows_max=500,
        bytes_max=2 << 30,
        queues={
            b"mail": QueueRetention(DAY_US, 90 * DAY_US, 500, 1 << 20),
            b"captcha": QueueRetention(30 * DAY_US, 2 * DAY_US, 10, 2 << 30),
        },
    )


def test_a_variable_reaches_the_history_of_a_queue() -> None:
    toml = '[[history.queue]]\nname = "mail"\nage = "1d"'
    environ = {"HALL_HISTORY_QUEUE_0_AGE": "2d", "HALL_HISTORY_BYTES_MAX": "1GiB"}
    config = read(toml, environ, ("history.queue[0].rows_max=7",))
    assert config.history.queue == (QueueHistorySettings(name="mail", age=Age(2 * DAY_US), rows_max=7),)
    assert config.history.bytes_max == 1 << 30


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (
            "[[history.queue]]\nage = 1",
            "hall.toml: history.queue[0].name: is missing; it takes text that is not empty",
        ),
        (
            '[[history.queue]]\nname = "a"\nage = "soon"',
            f'hall.toml: history.queue[0].age: "soon" is not allowed; it takes {Age.allowed}',
        ),
        (
            '[[history.queue]]\nname = "a"\nrows_max = 0',
            "hall.toml: history.queue[0].rows_max: 0 is not allowed; it takes a whole number from 1",
        ),
        (
            '[[history.queue]]\nname = "a"\n[[history.queue]]\nname = "a"',
            'hall.toml: history.queue[1].name: "a" is used by history.queue[0]',
        ),
        (
            '[history]\nqueue = "mail"',
            "hall.toml: history.queue: write each queue as a separate table headed [[history.queue]]",
        ),
        (
            "[history]\nbytes_max = 0",
            f"hall.toml: history.bytes_max: 0 is not allowed; it takes {Size.allowed}",
        ),
    ],
)
def test_a_wrong_history_is_named_with_what_is_allowed(toml: str, problem: str) -> None:
    assert problems(toml) == [problem]


# --- what is printed


def test_the_printed_tables_are_complete_and_can_be_taken_into_use() -> None:
    printed = template.annotated(DOOR_SETTINGS, ["gearman", "native"])
    assert msgspec.structs.replace(read(printed), origins={}) == msgspec.structs.replace(read(), origins={})
    _, _, block = printed.partition("# Remove one # from each of these lines for a schedule.\n")
    block = re.sub("^# ?", "", re.split("\n# (?:A door|Remove one #)", block)[0], flags=re.MULTILINE)
    written = tomllib.loads(block)["schedule"][0]
    assert {*written, "every"} == set(ScheduleSettings.__struct_fields__)
    assert "\n# every =\n" in block
    toml = block.replace('name = ""', 'name = "x"').replace('queue = ""', 'queue = "q"')
    assert read(toml.replace('cron = ""', 'cron = "0 6 * * *"')).schedule == (
        ScheduleSettings(name="x", queue="q", cron="0 6 * * *"),
    )
    _, _, block = printed.partition("# [[history.queue]]\n")
    settings = re.findall(r"^# (?:# )?(\w+) =", block.partition("\n\n")[0], re.MULTILINE)
    assert tuple(settings) == QueueHistorySettings.__struct_fields__
