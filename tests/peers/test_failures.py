"""What a function raised, in words."""

from __future__ import annotations

import logging

import pytest

from hiringhall.peers.failures import describe, log_failure


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
        (Mute(), "Mute: (it cannot say what happened)"),
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
