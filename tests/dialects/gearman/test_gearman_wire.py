"""Packets <-> bytes: golden bytes, every case fed three ways, and the laws of the reader."""

from __future__ import annotations

from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.wire import REQUEST, RESPONSE, Reader, pack_request, pack_response, split
from hiringhall.dialects.packets import BAD_MAGIC, PACKET_TOO_LARGE

NUMBERS = {
    "CAN_DO": 1,
    "CANT_DO": 2,
    "RESET_ABILITIES": 3,
    "PRE_SLEEP": 4,
    "NOOP": 6,
    "SUBMIT_JOB": 7,
    "JOB_CREATED": 8,
    "GRAB_JOB": 9,
    "NO_JOB": 10,
    "JOB_ASSIGN": 11,
    "WORK_STATUS": 12,
    "WORK_COMPLETE": 13,
    "WORK_FAIL": 14,
    "GET_STATUS": 15,
    "ECHO_REQ": 16,
    "ECHO_RES": 17,
    "SUBMIT_JOB_BG": 18,
    "ERROR": 19,
    "STATUS_RES": 20,
    "SUBMIT_JOB_HIGH": 21,
    "SET_CLIENT_ID": 22,
    "CAN_DO_TIMEOUT": 23,
    "ALL_YOURS": 24,
    "WORK_EXCEPTION": 25,
    "OPTION_REQ": 26,
    "OPTION_RES": 27,
    "WORK_DATA": 28,
    "WORK_WARNING": 29,
    "GRAB_JOB_UNIQ": 30,
    "JOB_ASSIGN_UNIQ": 31,
    "SUBMIT_JOB_HIGH_BG": 32,
    "SUBMIT_JOB_LOW": 33,
    "SUBMIT_JOB_LOW_BG": 34,
    "SUBMIT_JOB_SCHED": 35,
    "SUBMIT_JOB_EPOCH": 36,
    "SUBMIT_REDUCE_JOB": 37,
    "SUBMIT_REDUCE_JOB_BACKGROUND": 38,
    "GRAB_JOB_ALL": 39,
    "JOB_ASSIGN_ALL": 40,
    "GET_STATUS_UNIQUE": 41,
    "STATUS_RES_UNIQUE": 42,
}

H = b"H:hall:68719476737"

GOLDEN: list[tuple[int, tuple[bytes, ...], bytes]] = [
    (wire.CAN_DO, (b"reverse",), b"\0\0\0\x01\0\0\0\x07reverse"),
    (wire.CANT_DO, (b"reverse",), b"\0\0\0\x02\0\0\0\x07reverse"),
    (wire.RESET_ABILITIES, (), b"\0\0\0\x03\0\0\0\0"),
    (wire.PRE_SLEEP, (), b"\0\0\0\x04\0\0\0\0"),
    (wire.NOOP, (), b"\0\0\0\x06\0\0\0\0"),
    (wire.SUBMIT_JOB, (b"reverse", b"", b"test"), b"\0\0\0\x07\0\0\0\x0dreverse\0\0test"),
    (wire.JOB_CREATED, (H,), b"\0\0\0\x08\0\0\0\x12" + H),
    (wire.GRAB_JOB, (), b"\0\0\0\x09\0\0\0\0"),
    (wire.NO_JOB, (), b"\0\0\0\x0a\0\0\0\0"),
    (wire.JOB_ASSIGN, (H, b"reverse", b"test"), b"\0\0\0\x0b\0\0\0\x1f" + H + b"\0reverse\0test"),
    (wire.WORK_STATUS, (H, b"1", b"2"), b"\0\0\0\x0c\0\0\0\x16" + H + b"\x001\x002"),
    (wire.WORK_COMPLETE, (H, b"tset"), b"\0\0\0\x0d\0\0\0\x17" + H + b"\0tset"),
    (wire.WORK_FAIL, (H,), b"\0\0\0\x0e\0\0\0\x12" + H),
    (wire.GET_STATUS, (H,), b"\0\0\0\x0f\0\0\0\x12" + H),
    (wire.ECHO_REQ, (b"a\0b",), b"\0\0\0\x10\0\0\0\x03a\0b"),
    (wire.ECHO_RES, (b"a\0b",), b"\0\0\0\x11\0\0\0\x03a\0b"),
    (wire.SUBMIT_JOB_BG, (b"f", b"u", b"d"), b"\0\0\0\x12\0\0\0\x05f\0u\0d"),
    (wire.ERROR, (b"QUEUE_ERROR", b"full"), b"\0\0\0\x13\0\0\0\x10QUEUE_ERROR\0full"),
    (wire.STATUS_RES, (H, b"1", b"0", b"0", b"0"), b"\0\0\0\x14\0\0\0\x1a" + H + b"\x001\x000\x000\x000"),
    (wire.SUBMIT_JOB_HIGH, (b"f", b"u", b"d"), b"\0\0\0\x15\0\0\0\x05f\0u\0d"),
    (wire.SET_CLIENT_ID, (b"w1",), b"\0\0\0\x16\0\0\0\x02w1"),
    (wire.CAN_DO_TIMEOUT, (b"f", b"10"), b"\0\0\0\x17\0\0\0\x04f\x0010"),
    (wire.ALL_YOURS, (), b"\0\0\0\x18\0\0\0\0"),
    (wire.WORK_EXCEPTION, (H, b"!"), b"\0\0\0\x19\0\0\0\x14" + H + b"\0!"),
    (wire.OPTION_REQ, (b"exceptions",), b"\0\0\0\x1a\0\0\0\x0aexceptions"),
    (wire.OPTION_RES, (b"exceptions",), b"\0\0\0\x1b\0\0\0\x0aexceptions"),
    (wire.WORK_DATA, (H, b"!"), b"\0\0\0\x1c\0\0\0\x14" + H + b"\0!"),
    (wire.WORK_WARNING, (H, b"!"), b"\0\0\0\x1d\0\0\0\x14" + H + b"\0!"),
    (wire.GRAB_JOB_UNIQ, (), b"\0\0\0\x1e\0\0\0\0"),
    (wire.JOB_ASSIGN_UNIQ, (H, b"f", b"u", b"d"), b"\0\0\0\x1f\0\0\0\x18" + H + b"\0f\0u\0d"),
    (wire.SUBMIT_JOB_HIGH_BG, (b"f", b"u", b"d"), b"\0\0\0\x20\0\0\0\x05f\0u\0d"),
    (wire.SUBMIT_JOB_LOW, (b"f", b"u", b"d"), b"\0\0\0\x21\0\0\0\x05f\0u\0d"),
    (wire.SUBMIT_JOB_LOW_BG, (b"f", b"u", b"d"), b"\0\0\0\x22\0\0\0\x05f\0u\0d"),
    (
        wire.SUBMIT_JOB_SCHED,
        (b"f", b"u", b"0", b"1", b"2", b"3", b"4", b"d"),
        b"\0\0\0\x23\0\0\0\x0ff\0u\x000\x001\x002\x003\x004\0d",
    ),
    (wire.SUBMIT_JOB_EPOCH, (b"f", b"u", b"17", b"d"), b"\0\0\0\x24\0\0\0\x08f\0u\x0017\0d"),
    (wire.SUBMIT_REDUCE_JOB, (b"f", b"u", b"r", b"d"), b"\0\0\0\x25\0\0\0\x07f\0u\0r\0d"),
    (wire.SUBMIT_REDUCE_JOB_BACKGROUND, (b"f", b"u", b"r", b"d"), b"\0\0\0\x26\0\0\0\x07f\0u\0r\0d"),
    (wire.GRAB_JOB_ALL, (), b"\0\0\0\x27\0\0\0\0"),
    (wire.JOB_ASSIGN_ALL, (H, b"f", b"u", b"r", b"d"), b"\0\0\0\x28\0\0\0\x1a" + H + b"\0f\0u\0r\0d"),
    (wire.GET_STATUS_UNIQUE, (b"u",), b"\0\0\0\x29\0\0\0\x01u"),
    (
        wire.STATUS_RES_UNIQUE,
        (b"u", b"1", b"0", b"0", b"0", b"2"),
        b"\0\0\0\x2a\0\0\0\x0bu\x001\x000\x000\x000\x002",
    ),
]


def name(case: tuple[int, tuple[bytes, ...], bytes]) -> str:
    return wire.NAMES[case[0]]


def test_the_numbers_are_those_of_the_protocol() -> None:
    assert {number: name for name, number in NUMBERS.items()} == wire.NAMES
    for name, number in NUMBERS.items():
        assert getattr(wire, name) == number


def test_every_packet_has_golden_bytes() -> None:
    assert [case[0] for case in GOLDEN] == sorted(wire.NAMES)


@pytest.mark.parametrize("case", GOLDEN, ids=name)
def test_golden_bytes(case: tuple[int, tuple[bytes, ...], bytes]) -> None:
    packet_type, args, tail = case
    assert pack_request(packet_type, *args) == b"\0REQ" + tail
    assert pack_response(packet_type, *args) == b"\0RES" + tail


@pytest.mark.parametrize("case", GOLDEN, ids=name)
@pytest.mark.parametrize("magic", [REQUEST, RESPONSE])
def test_every_packet_fed_three_ways(case: tuple[int, tuple[bytes, ...], bytes], magic: bytes) -> None:
    packet_type, args, tail = case
    whole = magic + tail
    expected = [(packet_type, b"\0".join(args))]

    reader = Reader(magic)
    assert reader.feed(whole) == expected
    assert reader.idle

    reader = Reader(magic)
    heard = [packet for place in range(len(whole)) for packet in reader.feed(whole[place : place + 1])]
    assert heard == expected
    assert reader.idle

    reader = Reader(magic)
    assert reader.feed(whole + whole[:7]) == expected
    assert not reader.idle
    assert reader.feed(whole[7:]) == expected
    assert reader.error is None


BROKEN: list[tuple[str, bytes, str]] = [
    ("the other role's magic", b"\0RES" + bytes(8), BAD_MAGIC),
    ("no magic at all", b"\0XYZ" + bytes(8), BAD_MAGIC),
    ("text", b"GET / HTTP/1.1\r\n\r\n", BAD_MAGIC),
    ("one byte over the limit", b"\0REQ" + pack(">II", 16, 101), PACKET_TOO_LARGE),
    ("four gigabytes", b"\0REQ" + pack(">II", 16, 0xFFFFFFFF), PACKET_TOO_LARGE),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case[0])
def test_a_broken_stream_fed_three_ways(case: tuple[str, bytes, str]) -> None:
    _, broken, code = case
    good = pack_request(wire.ECHO_REQ, b"before")
    expected = [(wire.ECHO_REQ, b"before")]
    for pieces in (
        [good + broken],
        [bytes([byte]) for byte in good + broken],
        [good + broken + good, good],
    ):
        reader = Reader(REQUEST, packet_bytes_max=100)
        heard = [packet for piece in pieces for packet in reader.feed(piece)]
        assert heard == expected
        assert reader.error is not None
        assert reader.error.code == code
        assert reader.error.text
        assert reader.feed(good) == []


def test_a_bad_magic_shows_at_its_first_wrong_byte() -> None:
    reader = Reader(REQUEST)
    assert reader.feed(b"\0RE") == []
    assert reader.error is None
    reader.feed(b"S")
    assert reader.error is not None


def test_a_type_that_does_not_exist_is_still_a_packet() -> None:
    reader = Reader(REQUEST)
    assert reader.feed(b"\0REQ" + pack(">II", 0xDEADBEEF, 2) + b"ab") == [(0xDEADBEEF, b"ab")]
    heard = [reader.feed(bytes([byte])) for byte in b"\0REQ" + pack(">II", 1000, 1) + b"c"]
    assert heard[-1] == [(1000, b"c")]


def test_a_body_at_the_limit_is_taken() -> None:
    reader = Reader(REQUEST, packet_bytes_max=100)
    assert reader.feed(pack_request(wire.ECHO_REQ, bytes(100))) == [(wire.ECHO_REQ, bytes(100))]


@pytest.mark.parametrize("piece_bytes", [1000, 4096, 65_536, 70_000])
def test_a_large_body_in_pieces(piece_bytes: int) -> None:
    body = bytes(range(256)) * 4096
    packet = pack_request(wire.ECHO_REQ, body)
    reader = Reader(REQUEST)
    heard: list[tuple[int, bytes]] = []
    for start in range(0, len(packet), piece_bytes):
        heard += reader.feed(packet[start : start + piece_bytes])
    assert heard == [(wire.ECHO_REQ, body)]
    assert reader.idle


def test_reading_goes_on_after_what_the_caller_read_itself() -> None:
    data = pack_request(wire.ECHO_REQ, b"1") + b"version\n" + pack_request(wire.ECHO_REQ, b"2")
    reader = Reader(REQUEST)
    assert reader.feed(data) == [(wire.ECHO_REQ, b"1")]
    assert data[reader.error_at :].startswith(b"version\n")
    reader.resume()
    assert reader.feed(data, reader.error_at + len(b"version\n")) == [(wire.ECHO_REQ, b"2")]


def test_split() -> None:
    assert split(b"a\0b\0c\0d", 3) == [b"a", b"b", b"c\0d"]
    assert split(b"a\0\0", 3) == [b"a", b"", b""]
    assert split(b"a\0b", 3) is None
    assert split(b"", 1) == [b""]


packets = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=40)), max_size=12)


@given(packets, st.lists(st.integers(0, 700), max_size=30))
def test_however_a_stream_is_cut_the_same_packets_come_out(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(b"\0REQ" + pack(">II", packet_type, len(body)) + body for packet_type, body in sent)
    reader = Reader(REQUEST)
    heard: list[tuple[int, bytes]] = []
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in pairwise(places):
        heard += reader.feed(stream[start:end])
    assert heard == sent
    assert reader.idle


@given(
    st.sampled_from(sorted(wire.NAMES)),
    st.lists(st.binary(max_size=20).filter(lambda arg: b"\0" not in arg), min_size=1, max_size=8),
    st.binary(max_size=20),
)
def test_arguments_survive_the_round_trip(packet_type: int, args: list[bytes], last: bytes) -> None:
    for magic, pack_any in ((REQUEST, pack_request), (RESPONSE, pack_response)):
        ((heard, body),) = Reader(magic).feed(pack_any(packet_type, *args, last))
        assert heard == packet_type
        assert split(body, len(args) + 1) == [*args, last]


@given(st.lists(st.binary(max_size=60), max_size=10))
def test_the_reader_never_raises(pieces: list[bytes]) -> None:
    reader = Reader(REQUEST, packet_bytes_max=30)
    for piece in pieces:
        for _, body in reader.feed(piece):
            assert len(body) <= 30
