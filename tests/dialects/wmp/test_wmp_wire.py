"""Paths, and messages <-> bytes: golden bytes, tables, and the laws of both."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hiringhall.dialects.wmp import wire
from hiringhall.dialects.wmp.wire import BadMessage

GOLDEN: list[tuple[bytes, list[tuple[bytes, bytes]], bytes, bytes]] = [
    (b"READY", [(b"role", b"a"), (b"role", b"b")], b"", b"WMP1 READY\nrole: a\nrole: b\n\n"),
    (b"WAKE", [(b"manager", b"hall"), (b"role", b"a")], b"", b"WMP1 WAKE\nmanager: hall\nrole: a\n\n"),
    (b"GIVE", [], b"", b"WMP1 GIVE\n\n"),
    (b"TAKE", [(b"job", b"7: 8 \r\xff")], b"\n\nx\0", b"WMP1 TAKE\njob: 7: 8 \r\xff\n\n\n\nx\0"),
    (b"NO", [(b"manager", b"")], b"", b"WMP1 NO\nmanager: \n\n"),
    (b"DONE", [(b"x-my-own", b":")], b"result", b"WMP1 DONE\nx-my-own: :\n\nresult"),
    (b"STATUS", [(b"progress", b"1/2")], b"\n", b"WMP1 STATUS\nprogress: 1/2\n\n\n"),
    (b"CANCEL", [(b"-", b"  ")], b"", b"WMP1 CANCEL\n-:   \n\n"),
]


@pytest.mark.parametrize(("command", "headers", "payload", "body"), GOLDEN)
def test_golden_bytes(command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes, body: bytes) -> None:
    assert wire.encode_body(command, headers, payload) == body
    message = wire.parse_body(body)
    assert (message.command, message.headers, message.payload) == (command, headers, payload)


def test_there_are_eight_commands() -> None:
    assert {row[0] for row in GOLDEN} == set(wire.COMMANDS)
    assert len(wire.COMMANDS) == 8


def test_headers_are_found_by_name() -> None:
    message = wire.parse_body(b"WMP1 READY\nrole: a\nworker: w\nrole: b\n\n")
    assert message.first(b"role") == b"a"
    assert message.first(b"worker") == b"w"
    assert message.first(b"rol") == b""
    assert message.every(b"role") == [b"a", b"b"]
    assert message.every(b"slots") == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"\n\n",
        b"WMP1\n\n",
        b"WMP1 \n\n",
        b"WMP1 READY",
        b"WMP1 READY\n",
        b" WMP1 READY\n\n",
        b"WMP1  READY\n\n",
        b"WMP1 READY \n\n",
        b"WMP1 READY\r\n\r\n",
        b"WMP10 READY\n\n",
        b"wmp1 READY\n\n",
        b"WMP1 READYREADY\n\n",
        b"WMP1 READ\n\n",
        b"WMP1 READY\nrole\n\n",
        b"WMP1 READY\nrole:a\n\n",
        b"WMP1 READY\nrole :a\n\n",
        b"WMP1 READY\n: a\n\n",
        b"WMP1 READY\nRole: a\n\n",
        b"WMP1 READY\nrole1: a\n\n",
        b"WMP1 READY\nro\xe9: a\n\n",
        b"WMP1 READY\n role: a\n\n",
    ],
)
def test_what_is_no_message(body: bytes) -> None:
    with pytest.raises(BadMessage):
        wire.parse_body(body)


def test_the_head_has_a_limit() -> None:
    start = b"WMP1 READY\nrole: "
    value = b"r" * (wire.HEAD_BYTES_MAX - len(start) - 1)
    body = start + value + b"\n\n" + b"p" * 100
    assert wire.parse_body(body).first(b"role") == value
    assert wire.encode_body(b"READY", [(b"role", value)], b"p" * 100) == body
    with pytest.raises(BadMessage):
        wire.parse_body(start + value + b"r\n\n")
    with pytest.raises(ValueError, match="65537"):
        wire.encode_body(b"READY", [(b"role", value + b"r")])
    with pytest.raises(BadMessage):
        wire.parse_body(b"WMP1 READY\n" + b"x" * 1_000_000 + b"\n\n")


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        (b"HELLO", []),
        (b"", []),
        (b"READY\n", []),
        (b"READY", [(b"role", b"two\nlines")]),
        (b"READY", [(b"", b"a")]),
        (b"READY", [(b"Role", b"a")]),
        (b"READY", [(b"a role", b"a")]),
    ],
)
def test_what_cannot_be_written(command: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(ValueError, match=r"not a command|cannot be written"):
        wire.encode_body(command, headers)


NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).map(str.encode)
VALUES = st.binary(max_size=40).map(lambda value: value.replace(b"\n", b""))
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
COMMANDS = st.sampled_from(wire.COMMANDS)


@given(command=COMMANDS, headers=HEADERS, payload=st.binary(max_size=60))
def test_what_is_written_is_read(command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes) -> None:
    message = wire.parse_body(wire.encode_body(command, headers, payload))
    assert (message.command, message.headers, message.payload) == (command, headers, payload)


@given(command=COMMANDS, headers=HEADERS, payload=st.binary(max_size=20), data=st.data())
def test_any_cut(
    command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes, data: st.DataObject
) -> None:
    """A message that lost its end is none, unless only payload is gone."""
    body = wire.encode_body(command, headers, payload)
    cut = data.draw(st.integers(0, len(body)))
    missing = len(body) - cut
    if missing <= len(payload):
        assert wire.parse_body(body[:cut]).payload == payload[: len(payload) - missing]
    else:
        with pytest.raises(BadMessage):
            wire.parse_body(body[:cut])


@given(body=st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"WMP1 READY\n" + tail))
@example(b"WMP1 READY\n\n")
def test_what_is_read_can_be_written_and_is_the_same(body: bytes) -> None:
    try:
        message = wire.parse_body(body)
    except BadMessage:
        return
    assert wire.encode_body(message.command, message.headers, message.payload) == body


# --- paths


@pytest.mark.parametrize(
    ("frames", "parts"),
    [
        ([b"", b"", b"x"], ([], [], b"x")),
        ([b"", b"", b""], ([], [], b"")),
        ([b"a", b"b", b"", b"c", b"", b"x"], ([b"a", b"b"], [b"c"], b"x")),
        ([b"", b"c", b"d", b"", b"x"], ([], [b"c", b"d"], b"x")),
        ([b"a", b"", b"", b"x"], ([b"a"], [], b"x")),
        ([b"\0" * 255, b"", b"", b"x"], ([b"\0" * 255], [], b"x")),
    ],
)
def test_frames_are_a_path_there_a_path_back_and_a_body(
    frames: list[bytes], parts: tuple[list[bytes], list[bytes], bytes]
) -> None:
    assert wire.split_frames(frames) == parts
    assert wire.join_frames(*parts) == frames


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"x"],
        [b"", b"x"],
        [b"a", b"", b"x"],
        [b"a", b"b", b"x"],
        [b"", b"a", b"x"],
        [b"", b"", b"", b"x"],
        [b"a", b"", b"", b"b", b"", b"x"],
        [b"h" * 256, b"", b"", b"x"],
        [b"", b"h" * 256, b"", b"x"],
        [b"h"] * 17 + [b"", b"", b"x"],
        [b"", *[b"h"] * 17, b"", b"x"],
    ],
)
def test_frames_that_are_no_path(frames: list[bytes]) -> None:
    assert wire.split_frames(frames) is None
    if frames:
        assert wire.answer_route([b"identity", *frames[:-1]]) is None


HOPS = st.lists(st.binary(min_size=1, max_size=8), max_size=wire.HOPS_MAX)


@given(to=HOPS, come=HOPS, body=st.binary(max_size=8))
def test_what_is_joined_is_split(to: list[bytes], come: list[bytes], body: bytes) -> None:
    assert wire.split_frames(wire.join_frames(to, come, body)) == (to, come, body)


@given(frames=st.lists(st.sampled_from([b"", b"a", b"h" * 256]), max_size=40))
def test_what_is_split_is_within_the_limits(frames: list[bytes]) -> None:
    parts = wire.split_frames(frames)
    if parts is None:
        return
    to, come, body = parts
    assert wire.join_frames(to, come, body) == frames
    assert max(len(to), len(come)) <= 16
    assert all(0 < len(hop) <= 255 for hop in to + come)


@given(identity=st.binary(min_size=1, max_size=255), come=HOPS)
def test_a_manager_answers_by_the_path_on_which_it_was_asked(identity: bytes, come: list[bytes]) -> None:
    assert wire.answer_route([identity, b"", *come, b""]) == [identity, *come, b"", b""]


@pytest.mark.parametrize(
    "envelope",
    [
        [],
        [b"i"],
        [b"i", b""],
        [b"i", b"", b"c"],
        [b"i", b"to", b"", b""],
        [b"i", b"", b"c", b"", b""],
        [b"", b"", b""],
        [b"i" * 256, b"", b""],
        [b"i", b"", *[b"c"] * 17, b""],
        [b"i", b"", b"c" * 256, b""],
    ],
)
def test_an_envelope_that_leads_nowhere(envelope: list[bytes]) -> None:
    assert wire.answer_route(envelope) is None


# --- values


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        (b"0/0", (0, 0)),
        (b"3/8", (3, 8)),
        (b"9/3", (9, 3)),
        (b"007/1", (7, 1)),
        (b"9" * 18 + b"/1", (10**18 - 1, 1)),
    ],
)
def test_progress(text: bytes, progress: tuple[int, int]) -> None:
    assert wire.parse_progress(text) == progress


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"/",
        b"1",
        b"1/",
        b"/1",
        b"1/2/3",
        b"-1/2",
        b"+1/2",
        b" 1/2",
        b"1.0/2",
        b"1/" + b"9" * 19,
        b"\xb2/3",
    ],
)
def test_what_is_no_progress(text: bytes) -> None:
    with pytest.raises(BadMessage):
        wire.parse_progress(text)


@pytest.mark.parametrize(
    ("text", "duration_us"), [(b"60", 60_000_000), (b"0.5", 500_000), (b"1.000001", 1_000_001), (b"0", 0)]
)
def test_seconds(text: bytes, duration_us: int) -> None:
    assert wire.parse_seconds(text) == duration_us
    assert wire.encode_seconds(duration_us) == text


@pytest.mark.parametrize(
    "text", [b"", b".", b"1.", b".5", b"-1", b"1e3", b"1.2.3", b"0.0000001", b"9" * 19, b"inf"]
)
def test_what_is_no_time(text: bytes) -> None:
    with pytest.raises(BadMessage):
        wire.parse_seconds(text)


@given(st.integers(0, 10**15))
def test_seconds_that_are_written_are_read(duration_us: int) -> None:
    assert wire.parse_seconds(wire.encode_seconds(duration_us)) == duration_us
