"""Somebody writes settings: right ones are taken in order of precedence, wrong ones are named."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import msgspec
import pytest

from hiringhall.config import template
from hiringhall.config.loading import Flags, Loaded, load
from hiringhall.config.quantities import Address, Age, Size
from hiringhall.config.schema import Config, LimitsSettings
from hiringhall.config.sources import ConfigError
from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman.context import GearmanOptions
from hiringhall.doors.gearman import GearmanDoorSettings
from hiringhall.endpoints import tcp_options
from hiringhall.server import DEFAULT_DOORS, DOOR_SETTINGS
from hiringhall.storage.contract import Retention
from hiringhall.transports.tcp import TcpOptions

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(
    toml: str = "",
    environ: dict[str, str] | None = None,
    doors: tuple[str, ...] = (),
    assignments: tuple[str, ...] = (),
    data: str | None = None,
) -> Loaded:
    Path("hall.toml").write_text(toml, encoding="utf-8")
    flags = Flags(None, doors, assignments, {"--data": (("hall", "data"), data)})
    return load(flags, environ or {}, DOOR_SETTINGS, DEFAULT_DOORS)


def door(config: Config, index: int = 0) -> GearmanDoorSettings:
    settings = config.door[index]
    assert isinstance(settings, GearmanDoorSettings)
    return settings


def problems(toml: str = "", environ: dict[str, str] | None = None, **flags: tuple[str, ...]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(toml, environ, flags.get("doors", ()), flags.get("assignments", ()))
    return caught.value.problems


# --- what is right


def test_without_any_settings_a_gearman_and_a_native_door_are_open_on_loopback() -> None:
    config = read().config
    assert [(settings.dialect, settings.address) for settings in config.door] == [
        ("gearman", "127.0.0.1:4730"),
        ("native", "127.0.0.1:4731"),
    ]
    assert (config.hall.data, config.hall.storage) == ("hall-data", "sqlite")


def test_the_defaults_are_those_of_the_parts() -> None:
    config = read().config
    assert config.limits.limits() == Limits()
    assert config.history.retention() == Retention()
    assert door(config).options() == GearmanOptions()
    assert tcp_options(door(config), 0) == TcpOptions()


def test_every_bound_of_the_core_is_a_setting_of_the_same_name() -> None:
    assert LimitsSettings.__struct_fields__ == tuple(field.name for field in dataclasses.fields(Limits))


def test_every_option_of_a_gearman_door_follows_its_setting() -> None:
    config = read("""
        [[door]]
        dialect = "gearman"
        background = "memory"
        lease_s = 1.5
        losses_max = 0
        quits_max = 6
        retries = 4
        backoff_s = 0.25
        backoff_max_s = 9
        exceptions = true
        round_robin = true
        timeout_unit = "ms"
        timezone = "Europe/Vienna"
        shutdown = false
        handle_prefix = "H:x"
        packet_bytes_max = "1 MiB"
    """).config
    assert door(config).options() == GearmanOptions(
        handle_prefix=b"H:x",
        background_durable=False,
        lease_us=1_500_000,
        losses_max=0,
        quits_max=6,
        failures_max=4,
        backoff_us=250_000,
        backoff_max_us=9_000_000,
        exceptions_by_default=True,
        round_robin=True,
        timeout_unit_us=1000,
        shutdown_allowed=False,
        packet_bytes_max=1 << 20,
        timezone="Europe/Vienna",
    )


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default() -> None:
    toml = '[hall]\nname = "file"\ndata = "file"\n[limits]\njobs_max = 1\nqueues_max = 1'
    environ = {"HALL_DATA": "variable", "HALL_LIMITS_JOBS_MAX": "2", "HALL_LIMITS_ENDED_BYTES_MAX": "3kB"}
    config = read(toml, environ, assignments=("limits.jobs_max=3",), data="flag").config
    assert (config.hall.name, config.hall.data) == ("file", "flag")
    assert (config.limits.jobs_max, config.limits.queues_max, config.limits.ended_bytes_max) == (3, 1, 3000)
    assert read(toml, environ).config.hall.data == "variable"
    assert read(toml).config.hall.data == "file"


def test_doors_on_the_command_line_replace_all_others() -> None:
    toml = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:1"\nlease_s = 5\n[[door]]\ndialect = "gearman"'
    environ = {"HALL_DOOR_0_RETRIES": "7"}
    config = read(toml, environ, doors=("gearman=[::1]:2",)).config
    assert [settings.address for settings in config.door] == ["[::1]:2"]
    assert (door(config).lease_s, door(config).retries) == (0.0, 0)


def test_doors_in_the_environment_replace_those_of_the_file() -> None:
    toml = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:1"'
    environ = {"HALL_DOORS": "gearman=127.0.0.1:2, gearman=[::1]:3", "HALL_DOOR_1_LEASE_S": "2.5"}
    config = read(toml, environ).config
    assert [settings.address for settings in config.door] == ["127.0.0.1:2", "[::1]:3"]
    assert door(config, 1).lease_s == 2.5


def test_a_variable_and_a_flag_reach_the_default_door() -> None:
    config = read("", {"HALL_DOOR_0_ADDRESS": "127.0.0.1:0"}, assignments=("door.0.exceptions=true",)).config
    assert (door(config).address, door(config).exceptions) == ("127.0.0.1:0", True)


def test_the_file_is_found_by_flag_by_variable_or_in_the_working_folder(folder: Path) -> None:
    for name in ("flag", "variable"):
        (folder / f"{name}.toml").write_text(f'[hall]\nname = "{name}"', encoding="utf-8")
    environ = {"HALL_CONFIG": "variable.toml"}
    assert load(Flags(Path("flag.toml")), environ, DOOR_SETTINGS, DEFAULT_DOORS).config.hall.name == "flag"
    assert load(Flags(), environ, DOOR_SETTINGS, DEFAULT_DOORS).config.hall.name == "variable"
    assert load(Flags(), {}, DOOR_SETTINGS, DEFAULT_DOORS).file is None


def test_a_variable_nobody_knows_is_a_warning_because_platforms_make_such() -> None:
    loaded = read("", {"HALL_LIMITS_JOBS_MX": "1", "HALL_PORT_4730_TCP": "tcp://1.2.3.4", "HALL_COMPILE": "0"})
    assert loaded.warnings == [
        "HALL_LIMITS_JOBS_MX: no such setting, ignored; did you mean HALL_LIMITS_JOBS_MAX?",
        "HALL_PORT_4730_TCP: no such setting, ignored",
    ]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("HALL_FOO", ""),
        ("HALL_HISTORY_FOO", ""),
        ("HALL_DOOR_0_FOO", ""),
        ("HALL_STORGE", "HALL_STORAGE"),
        ("HALL_LOGLEVEL", "HALL_LOG_LEVEL"),
        ("HALL_LIMIT_JOBS_MAX", "HALL_LIMITS_JOBS_MAX"),
        ("HALL_DOOR_0_LEASE", "HALL_DOOR_<n>_LEASE_S"),
        ("HALL_DOOR_12_LEESE_S", "HALL_DOOR_<n>_LEASE_S"),
    ],
)
def test_what_all_variables_begin_with_makes_none_of_them_meant(variable: str, meant: str) -> None:
    hint = f"; did you mean {meant}?" if meant else ""
    assert read("", {variable: "1"}).warnings == [f"{variable}: no such setting, ignored{hint}"]


# --- what is wrong

DIALECTS = 'one of "gearman", "dwork", "pingpong", "wmp", "hire", "hire-bus", "beanstalkd", "native"'
REMEDY = (
    "can be reached from other machines: configure tls with verify_client, listen on 127.0.0.1 or [::1], "
    "or set insecure = true if anyone who reaches it may use it"
)
UNZONED = (
    'hall.toml: door[0].timezone: "Mars/Base" is not a known time zone; it takes a name such as Europe/Vienna'
)

FILE_PROBLEMS = [
    ("hall = 5", "hall.toml: hall: must be a table of settings, such as [hall]"),
    ("[hall]\ndata = 5", "hall.toml: hall.data: 5 is not allowed; it takes text that is not empty"),
    (
        '[hall]\nstorage = "disk"',
        'hall.toml: hall.storage: "disk" is not allowed; it takes one of "sqlite", "memory"',
    ),
    (
        '[hall]\nlog_level = "loud"',
        'hall.toml: hall.log_level: "loud" is not allowed; it takes one of "debug", "info", "warning", "error"',
    ),
    (
        "[hall]\ndrain_grace_s = -1",
        "hall.toml: hall.drain_grace_s: -1 is not allowed; it takes a number of seconds from 0 to 86400",
    ),
    (
        "[hall]\ndrain_grace_s = inf",
        "hall.toml: hall.drain_grace_s: inf is not allowed; it takes a number of seconds from 0 to 86400",
    ),
    (
        "[hall]\ndrain_grace_s = nan",
        "hall.toml: hall.drain_grace_s: nan is not allowed; it takes a number of seconds from 0 to 86400",
    ),
    ('[hall]\nname = ""', 'hall.toml: hall.name: "" is not allowed; it takes text of 1 to 64 characters'),
    ("[hal]\nname = 5", "hall.toml: hal: no such setting; did you mean hall?"),
    ('data = "x"', "hall.toml: data: no such setting; did you mean hall.data?"),
    ("[hall]\njobs_max = 5", "hall.toml: hall.jobs_max: no such setting; did you mean limits.jobs_max?"),
    ("[limits]\njobs_mx = 5", "hall.toml: limits.jobs_mx: no such setting; did you mean jobs_max?"),
    ("[limits]\njobs_max = 0", "hall.toml: limits.jobs_max: 0 is not allowed; it takes a whole number from 1"),
    (
        "[limits]\njobs_max = 1.5",
        "hall.toml: limits.jobs_max: 1.5 is not allowed; it takes a whole number from 1",
    ),
    (
        "[limits]\njobs_max = true",
        "hall.toml: limits.jobs_max: true is not allowed; it takes a whole number from 1",
    ),
    (
        '[limits]\njobs_max = "5"',
        'hall.toml: limits.jobs_max: "5" is not allowed; it takes a whole number from 1',
    ),
    (
        "[limits]\nwake_us = 0",
        "hall.toml: limits.wake_us: 0 is not allowed; it takes a whole number of microseconds from 1",
    ),
    (
        "[limits]\nkey_bytes_max = 0",
        f"hall.toml: limits.key_bytes_max: 0 is not allowed; it takes {Size.allowed}",
    ),
    (
        '[limits]\npayload_bytes_max = "64 apples"',
        f'hall.toml: limits.payload_bytes_max: "64 apples" is not allowed; it takes {Size.allowed}',
    ),
    ('[history]\nage = "soon"', f'hall.toml: history.age: "soon" is not allowed; it takes {Age.allowed}'),
    ("[history]\nage = 0", f"hall.toml: history.age: 0 is not allowed; it takes {Age.allowed}"),
    ("[history.age]\ndays = 7", f'hall.toml: history.age: "a table" is not allowed; it takes {Age.allowed}'),
    ("[door]\nlease_s = 5", "hall.toml: door: write each door as a separate table headed [[door]]"),
    ("door = 5", "hall.toml: door: write each door as a separate table headed [[door]]"),
    ("door = []", "hall.toml: door: write each door as a separate table headed [[door]]"),
    (
        "[[door]]",
        "hall.toml: door[0].dialect: is missing; it takes " + DIALECTS,
    ),
    (
        "[[door]]\nlease_s = 5",
        "hall.toml: door[0].dialect: is missing; it takes " + DIALECTS,
    ),
    (
        '[[door]]\ndialect = "german"',
        f'hall.toml: door[0].dialect: "german" is not allowed; it takes {DIALECTS}; did you mean gearman?',
    ),
    (
        '[[door]]\ndialect = "gearman"\nleese_s = 5',
        "hall.toml: door[0].leese_s: no such setting; did you mean lease_s?",
    ),
    (
        '[[door]]\ndialect = "gearman"\nlease_s = "soon"',
        'hall.toml: door[0].lease_s: "soon" is not allowed; it takes a number of seconds from 0 to 31536000',
    ),
    (
        '[[door]]\ndialect = "gearman"\nexceptions = "yes"',
        'hall.toml: door[0].exceptions: "yes" is not allowed; it takes true or false',
    ),
    (
        '[[door]]\ndialect = "gearman"\ntimezone = "Mars/Base"',
        UNZONED,
    ),
    (
        '[[door]]\ndialect = "gearman"\nhandle_prefix = "a b"',
        "hall.toml: door[0].handle_prefix: takes printable ASCII characters without blanks",
    ),
    (
        '[[door]]\ndialect = "gearman"\noutput_soft_bytes = 5\noutput_hard_bytes = 4',
        "hall.toml: door[0].output_hard_bytes: must be at least output_soft_bytes, which is 5",
    ),
    (
        '[[door]]\ndialect = "gearman"\naddress = "0.0.0.0:4730"',
        f"hall.toml: door[0].address: 0.0.0.0:4730 {REMEDY}",
    ),
    (
        '[[door]]\ndialect = "gearman"\n[door.tls]\ncertificate = "c"\nkey = "k"',
        (
            "hall.toml: door[0].tls.ca: is required to verify clients; "
            "give a PEM file, or set verify_client = false"
        ),
    ),
    (
        '[[door]]\ndialect = "gearman"\n[door.tls]\nkey = "k"\nca = "a"',
        "hall.toml: door[0].tls.certificate: is missing; it takes text that is not empty",
    ),
    (
        '[[door]]\ndialect = "gearman"\ntls = "on"',
        "hall.toml: door[0].tls: must be a table of settings, such as [door[0].tls]",
    ),
    (
        '[[door]]\ndialect = "gearman"\n[[door]]\ndialect = "gearman"',
        "hall.toml: door[1].address: 127.0.0.1:4730 is used by door[0]",
    ),
]


@pytest.mark.parametrize(("toml", "problem"), FILE_PROBLEMS)
def test_a_wrong_setting_in_the_file_is_named_with_what_is_allowed(toml: str, problem: str) -> None:
    assert problems(toml) == [problem]


def test_all_problems_are_told_at_once() -> None:
    assert len(problems("[hall]\nnme = 1\ndata = 5\n[limits]\njobs_max = 0\n[[door]]\ndialect = 3")) == 4


def test_a_variable_or_a_flag_that_is_wrong_is_named_itself() -> None:
    assert problems("", {"HALL_LIMITS_JOBS_MAX": "many"}) == [
        'HALL_LIMITS_JOBS_MAX: limits.jobs_max: "many" is not allowed; it takes a whole number from 1'
    ]
    assert problems(assignments=("limits.jobs_mx=5",)) == [
        "--set: limits.jobs_mx: no such setting; did you mean jobs_max?"
    ]
    assert problems(assignments=("jobs",)) == [
        '--set: "jobs" is not a setting; write it as in limits.jobs_max=5'
    ]
    assert problems(doors=("4730",)) == ['--door: "4730" is not a door; write it as in gearman=127.0.0.1:4730']
    assert problems(doors=("gearman=4730",)) == [
        f'--door: door[0].address: "4730" is not allowed; it takes {Address.allowed}'
    ]
    assert problems("", {"HALL_DOOR_3_LEASE_S": "1"}) == [
        "HALL_DOOR_3_LEASE_S: door[3]: no such door; there are 2, counted from 0"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[hall\n", "hall.toml: is not valid TOML: "),
        (b"\xff\xfe", "hall.toml: is not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes, problem: str) -> None:
    Path("hall.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(Flags(), {}, DOOR_SETTINGS, DEFAULT_DOORS)
    assert caught.value.problems[0].startswith(problem)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^nowhere\.toml: cannot be read: No such file or directory$"):
        load(Flags(Path("nowhere.toml")), {}, DOOR_SETTINGS, DEFAULT_DOORS)


@pytest.mark.parametrize(
    ("settings", "fine"),
    [
        ({"address": "127.0.0.1:0"}, True),
        ({"address": "127.8.8.8:0"}, True),
        ({"address": "[::1]:0"}, True),
        ({"address": "localhost:0"}, True),
        ({"address": "192.0.2.2:0"}, False),
        ({"address": "[::]:0"}, False),
        ({"address": "example.org:0"}, False),
        ({"address": "192.0.2.2:0", "insecure": "true"}, True),
        ({"address": "192.0.2.2:0", "tls.certificate": "c", "tls.key": "k", "tls.ca": "a"}, True),
        (
            {"address": "192.0.2.2:0", "tls.certificate": "c", "tls.key": "k", "tls.verify_client": "false"},
            False,
        ),
    ],
)
def test_a_door_that_others_reach_needs_verified_tls_or_the_word(settings: dict[str, str], fine: bool) -> None:
    assignments = tuple(f"door[0].{key}={value}" for key, value in settings.items())
    if fine:
        assert read(assignments=assignments).config.door[0].address == settings["address"]
    else:
        assert "can be reached from other machines" in problems(assignments=assignments)[0]


# --- quantities


@pytest.mark.parametrize(
    ("written", "microseconds", "text"),
    [
        (7, 604_800_000_000, '"7d"'),
        (0.5, 43_200_000_000, '"12h"'),
        ("7d", 604_800_000_000, '"7d"'),
        ("2 w", 1_209_600_000_000, '"14d"'),
        ("12H", 43_200_000_000, '"12h"'),
        ("30m", 1_800_000_000, '"30m"'),
        ("1.5s", 1_500_000, '"1.5s"'),
        ("7", 604_800_000_000, '"7d"'),
    ],
)
def test_an_age_is_days_or_has_a_unit(written: object, microseconds: int, text: str) -> None:
    assert (Age.parse(written), Age.parse(written).text) == (microseconds, text)


@pytest.mark.parametrize(
    ("written", "size", "text"),
    [
        (1, 1, "1"),
        ("5", 5, "5"),
        ("64 MiB", 64 << 20, '"64MiB"'),
        ("1.5kb", 1500, "1500"),
        ("2GiB", 2 << 30, '"2GiB"'),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(written: object, size: int, text: str) -> None:
    assert (Size.parse(written), Size.parse(written).text) == (size, text)


@pytest.mark.parametrize(
    "written",
    [
        "",
        ":4730",
        "4730",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "::1:4730",
        "[::x]:1",
        "a b:1",
        5,
    ],
)
def test_an_address_has_a_host_and_a_port(written: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (its text is not for people)
        Address.parse(written)


# --- what is printed and documented


def test_the_printed_file_is_complete_and_says_what_the_defaults_say() -> None:
    printed = template.annotated(DOOR_SETTINGS, ["gearman", "native"])
    stated, default = (msgspec.structs.replace(read(text).config, origins={}) for text in (printed, ""))
    assert stated == default
    tables = tomllib.loads(printed)
    assert set(tables["door"][0]) == set(GearmanDoorSettings.__struct_fields__) - {"tls"}
    assert set(tables["limits"]) == set(LimitsSettings.__struct_fields__)


@pytest.mark.parametrize("row", list(template.rows(DOOR_SETTINGS)))
def test_every_setting_is_documented(row: str) -> None:
    documented = DOCUMENTATION.read_text(encoding="utf-8").splitlines()
    assert row in documented, f"docs/configuration.md needs this row:\n{row}"
