"""Frames of the native protocol: cut in every way, bounded, and typed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.needs import TIME_US_MAX
from hiringhall.dialects.native import wire

FRAMES = [
    wire.encode("hello", 1, {"version": 1}),
    wire.encode("beat", 0, None),
    wire.encode("finish", 3, (7, b"x" * 300)),
]
BODIES = [frame[wire.HEADER_BYTES :] for frame in FRAMES]


def test_the_bytes_of_the_page() -> None:
    shown = "00 00 00 12  93  a5 68 65 6c 6c 6f  01  81 a7 76 65 72 73 69 6f 6e 01"
    assert wire.encode("hello", 1, {"version": 1}) == bytes.fromhex(shown.replace(" ", ""))


def test_frames_are_cut_whole_and_byte_by_byte() -> None:
    stream = b"".join(FRAMES)
    assert wire.Reader().feed(stream) == BODIES
    reader = wire.Reader()
    assert [frame for at in range(len(stream)) for frame in reader.feed(stream[at : at + 1])] == BODIES
    assert (reader.kept, reader.error) == (0, "")


@given(st.lists(st.binary(max_size=40), max_size=6), st.data())
def test_frames_are_cut_wherever_the_stream_is(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = wire.Reader()
    found: list[bytes] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[begin:end])
    assert found == bodies
    assert reader.kept == 0


def test_what_is_kept_is_counted() -> None:
    reader = wire.Reader()
    assert reader.feed(FRAMES[2][:100]) == []
    assert reader.kept == 100
    assert reader.feed(FRAMES[2][100:] + FRAMES[1][:2]) == [BODIES[2]]
    assert reader.kept == 2


def test_a_frame_that_is_too_long_is_refused_by_its_length() -> None:
    reader = wire.Reader(bytes_max=10)
    assert reader.feed(FRAMES[1][:4] + BODIES[1] + b"\0\0\0\x0b") == [BODIES[1]]
    assert reader.error == "a frame may have 10 bytes, this one says 11 (frame_bytes_max)"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(["hello", 1]),
        msgspec.msgpack.encode(["hello", -1, None]),
        msgspec.msgpack.encode([1, 1, None]),
        msgspec.msgpack.encode({"hello": 1}),
        b"\x93\xa2\xff\xff\x01\xc0",
        b"\x93\xa5hello\x01" + b"\x91" * 100_000 + b"\xc0",
        b"\x93\xa5hello\x01\xdd\xff\xff\xff\xff",
        msgspec.msgpack.encode(["hello", 1, None]) + b"\xc0",
    ],
)
def test_what_is_not_a_frame_is_refused(data: bytes) -> None:
    with pytest.raises(wire.BadFrame):
        wire.decode_frame(data)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        kind, number, _ = wire.decode_frame(data)
    except wire.BadFrame:
        return
    assert isinstance(kind, str)
    assert number >= 0


@pytest.mark.parametrize(
    "body", [None, [], [1], [1, 2, 3], ["1", b""], [1, "text"], [-1, b""], [1 << 63, b""], {"lease": 1}]
)
def test_a_body_of_another_type_is_refused(body: object) -> None:
    with pytest.raises(wire.BadBody):
        wire.decode(wire.FINISH_BODY, msgspec.msgpack.encode(body))


def test_times_have_the_limit_of_the_core() -> None:
    def decode(delay_us: int) -> object:
        body = (0, [(b"q", b"", {}, b"", delay_us, [])])
        return wire.decode(wire.SUBMIT_BODY, msgspec.msgpack.encode(body))

    assert decode(TIME_US_MAX)
    with pytest.raises(wire.BadBody):
        decode(TIME_US_MAX + 1)
