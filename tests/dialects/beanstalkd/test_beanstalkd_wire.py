"""Requests from bytes: each case whole, byte by byte and with more behind it; and what is never kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.beanstalkd import wire
from hiringhall.dialects.beanstalkd.wire import Reader, Request

BODY_BYTES_MAX = 20
LONGEST_TUBE = b"t" * wire.TUBE_BYTES_MAX

Read = tuple[bytes, list[int], bytes, bytes, bytes]

WELL_FORMED: list[tuple[bytes, Read]] = [
    (b"put 0 0 60 5\r\nhello\r\n", (b"put", [0, 0, 60, 5], b"", b"hello", b"")),
    (b"put 4294967295 1 0 0\r\n\r\n", (b"put", [4294967295, 1, 0, 0], b"", b"", b"")),
    (b"put 1 2 3 4\r\n\r\n\r\n\r\n", (b"put", [1, 2, 3, 4], b"", b"\r\n\r\n", b"")),
    (b"put 1 2 3 20\r\n" + b"\0" * 20 + b"\r\n", (b"put", [1, 2, 3, 20], b"", b"\0" * 20, b"")),
    (b"use mail\r\n", (b"use", [], b"mail", b"", b"")),
    (b"watch A-b+c/d;e.f$g_h(i)9\r\n", (b"watch", [], b"A-b+c/d;e.f$g_h(i)9", b"", b"")),
    (b"ignore " + LONGEST_TUBE + b"\r\n", (b"ignore", [], LONGEST_TUBE, b"", b"")),
    (b"stats-tube mail\r\n", (b"stats-tube", [], b"mail", b"", b"")),
    (b"reserve\r\n", (b"reserve", [], b"", b"", b"")),
    (b"reserve-with-timeout 5\r\n", (b"reserve-with-timeout", [5], b"", b"", b"")),
    (b"reserve-job 68719476737\r\n", (b"reserve-job", [68719476737], b"", b"", b"")),
    (b"delete 7\r\n", (b"delete", [7], b"", b"", b"")),
    (b"delete 007\r\n", (b"delete", [0], b"", b"", b"")),
    (b"delete 99999999999999999999\r\n", (b"delete", [0], b"", b"", b"")),
    (b"release 7 1024 30\r\n", (b"release", [7, 1024, 30], b"", b"", b"")),
    (b"bury 7 1024\r\n", (b"bury", [7, 1024], b"", b"", b"")),
    (b"touch 7\r\n", (b"touch", [7], b"", b"", b"")),
    (b"peek 7\r\n", (b"peek", [7], b"", b"", b"")),
    (b"kick 10\r\n", (b"kick", [10], b"", b"", b"")),
    (b"kick-job 7\r\n", (b"kick-job", [7], b"", b"", b"")),
    (b"stats-job 7\r\n", (b"stats-job", [7], b"", b"", b"")),
    *[
        (word + b"\r\n", (word, [], b"", b"", b""))
        for word in (
            b"peek-ready",
            b"peek-delayed",
            b"peek-buried",
            b"stats",
            b"list-tubes",
            b"list-tube-used",
            b"list-tubes-watched",
            b"quit",
        )
    ],
]

FAULTS: list[tuple[bytes, bytes]] = [
    (b"\r\n", wire.UNKNOWN_COMMAND),
    (b"PUT 0 0 60 5\r\n", wire.UNKNOWN_COMMAND),
    (b"pause-tube mail 60\r\n", wire.UNKNOWN_COMMAND),
    (b"\xff\xfe\r\n", wire.UNKNOWN_COMMAND),
    (b"res\0erve\r\n", wire.BAD_FORMAT),
    (b"reserve \r\n", wire.BAD_FORMAT),
    (b"reserve now\r\n", wire.BAD_FORMAT),
    (b"put 0 0 60\r\n", wire.BAD_FORMAT),
    (b"put 0 0 60 5 6\r\n", wire.BAD_FORMAT),
    (b"put 0 0 60 five\r\n", wire.BAD_FORMAT),
    (b"put -1 0 60 5\r\n", wire.BAD_FORMAT),
    (b"put 4294967296 0 60 5\r\n", wire.BAD_FORMAT),
    (b"put 0 0 60 99999999999999999999\r\n", wire.BAD_FORMAT),
    (b"put  0 0 60 5\r\n", wire.BAD_FORMAT),
    (b"reserve-with-timeout -1\r\n", wire.BAD_FORMAT),
    (b"delete x\r\n", wire.BAD_FORMAT),
    (b"delete \r\n", wire.BAD_FORMAT),
    (b"use \r\n", wire.BAD_FORMAT),
    (b"use -mail\r\n", wire.BAD_FORMAT),
    (b"use ma*il\r\n", wire.BAD_FORMAT),
    (b"use m\xc3\xa4il\r\n", wire.BAD_FORMAT),
    (b"use t" + LONGEST_TUBE + b"\r\n", wire.BAD_FORMAT),
    (b"reserve" + b"e" * 300 + b"\r\n", wire.BAD_FORMAT),
    (b"e" * 222 + b"\r\r\n", wire.BAD_FORMAT),
    (b"put 0 0 60 5\r\nhello!\n", wire.EXPECTED_CRLF),
    (b"put 0 0 60 0\r\n\n\r", wire.EXPECTED_CRLF),
    (b"put 0 0 60 21\r\n" + b"b" * 21 + b"\r\n", wire.JOB_TOO_BIG),
    (b"put 0 0 60 1000\r\n" + b"\r\n" * 501, wire.JOB_TOO_BIG),
]


def read_all(*pieces: bytes) -> list[Request]:
    reader = Reader(BODY_BYTES_MAX)
    requests: list[Request] = []
    for piece in pieces:
        reader.receive(piece)
        while (request := reader.next_request()) is not None:
            requests.append(request)
    assert reader.kept_bytes == 0
    return requests


def read_one_way(data: bytes, way: str) -> Request:
    """The one request in the data, which is fed in one of three ways."""
    if way == "whole":
        (request,) = read_all(data)
    elif way == "byte by byte":
        (request,) = read_all(*[bytes([byte]) for byte in data])
    else:
        request, last = read_all(data + b"stats\r\n")
        assert (last.command, last.fault) == (b"stats", b"")
    return request


WAYS = pytest.mark.parametrize("way", ["whole", "byte by byte", "with more behind it"])


@WAYS
@pytest.mark.parametrize(("data", "read"), WELL_FORMED)
def test_a_request_is_read(data: bytes, read: Read, way: str) -> None:
    request = read_one_way(data, way)
    assert (request.command, request.numbers, request.tube, request.body, request.fault) == read


@WAYS
@pytest.mark.parametrize(("data", "fault"), FAULTS)
def test_a_mistake_has_its_answer_and_the_next_request_is_read(data: bytes, fault: bytes, way: str) -> None:
    assert read_one_way(data, way).fault == fault


def test_every_command_is_tried() -> None:
    assert {read[0] for _, read in WELL_FORMED} == set(wire.ARGUMENTS)


def test_nothing_is_kept_of_a_line_without_an_end() -> None:
    reader = Reader(BODY_BYTES_MAX)
    for _ in range(1000):
        reader.receive(b"x" * 1000)
        assert reader.next_request() is None
        assert reader.kept_bytes <= wire.LINE_BYTES_MAX
    reader.receive(b"\r\nstats\r\n")
    requests = [reader.next_request(), reader.next_request(), reader.next_request()]
    assert [request and (request.command, request.fault) for request in requests] == [
        (b"", wire.BAD_FORMAT),
        (b"stats", b""),
        None,
    ]


def test_nothing_is_kept_of_a_body_that_is_too_long() -> None:
    reader = Reader(BODY_BYTES_MAX)
    reader.receive(b"put 0 0 60 4294967295\r\n")
    assert reader.next_request() is None
    for _ in range(1000):
        reader.receive(b"x" * 1000)
        assert reader.next_request() is None
        assert reader.kept_bytes == 0


@given(st.lists(st.binary(max_size=40) | st.sampled_from([data for data, _ in WELL_FORMED + FAULTS])))
def test_cutting_a_stream_makes_no_difference(pieces: list[bytes]) -> None:
    def read(*pieces: bytes) -> list[Read]:
        reader = Reader(BODY_BYTES_MAX)
        found: list[Read] = []
        for piece in pieces:
            reader.receive(piece)
            while (request := reader.next_request()) is not None:
                found.append((request.command, request.numbers, request.tube, request.body, request.fault))
            assert reader.kept_bytes <= wire.LINE_BYTES_MAX + BODY_BYTES_MAX
        return found

    stream = b"".join(pieces)
    assert read(*pieces) == read(stream) == read(*[bytes([byte]) for byte in stream])


def test_replies_are_written_as_the_protocol_has_them() -> None:
    assert wire.pack_job(b"RESERVED", 7, b"hello") == b"RESERVED 7 5\r\nhello\r\n"
    assert wire.pack_list([b"default", b"mail"]) == b"OK 21\r\n---\n- default\n- mail\n\r\n"
    assert wire.pack_stats({"name": b"mail", "pause": 0}) == b"OK 24\r\n---\nname: mail\npause: 0\n\r\n"
