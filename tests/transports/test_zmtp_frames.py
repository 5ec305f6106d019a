"""ZeroMQ's frames: however a stream is cut up, the same is read from it; what is too much is never kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zmtp_wire import COMMAND, MORE, command, frame, message, shown

from hiringhall.transports.zmtp.frames import ENVELOPE_BYTES_MAX, FRAMES_MAX, FrameReader

LIMIT = 70_000


def read(stream: bytes, cuts: list[int] | None = None, limit: int = LIMIT) -> tuple[list[object], str]:
    """What is read from a stream, cut at these places."""
    reader = FrameReader(limit)
    events: list[object] = []
    at = 0
    for cut in [*sorted(cuts or []), len(stream)]:
        events += shown(reader.feed(stream[at:cut]))
        at = cut
    return events, reader.trouble


BODIES = st.one_of(st.binary(max_size=300), st.integers(250, 300).map(bytes))
MESSAGES = st.lists(BODIES, min_size=1, max_size=4).map(lambda frames: message(*frames))
COMMANDS = st.tuples(st.sampled_from([b"PING", b"SUBSCRIBE", b"X"]), st.binary(max_size=20)).map(
    lambda parts: command(*parts)
)
STREAMS = st.lists(st.one_of(MESSAGES, COMMANDS), max_size=12).map(b"".join)


@given(stream=STREAMS, cuts=st.lists(st.integers(0, 2000), max_size=10), rest=st.binary(max_size=20))
@settings(deadline=None)
def test_a_stream_is_read_the_same_whole_cut_up_and_byte_by_byte(
    stream: bytes, cuts: list[int], rest: bytes
) -> None:
    whole = read(stream)
    assert read(stream, [min(cut, len(stream)) for cut in cuts]) == whole
    assert read(stream, list(range(len(stream)))) == whole
    # What follows changes nothing of what was read before it.
    events, _ = read(stream + rest)
    assert events[: len(whole[0])] == whole[0]
    assert read(stream + rest, list(range(len(stream) + len(rest)))) == read(stream + rest)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (message(b"a"), [b"a"]),
        (message(b"", b"a") + message(b"", b"b"), [(b"",), b"a", b"b"]),
        (message(b"", b"a") + message(b"b") + message(b"", b"c"), [(b"",), b"a", (), b"b", (b"",), b"c"]),
        (message(b"x", b"", b"a") + message(b"x", b"", b"b"), [(b"x", b""), b"a", b"b"]),
        (message(b""), [b""]),
        (frame(b"a" * 300), [b"a" * 300]),
        (frame(b"short", long=True), [b"short"]),
        (command(b"PING", b"\0\0ctx"), [(b"PING", b"\0\0ctx", "command")]),
        (frame(b"", MORE) + command(b"PING") + frame(b"a"), [(b"PING", b"", "command"), (b"",), b"a"]),
        (b"", []),
    ],
)
def test_what_frames_mean(stream: bytes, events: list[object]) -> None:
    stream += command(b"END")
    assert read(stream) == ([*events, (b"END", b"", "command")], "")


@pytest.mark.parametrize(
    ("stream", "trouble"),
    [
        (b"\x08\x00", "a frame with the flags 0x8"),
        (b"\x80\x00", "a frame with the flags 0x80"),
        (b"\x05\x01a", "a frame with the flags 0x5"),
        (frame(b"", COMMAND), "a command without a name"),
        (frame(b"\x00PING", COMMAND), "a command without a name"),
        (frame(b"\x05PING", COMMAND), "a command without a name"),
        (b"\x02" + (LIMIT + 1).to_bytes(8, "big"), f"a frame of {LIMIT + 1} bytes (message_bytes_max)"),
        (b"\x03" + b"\xff" * 8, f"a frame of {(1 << 64) - 1} bytes (message_bytes_max)"),
        (b"\x06" + (1 << 40).to_bytes(8, "big"), f"a frame of {1 << 40} bytes (message_bytes_max)"),
    ],
)
def test_what_is_no_frame_ends_the_reading_after_what_came_before_it(stream: bytes, trouble: str) -> None:
    before = message(b"", b"a")
    assert read(before + stream + before) == ([(b"",), b"a"], trouble)
    assert read(before + stream, list(range(30))) == ([(b"",), b"a"], trouble)


def test_a_short_limit_holds_for_the_shortest_frames_too() -> None:
    assert read(frame(b"a" * 100) + frame(b"b" * 101), limit=100) == (
        [b"a" * 100],
        "a frame of 101 bytes (message_bytes_max)",
    )


@pytest.mark.parametrize("frames", [FRAMES_MAX + 1, FRAMES_MAX + 2, 5000])
def test_a_message_of_too_many_frames_is_dropped_whole_and_the_next_one_is_read(frames: int) -> None:
    reader = FrameReader(LIMIT)
    for byte in message(*[b"x"] * frames):
        assert shown(reader.feed(bytes((byte,)))) in ([], [("oversized", frames)])
        assert reader.kept_bytes <= FRAMES_MAX
    assert shown(reader.feed(message(b"next"))) == [b"next"]


def test_a_message_may_have_as_many_frames_as_the_limit_says() -> None:
    most = [b"x"] * FRAMES_MAX
    assert read(message(*most)) == ([tuple(most[:-1]), b"x"], "")


def test_an_envelope_of_too_many_bytes_is_never_kept() -> None:
    reader = FrameReader(LIMIT)
    envelope = [b"e" * (ENVELOPE_BYTES_MAX // 2 + 1)] * 2
    stream = message(*envelope, b"body") + message(b"next")
    heard: list[object] = []
    for at in range(0, len(stream), 1000):
        heard += shown(reader.feed(stream[at : at + 1000]))
        assert reader.kept_bytes <= ENVELOPE_BYTES_MAX // 2 + 1
    assert heard == [("oversized", 3), b"next"]


@pytest.mark.parametrize("piece", [b"\x01\x00", frame(b"x" * 200, MORE), frame(b"x" * 60_000, MORE)])
def test_a_message_that_never_ends_is_cut_off(piece: bytes) -> None:
    reader = FrameReader(LIMIT)
    fed = 0
    while not reader.trouble:
        reader.feed(piece)
        fed += len(piece)
        assert reader.kept_bytes <= ENVELOPE_BYTES_MAX
        assert fed <= LIMIT + ENVELOPE_BYTES_MAX + 2 * len(piece)
    assert reader.trouble.startswith("a message of more than")


def test_a_message_of_endless_empty_frames_is_cut_off_even_where_messages_may_be_long() -> None:
    reader = FrameReader(1 << 30)
    for _ in range(11):
        reader.feed(b"\x01\x00" * 10_000)
    assert reader.trouble == "a message of more than 100000 frames"


def test_what_is_kept_of_a_long_frame_is_counted_as_it_comes() -> None:
    reader = FrameReader(LIMIT)
    body = bytes(range(256)) * 200
    stream = frame(b"", MORE) + frame(body)
    head = len(stream) - len(body)
    assert reader.feed(stream[:head]) == []
    for at in range(head, len(stream) - 777, 777):
        assert reader.feed(stream[at : at + 777]) == []
        assert reader.kept_bytes == at + 777 - head
        last = at + 777
    assert shown(reader.feed(stream[last:])) == [(b"",), body]
    assert reader.kept_bytes == 0
