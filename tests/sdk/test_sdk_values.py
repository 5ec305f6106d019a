"""Options, failures, addresses and names: values that need no hall."""

from __future__ import annotations

import copy
import datetime as dt
import json
from functools import partial
from typing import Any

import msgspec
import pytest

from hiringhall import Hall, JobCancelled, JobFailed, JobTimeout
from hiringhall.sdk.addresses import Address, read_addresses
from hiringhall.sdk.failures import (
    TEXT_CHARACTERS_MAX,
    TRACEBACK_CHARACTERS_MAX,
    decode_failure,
    encode_failure,
)
from hiringhall.sdk.options import Options

HALL = Hall("hall://127.0.0.1:1")


def test_every_option_becomes_a_term() -> None:
    options = Options().change(
        {
            "retries": 3,
            "backoff": 0.5,
            "backoff_max": dt.timedelta(minutes=1),
            "timeout": 60,
            "priority": "high",
            "expires": 5,
            "skill": 2,
            "takes": 1,
            "keep": dt.timedelta(hours=1),
            "durable": False,
            "silence": 30,
            "losses_max": 0,
            "on_parent_failure": "run",
        }
    )
    assert msgspec.msgpack.decode(options.terms) == {
        "retries": 3,
        "backoff_us": 500_000,
        "backoff_max_us": 60_000_000,
        "timeout_us": 60_000_000,
        "priority": "high",
        "expire_us": 5_000_000,
        "skill": 2,
        "takes_us": 1_000_000,
        "keep_us": 3_600_000_000,
        "durable": False,
        "silence_us": 30_000_000,
        "losses_max": 0,
        "on_parent_failure": "run",
    }
    assert msgspec.msgpack.decode(Options().terms) == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"retries": -1}, "retries must be a whole number from 0 to 1000000, not -1"),
        ({"retries": True}, "retries must be a whole number"),
        ({"timeout": "60"}, "timeout must be a time in seconds"),
        ({"timeout": float("nan")}, "timeout must be a time in seconds"),
        ({"timeout": -1}, "timeout must be a time in seconds"),
        ({"delay": 1, "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, "give delay or at, not both"),
        ({"at": "tomorrow"}, "at must be a datetime"),
        ({"keep": 0}, "keep must be longer than 0 seconds; without it, the rules of the hall decide"),
        ({"keep": "1h"}, "keep must be a time in seconds"),
        ({"key": ""}, "key must be a text that is not empty"),
        ({"priority": "urgent"}, "priority must be one of high, normal, low"),
        ({"on_parent_failure": "weep"}, "on_parent_failure must be one of"),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_written(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Options().change(changes)


@pytest.mark.parametrize(
    ("name", "complaint"), [("name", "give it to @hall.job"), ("colour", "'colour' is not an option of a call")]
)
def test_an_option_that_does_not_belong_here(name: str, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        HALL.function("f").options(**{name: "x"})  # type: ignore[misc]


def test_options_leave_the_function_as_it_is() -> None:
    function = HALL.function("f", retries=1)
    other = function.options(retries=2).options(priority="low")
    assert (function.settings.retries, other.settings.retries, other.settings.priority) == (1, 2, "low")


# --- failures


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


def recursion() -> None:
    recursion()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("no"), "ValueError", "no"),
        (json.JSONDecodeError("bad", "x", 0), "json.decoder.JSONDecodeError", "bad: line 1 column 1 (char 0)"),
        (ValueError("lone \ud800"), "ValueError", "lone \\ud800"),
        (Unprintable(), "test_sdk_values.Unprintable", "its text cannot be made: RuntimeError"),
        (ValueError("x" * 100_000), "ValueError", "x" * TEXT_CHARACTERS_MAX),
        (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ExceptionGroup", "two (2 sub-exceptions)"),
        (SystemExit(3), "SystemExit", "3"),
    ],
)
def test_every_exception_travels(error: BaseException, kind: str, text: str) -> None:
    failure = decode_failure(7, "q", 1, encode_failure(raised(error)))
    assert (failure.job_id, failure.queue, failure.code, failure.type, failure.text) == (7, "q", 1, kind, text)
    assert len(failure.traceback) <= TRACEBACK_CHARACTERS_MAX
    assert failure.traceback
    same = copy.copy(failure)
    assert (same.args, same.__notes__) == (failure.args, failure.__notes__)


def test_a_recursion_travels() -> None:
    with pytest.raises(RecursionError) as caught:
        recursion()
    failure = decode_failure(7, "q", 1, encode_failure(caught.value))
    assert failure.type == "RecursionError"
    assert len(failure.traceback) < 10_000


def test_frames_of_the_worker_are_left_out() -> None:
    error = raised(ValueError("no"))
    assert "in raised" in decode_failure(1, "", 1, encode_failure(error)).traceback
    assert "in raised" not in decode_failure(1, "", 1, encode_failure(error, skipped_frames=1)).traceback


@pytest.mark.parametrize(
    ("code", "data", "kind", "text"),
    [
        (1, b"plain text", JobFailed, "failed (code 1): plain text"),
        (1, b"\xff", JobFailed, "failed (code 1): \ufffd"),
        (9, b"", JobFailed, "failed (code 9): the worker gave no reason"),
        (9, b"[1]", JobFailed, "failed (code 9): [1]"),
        (124, b"", JobTimeout, "failed (code 124): it took longer than its timeout"),
        (125, b"signal 6", JobFailed, "failed (code 125): too many of its workers were lost: signal 6"),
        (126, b"", JobFailed, "failed (code 126): a job that it depends on failed"),
        (
            130,
            b"enough",
            JobCancelled,
            "was cancelled (code 130): it was cancelled, or has expired: enough",
        ),
    ],
)
def test_failures_of_foreign_workers_and_of_the_hall(code: int, data: bytes, kind: type, text: str) -> None:
    failure = decode_failure(7, "q", code, data)
    assert (type(failure), str(failure)) == (kind, f"job 7 (q) {text}")


# --- addresses


def test_addresses() -> None:
    assert read_addresses("hall://host") == [Address("hall://host", "host", 4731)]
    assert read_addresses("halls://[::1]:5, hall+unix:///var/run/native.sock") == [
        Address("halls://[::1]:5", "::1", 5, tls=True),
        Address("hall+unix:///var/run/native.sock", path="/var/run/native.sock"),
    ]


def test_the_default_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALL_URL", raising=False)
    assert [str(address) for address in read_addresses(None)] == ["hall://127.0.0.1:4731"]
    monkeypatch.setenv("HALL_URL", "hall://other:1")
    assert read_addresses(None)[0].host == "other"


@pytest.mark.parametrize(
    "url",
    ["", ",", "host", "host:4731", "http://host", "hall://", "hall://host:x", "hall://host:99999", "hall+unix://",
     "hall+unix://host/path", "hall://host/path", "hall://host?x=1"],
)  # fmt: skip
def test_a_wrong_address_says_how_to_write_one(url: str) -> None:
    with pytest.raises(ValueError, match="write hall://HOST:PORT, halls://HOST:PORT for TLS, or hall"):
        read_addresses(url)


# --- names


def test_the_name_of_a_function_is_its_queue() -> None:
    @HALL.job
    def inner() -> None: ...

    @HALL.job(name="chosen")
    def named() -> None: ...

    assert inner.queue == "test_sdk_values.test_the_name_of_a_function_is_its_queue.inner"
    assert named.queue == "chosen"


def test_what_has_no_name_needs_one() -> None:
    hall = Hall()
    with pytest.raises(TypeError, match=r"has no name of its own.*name="):
        hall.job(partial(pow, 2))
    assert hall.job(name="power")(partial(pow, 2))(3) == 8


def test_a_method_is_refused_where_it_is_written() -> None:
    hall = Hall()
    # Python 3.11 raises a RuntimeError from it.
    with pytest.raises((TypeError, RuntimeError)) as caught:

        class Mailer:
            @hall.job
            def send(self, text: str) -> str:
                return text

    error = caught.value if isinstance(caught.value, TypeError) else caught.value.__cause__
    assert "is a method" in str(error)

    class Printer:
        @staticmethod
        @hall.job
        def show(text: str) -> str:
            return text

    assert Printer().show("a") == "a"
