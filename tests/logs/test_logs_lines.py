"""How a record becomes a line."""

from __future__ import annotations

import json
import logging

import pytest

from hiringhall.logs.lines import (
    EVENT_ATTRIBUTE,
    FIELDS_ATTRIBUTE,
    VALUE_CHARACTERS_MAX,
    JsonFormatter,
    TextFormatter,
    shown,
)


def record(text: str, fields: dict[str, str | bytes] | None = None, event: str = "") -> logging.LogRecord:
    made = logging.LogRecord("hiringhall", logging.WARNING, "", 0, text, None, None)
    made.created = 1_767_225_600.25
    made.__dict__[EVENT_ATTRIBUTE] = event
    made.__dict__[FIELDS_ATTRIBUTE] = fields or {}
    return made


def test_a_line_of_text_begins_with_the_time_in_utc_and_ends_with_its_values() -> None:
    line = TextFormatter().format(
        record("bad input: no magic", {"door": "gearman@[::1]:4730", "queue": b"rev"})
    )
    assert line == "2026-01-01T00:00:00.250Z WARNING bad input: no magic door=gearman@[::1]:4730 queue=rev"


def test_a_value_with_blanks_is_quoted() -> None:
    assert TextFormatter().format(record("x", {"key": b'a "b" c'})).endswith(r'x key="a \"b\" c"')


def test_a_line_of_json_has_the_same_values() -> None:
    line = JsonFormatter().format(record("lost worker: gone", {"peer": "127.0.0.1:5"}, "lost_worker"))
    assert json.loads(line) == {
        "time": "2026-01-01T00:00:00.250Z",
        "level": "warning",
        "event": "lost_worker",
        "message": "lost worker: gone",
        "peer": "127.0.0.1:5",
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"plain", "plain"),
        ("zwölf".encode(), "zwölf"),
        (b"\x1b[31mred\n", r"\x1b[31mred\n"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202eright to left", r"\u202eright to left"),
        ("a\u2028b", r"a\u2028b"),
    ],
)
def test_what_is_not_printable_is_escaped(value: str | bytes, expected: str) -> None:
    assert shown(value) == expected


@pytest.mark.parametrize("value", [b"x" * 1_000_000, "x" * 1_000_000, b"x" * (VALUE_CHARACTERS_MAX + 1)])
def test_a_long_value_is_cut(value: str | bytes) -> None:
    assert shown(value) == "x" * VALUE_CHARACTERS_MAX + "..."


def test_a_value_of_the_longest_length_is_not_cut() -> None:
    assert shown(b"x" * VALUE_CHARACTERS_MAX) == "x" * VALUE_CHARACTERS_MAX


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_message_that_quotes_line_ends_stays_one_line(formatter: logging.Formatter) -> None:
    line = formatter.format(record("bad input: GET /\r\n2026-01-01 CRITICAL forged", {"queue": b"a\nb"}))
    assert "\n" not in line
    assert "\r" not in line


def test_a_traceback_follows_its_line_indented() -> None:
    made = record("it broke")
    try:
        raise ValueError("the\x1b reason")
    except ValueError as error:
        made.exc_info = (type(error), error, error.__traceback__)
    first, *rest = TextFormatter().format(made).split("\n")
    assert first.endswith("it broke")
    assert rest[-1] == r"    ValueError: the\x1b reason"
    assert json.loads(JsonFormatter().format(made))["traceback"][-1] == r"ValueError: the\x1b reason"
