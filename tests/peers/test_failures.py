"""What a function raised, in words."""

from __future__ import annotations

import logging

import pytest

from hiringhall.peers.failures import TRACE_CHARS_MAX, describe, log_failure, report
from hiringhall.peers.gearman import JobFailed as GearmanFailed
from hiringhall.peers.gearman_draft import JobFailed as DraftFailed


class Mute(Exception):
    """It cannot say what happened."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError("by hand"), "ZeroDivisionError: by hand"),
        (
            ValueError("Zo\N{LATIN SMALL LETTER E WITH DIAERESIS}"),
            "ValueError: Zo\N{LATIN SMALL LETTER E WITH DIAERESIS}",
        ),
        (ValueError("no such user: \ud800"), "ValueError: no such user: \\ud800"),
        (Mute(), "Mute: (its message cannot be shown)"),
    ],
)
def test_every_exception_has_words_that_can_be_sent(error: Exception, words: str) -> None:
    assert describe(error) == words
    assert describe(error).encode().decode() == words


def test_a_log_that_cannot_take_it_is_no_failure_of_ours() -> None:
    class Narrow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())
            raise UnicodeError("not in this file")

    heard: list[str] = []
    log = logging.getLogger("narrow")
    narrow = Narrow()
    log.addHandler(narrow)
    try:
        log_failure(log, "task \udcff", ValueError("\ud800"))
    finally:
        log.removeHandler(narrow)
    assert heard == ["task \\udcff failed\nValueError: \\ud800"]


def fall(depth: int) -> None:
    if depth:
        fall(depth - 1)
    raise ValueError("at the bottom")


def caught(depth: int = 0) -> ValueError:
    try:
        fall(depth)
    except ValueError as error:
        return error
    raise AssertionError


def test_a_report_says_what_happened_and_then_where() -> None:
    said, _, trace = report(caught()).partition("\n")
    assert said == "ValueError: at the bottom"
    assert ", in fall\n" in trace
    assert trace.endswith("ValueError: at the bottom")


def test_a_report_is_bounded_and_keeps_the_end_of_the_traceback() -> None:
    error = ValueError("first")
    for _ in range(200):
        link = caught()
        link.__cause__ = error
        error = link
    said, _, trace = report(error).partition("\n")
    assert len(trace) == TRACE_CHARS_MAX
    assert trace.endswith(said)


@pytest.mark.parametrize(
    "failed",
    [GearmanFailed(b"ValueError: no\nTraceback"), DraftFailed("f", 1, b"ValueError: no\nTraceback")],
    ids=["gearman", "draft"],
)
def test_who_waited_sees_the_traceback_below_the_message(failed: Exception) -> None:
    assert str(failed).endswith("ValueError: no")
    assert failed.__notes__ == ["Traceback"]
