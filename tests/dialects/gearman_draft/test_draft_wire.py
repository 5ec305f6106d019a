"""Packets <-> bytes: golden bytes written by hand, every case fed three ways, and the laws of the reader."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.wire import Reader, pack
from hiringhall.dialects.packets import BAD_MAGIC, PACKET_TOO_LARGE

NUMBERS = {
    "NOOP": 0x00,
    "WORKER_CONNECT": 0x01,
    "WORKER_DISCONNECT": 0x02,
    "WORKER_SLEEP": 0x03,
    "JOB_CREATE_REQ": 0x04,
    "JOB_CREATE_RES": 0x05,
    "JOB_ASSIGN_REQ": 0x06,
    "JOB_ASSIGN_RES": 0x07,
    "JOB_STATUS_ANNOUNCE": 0x08,
    "JOB_STATUS_REQ": 0x09,
    "JOB_STATUS_RES": 0x0A,
    "JOB_COMPLETE_ANNOUNCE": 0x0B,
    "JOB_COMPLETE_REQ": 0x0C,
    "JOB_COMPLETE_RES": 0x0D,
    "TASK_START": 0x0E,
    "TASK_RESULT": 0x0F,
}


class Golden(NamedTuple):
    """One packet: as it is made, what stands in its body, and its bytes."""

    made: bytes
    parsed: object
    written: str

    @property
    def packet(self) -> bytes:
        return bytes.fromhex(self.written)


def parse(packet_type: int, body: bytes) -> object:
    """The body of any packet, by the function that reads it."""
    if packet_type == wire.WORKER_CONNECT:
        return wire.parse_worker_connect(body, 10)
    if packet_type == wire.JOB_CREATE_REQ:
        return wire.parse_job_create_req(body)
    if packet_type == wire.JOB_ASSIGN_RES and body:
        return wire.parse_job_assign_res(body)
    if packet_type in (wire.JOB_STATUS_ANNOUNCE, wire.JOB_STATUS_RES):
        return wire.parse_job_status(body)
    if packet_type == wire.JOB_COMPLETE_ANNOUNCE:
        return wire.parse_job_complete_announce(body)
    if packet_type == wire.JOB_COMPLETE_RES:
        return wire.parse_job_complete_res(body)
    if packet_type == wire.TASK_START:
        return wire.parse_task_start(body)
    if packet_type == wire.TASK_RESULT:
        return wire.parse_task_result(body)
    return body


GOLDEN = [
    Golden(wire.NOOP_PACKET, b"", "00 4A 4F 42  00  00 00 00 00"),
    Golden(
        wire.pack_worker_connect([b"mail", b"rss"]),
        [b"mail", b"rss"],
        "00 4A 4F 42  01  00 00 00 08  6D 61 69 6C 00 72 73 73",
    ),
    Golden(wire.pack_worker_connect([]), [], "00 4A 4F 42  01  00 00 00 00"),
    Golden(wire.WORKER_DISCONNECT_PACKET, b"", "00 4A 4F 42  02  00 00 00 00"),
    Golden(wire.WORKER_SLEEP_PACKET, b"", "00 4A 4F 42  03  00 00 00 00"),
    Golden(
        wire.pack_job_create_req(b"rss", b"7", 1, wire.ASYNC_HANDLE, b"\0x"),
        (b"rss", b"7", 1, 1, b"\0x"),
        "00 4A 4F 42  04  00 00 00 0A  72 73 73 00  37 00  01  01  00 78",
    ),
    Golden(
        wire.pack_job_create_req(b"mail", b"", 0, wire.ASYNC_THROW_AWAY, b""),
        (b"mail", b"", 0, 2, b""),
        "00 4A 4F 42  04  00 00 00 08  6D 61 69 6C 00  00  00  02",
    ),
    Golden(
        wire.pack_job_create_req(b"rss", b"", 2, wire.SYNC_WAIT, b"a"),
        (b"rss", b"", 2, 0, b"a"),
        "00 4A 4F 42  04  00 00 00 08  72 73 73 00  00  02  00  61",
    ),
    Golden(wire.pack_job_create_res(b"H:h:17"), b"H:h:17", "00 4A 4F 42  05  00 00 00 06  48 3A 68 3A 31 37"),
    Golden(wire.pack_job_create_res(), b"", "00 4A 4F 42  05  00 00 00 00"),
    Golden(wire.JOB_ASSIGN_REQ_PACKET, b"", "00 4A 4F 42  06  00 00 00 00"),
    Golden(
        wire.pack_job_assign_res(b"rss", b"\0x"),
        (b"rss", b"\0x"),
        "00 4A 4F 42  07  00 00 00 06  72 73 73 00  00 78",
    ),
    Golden(wire.NO_JOB_PACKET, b"", "00 4A 4F 42  07  00 00 00 00"),
    Golden(
        wire.pack_job_status_announce(1, 100, 3600),
        (1, 100, 3600),
        "00 4A 4F 42  08  00 00 00 0C  00 00 00 01  00 00 00 64  00 00 0E 10",
    ),
    Golden(wire.pack_job_status_req(b"H:h:17"), b"H:h:17", "00 4A 4F 42  09  00 00 00 06  48 3A 68 3A 31 37"),
    Golden(
        wire.pack_job_status_res(0xFFFFFFFF, 0x01020304),
        (0xFFFFFFFF, 0x01020304, 0),
        "00 4A 4F 42  0A  00 00 00 0C  FF FF FF FF  01 02 03 04  00 00 00 00",
    ),
    Golden(
        wire.pack_job_complete_announce(255, b"no"), (255, b"no"), "00 4A 4F 42  0B  00 00 00 03  FF  6E 6F"
    ),
    Golden(wire.pack_job_complete_req(b"H:h:17"), b"H:h:17", "00 4A 4F 42  0C  00 00 00 06  48 3A 68 3A 31 37"),
    Golden(
        wire.pack_job_complete_res(90, 0, b"ok"),
        (90, 0, b"ok"),
        "00 4A 4F 42  0D  00 00 00 07  00 00 00 5A  00  6F 6B",
    ),
    Golden(
        wire.pack_job_complete_res(wire.INCOMPLETE, 0),
        (0, 0, b""),
        "00 4A 4F 42  0D  00 00 00 05  00 00 00 00  00",
    ),
    Golden(
        wire.pack_error(8, "no"), (0xFFFFFFFF, 8, b"no"), "00 4A 4F 42  0D  00 00 00 07  FF FF FF FF  08  6E 6F"
    ),
    Golden(
        wire.pack_task_start(b"rss", b"7", 1_767_225_600_000_000),
        (b"rss", b"7", 1_767_225_600_000_000),
        "00 4A 4F 42  0E  00 00 00 0E  72 73 73 00  37 00  00 06 47 48 46 20 40 00",
    ),
    Golden(
        wire.pack_task_result(b"rss", b"7", 1, 2, b"no"),
        (b"rss", b"7", 1, 2, b"no"),
        "00 4A 4F 42  0F  00 00 00 11  72 73 73 00  37 00  00 00 00 00 00 00 00 01  02  6E 6F",
    ),
]


def name(golden: Golden) -> str:
    return golden.written


def test_the_numbers_are_those_of_the_draft() -> None:
    assert {number: name.lower() for name, number in NUMBERS.items()} == wire.NAMES
    for name, number in NUMBERS.items():
        assert getattr(wire, name) == number


def test_every_packet_has_golden_bytes() -> None:
    assert {golden.packet[4] for golden in GOLDEN} == set(NUMBERS.values())


@pytest.mark.parametrize("golden", GOLDEN, ids=name)
def test_golden_bytes(golden: Golden) -> None:
    assert golden.made == golden.packet
    assert parse(golden.packet[4], golden.packet[9:]) == golden.parsed


@pytest.mark.parametrize("golden", GOLDEN, ids=name)
def test_every_packet_fed_three_ways(golden: Golden) -> None:
    whole = golden.packet
    expected = [(whole[4], whole[9:])]

    reader = Reader()
    assert reader.feed(whole) == expected
    assert reader.idle

    reader = Reader()
    heard = [packet for place in range(len(whole)) for packet in reader.feed(whole[place : place + 1])]
    assert heard == expected
    assert reader.idle

    reader = Reader()
    assert reader.feed(whole + whole[:7]) == expected
    assert not reader.idle
    assert reader.feed(whole[7:]) == expected
    assert reader.error is None


BROKEN: list[tuple[str, bytes, str]] = [
    ("the magic of the later protocol", b"\0REQ" + bytes(5), BAD_MAGIC),
    ("no magic at all", b"\0XYZ" + bytes(5), BAD_MAGIC),
    ("text", b"GET / HTTP/1.1\r\n\r\n", BAD_MAGIC),
    ("one byte over the limit", b"\0JOB\x09\0\0\0\x65", PACKET_TOO_LARGE),
    ("four gigabytes", b"\0JOB\x09\xff\xff\xff\xff", PACKET_TOO_LARGE),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case[0])
def test_a_broken_stream_fed_three_ways(case: tuple[str, bytes, str]) -> None:
    _, broken, code = case
    good = pack(wire.JOB_STATUS_REQ, b"before")
    expected = [(wire.JOB_STATUS_REQ, b"before")]
    for pieces in (
        [good + broken],
        [bytes([byte]) for byte in good + broken],
        [good + broken + good, good],
    ):
        reader = Reader(packet_bytes_max=100)
        heard = [packet for piece in pieces for packet in reader.feed(piece)]
        assert heard == expected
        assert reader.error is not None
        assert reader.error.code == code
        assert reader.error.text
        assert reader.feed(good) == []


def test_a_bad_magic_shows_at_its_first_wrong_byte() -> None:
    reader = Reader()
    assert reader.feed(b"\0JO") == []
    assert reader.error is None
    reader.feed(b"X")
    assert reader.error is not None


def test_a_type_that_does_not_exist_is_still_a_packet() -> None:
    reader = Reader()
    assert reader.feed(b"\0JOB\xff\0\0\0\x02ab") == [(255, b"ab")]
    heard = [reader.feed(bytes([byte])) for byte in b"\0JOB\x80\0\0\0\x01c"]
    assert heard[-1] == [(128, b"c")]


def test_a_body_at_the_limit_is_taken() -> None:
    reader = Reader(packet_bytes_max=100)
    assert reader.feed(pack(wire.JOB_STATUS_REQ, bytes(100))) == [(wire.JOB_STATUS_REQ, bytes(100))]


@pytest.mark.parametrize("piece_bytes", [1000, 4096, 65_536, 70_000])
def test_a_large_body_in_pieces(piece_bytes: int) -> None:
    body = bytes(range(256)) * 4096
    packet = pack(wire.JOB_CREATE_REQ, body)
    reader = Reader()
    heard: list[tuple[int, bytes]] = []
    for start in range(0, len(packet), piece_bytes):
        heard += reader.feed(packet[start : start + piece_bytes])
    assert heard == [(wire.JOB_CREATE_REQ, body)]
    assert reader.idle


def test_an_opening_and_its_data_are_a_packet() -> None:
    before = wire.complete_before(7, 3)
    assert wire.opening(wire.JOB_COMPLETE_RES, before, 2) + b"no" == wire.pack_job_complete_res(7, 3, b"no")


@pytest.mark.parametrize(
    ("packet_type", "body"),
    [
        (wire.WORKER_CONNECT, b"\0"),
        (wire.WORKER_CONNECT, b"a\0\0"),
        (wire.WORKER_CONNECT, b"\0a"),
        (wire.WORKER_CONNECT, b"a\0\0b"),
        (wire.WORKER_CONNECT, b"\0".join([b"a"] * 11)),
        (wire.JOB_CREATE_REQ, b""),
        (wire.JOB_CREATE_REQ, b"rss"),
        (wire.JOB_CREATE_REQ, b"rss\0"),
        (wire.JOB_CREATE_REQ, b"rss\0key"),
        (wire.JOB_CREATE_REQ, b"rss\0key\0"),
        (wire.JOB_CREATE_REQ, b"rss\0key\0\1"),
        (wire.JOB_ASSIGN_RES, b"rss"),
        (wire.JOB_ASSIGN_RES, b"\0args"),
        (wire.JOB_STATUS_ANNOUNCE, bytes(11)),
        (wire.JOB_STATUS_ANNOUNCE, bytes(13)),
        (wire.JOB_STATUS_RES, b""),
        (wire.JOB_COMPLETE_ANNOUNCE, b""),
        (wire.JOB_COMPLETE_RES, bytes(4)),
        (wire.TASK_START, b"rss" + bytes(8)[:1]),
        (wire.TASK_START, b"rss\0key\0" + b"1234567"),
        (wire.TASK_START, b"rss\0key\0" + b"123456789"),
        (wire.TASK_RESULT, b"rss\0key"),
        (wire.TASK_RESULT, b"rss\0key\0" + b"12345678"),
    ],
)
def test_a_body_that_is_none_is_not_parsed(packet_type: int, body: bytes) -> None:
    assert parse(packet_type, body) is None


def test_a_nul_after_the_last_name_does_no_harm() -> None:
    assert wire.parse_worker_connect(b"mail\0rss\0", 2) == [b"mail", b"rss"]


packets = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=12)


@given(packets, st.lists(st.integers(0, 600), max_size=30))
def test_however_a_stream_is_cut_the_same_packets_come_out(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(b"\0JOB" + bytes([packet_type, 0, 0, 0, len(body)]) + body for packet_type, body in sent)
    reader = Reader()
    heard: list[tuple[int, bytes]] = []
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for start, end in pairwise(places):
        heard += reader.feed(stream[start:end])
    assert heard == sent
    assert reader.idle


words = st.binary(max_size=20).filter(lambda word: b"\0" not in word)
full_words = words.filter(bool)
octets = st.integers(0, 255)
quads = st.integers(0, 2**32 - 1)
times = st.integers(0, 2**64 - 1)


@given(full_words, words, octets, octets, st.binary(max_size=20), quads, quads, quads, times)
def test_every_body_survives_the_round_trip(
    name: bytes,
    key: bytes,
    flags: int,
    code: int,
    data: bytes,
    numerator: int,
    denominator: int,
    remaining_s: int,
    time_us: int,
) -> None:
    cases: list[tuple[bytes, object]] = [
        (wire.pack_worker_connect([name, name + key]), [name, name + key]),
        (wire.pack_job_create_req(name, key, flags, code, data), (name, key, flags, code, data)),
        (wire.pack_job_assign_res(name, data), (name, data)),
        (
            wire.pack_job_status_announce(numerator, denominator, remaining_s),
            (numerator, denominator, remaining_s),
        ),
        (
            wire.pack_job_status_res(numerator, denominator, remaining_s),
            (numerator, denominator, remaining_s),
        ),
        (wire.pack_job_complete_announce(code, data), (code, data)),
        (wire.pack_job_complete_res(numerator, code, data), (numerator, code, data)),
        (wire.pack_task_start(name, key, time_us), (name, key, time_us)),
        (wire.pack_task_result(name, key, time_us, code, data), (name, key, time_us, code, data)),
    ]
    for packet, expected in cases:
        ((packet_type, body),) = Reader().feed(packet)
        assert parse(packet_type, body) == expected


@given(st.lists(st.binary(max_size=60) | st.just(b"\0JOB\x04\0\0\0\x03"), max_size=10))
def test_the_reader_never_raises(pieces: list[bytes]) -> None:
    reader = Reader(packet_bytes_max=30)
    for piece in pieces:
        for packet_type, body in reader.feed(piece):
            assert len(body) <= 30
            parse(packet_type, body)
