"""Envelopes and bodies, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hiringhall.core import errors
from hiringhall.dialects.pingpong import wire

ID = b"\x00k\x8bEg"


def test_the_words_of_the_protocol() -> None:
    assert (wire.READY, wire.PING, wire.PONG) == (b"READY", b"PING", b"PONG")


@pytest.mark.parametrize(
    ("envelope", "taken"),
    [
        ([ID, b""], True),
        ([ID], False),
        ([], False),
        ([ID, b"x"], False),
        ([ID, b"", b""], False),
        ([ID, b"x", b""], False),
    ],
)
def test_a_workers_envelope(envelope: list[bytes], taken: bool) -> None:
    assert wire.worker_route(list(envelope)) == (envelope if taken else None)


@pytest.mark.parametrize(
    ("envelope", "taken"),
    [
        ([ID, b""], True),
        ([ID, b"request-7", b""], True),
        ([ID, b"", b""], True),
        ([ID, *[b"x"] * 6, b""], True),
        ([ID, *[b"x"] * 7, b""], False),
        ([ID], False),
        ([], False),
        ([ID, b"x"], False),
        ([ID, b"", b"first half"], False),
    ],
)
def test_a_clients_envelope(envelope: list[bytes], taken: bool) -> None:
    assert wire.client_route(list(envelope)) == (envelope if taken else None)


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (b"worker-7", b"worker-7"),
        (b"with a blank ~", b"with a blank ~"),
        (ID, b"006b8b4567"),
        (b"caf\xc3\xa9", b"636166c3a9"),
        (b"line\n", b"6c696e650a"),
        (b"\x7f", b"7f"),
    ],
)
def test_an_identity_as_people_read_it(identity: bytes, name: bytes) -> None:
    assert wire.identity_name(identity) == name


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"ERROR 1 it broke", (b"1", b"it broke")),
        (b"ERROR 255 \xff\x00", (b"255", b"\xff\x00")),
        (b"ERROR 1 ", (b"1", b"")),
        (b"ERROR closing go elsewhere", (b"closing", b"go elsewhere")),
        (b"ERROR cancelled ", (b"cancelled", b"")),
        (b"ERROR 1", None),
        (b"ERROR 0 no code", None),
        (b"ERROR 01 no number of ours", None),
        (b"ERROR 256 too large", None),
        (b"ERROR -1 too small", None),
        (b"ERROR \xc2\xb2 a digit, but not ASCII", None),
        (b"ERROR disk full", None),
        (b"ERROR unknown_job never said here", None),
        (b"ERROR  1 two blanks", None),
        (b"error 1 lower case", None),
        (b"ERROR", None),
        (b"ERROR ", None),
        (b"", None),
        (b"a result", None),
    ],
)
def test_what_is_an_error(body: bytes, error: tuple[bytes, bytes] | None) -> None:
    assert wire.parse_error(body) == error


@given(st.binary(max_size=40) | st.binary(max_size=20).map(lambda text: b"ERROR " + text))
@example(b"ERROR 7 seven")
def test_what_is_read_as_an_error_is_written_the_same(body: bytes) -> None:
    error = wire.parse_error(body)
    if error is not None:
        assert wire.pack_error(*error) == body


@given(st.integers(1, 255), st.binary(max_size=40))
def test_every_failure_comes_back(number: int, text: bytes) -> None:
    error = wire.parse_error(wire.pack_error(b"%d" % number, text))
    assert error == (b"%d" % number, text)
    assert wire.failure_number(error[0]) == number


def test_every_reason_a_submit_can_be_refused_for_has_a_code() -> None:
    others = {errors.UNKNOWN_JOB, errors.STALE_LEASE, errors.CYCLE, errors.WRONG_STATE}
    words = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)}
    assert {reason.decode() for reason in wire.REASONS} == words - others
