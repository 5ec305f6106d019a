"""Lines of the hire protocol: golden ones written by hand, and any others there and back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.wire import BadLine, Line

SMITH = UUID("6fa459ea-ee8a-3ca4-894e-db77e160355e").bytes
BAKER = UUID("ffffffff-ffff-4fff-bfff-ffffffffffff").bytes
JOB = b"16fd2706-8baf-433b-82eb-8c7fada847da"

GOLDEN = [
    (
        Line(SMITH, wire.ANNOUNCE, JOB, type=b"bake"),
        b"6fa459ea-ee8a-3ca4-894e-db77e160355e ANNOUNCE 16fd2706-8baf-433b-82eb-8c7fada847da:bake",
        b"!b6RZ6u6KPKSJTtt34WA1XgNFv0nBouvQzuC64x_rahH2g:bake",
    ),
    (
        Line(SMITH, wire.AVAIL, JOB, time_us=2_500_000, skill=40),
        b"6fa459ea-ee8a-3ca4-894e-db77e160355e AVAIL 16fd2706-8baf-433b-82eb-8c7fada847da:2.5:40",
        b"!b6RZ6u6KPKSJTtt34WA1XgAFv0nBouvQzuC64x_rahH2g:2.5:40",
    ),
    (
        Line(SMITH, wire.HIRE, JOB, worker=BAKER),
        (
            b"6fa459ea-ee8a-3ca4-894e-db77e160355e HIRE "
            b"ffffffff-ffff-4fff-bfff-ffffffffffff:16fd2706-8baf-433b-82eb-8c7fada847da"
        ),
        b"!b6RZ6u6KPKSJTtt34WA1XgH________T_-__________w:Fv0nBouvQzuC64x_rahH2g",
    ),
    (
        Line(BAKER, wire.START, b"roof-7"),
        b"ffffffff-ffff-4fff-bfff-ffffffffffff START roof-7",
        b"!________T_-__________wS.roof-7",
    ),
    (
        Line(BAKER, wire.PERFORM, b"roof-7", type=b"mill: flour 50%", time_us=1),
        b"ffffffff-ffff-4fff-bfff-ffffffffffff PERFORM roof-7:mill%3A%20flour%2050%25:0.000001",
        b"!________T_-__________wP.roof-7:mill%3A%20flour%2050%25:0.000001",
    ),
    (
        Line(BAKER, wire.PERFORMING, b"roof-7"),
        b"ffffffff-ffff-4fff-bfff-ffffffffffff PERFORMING roof-7",
        b"!________T_-__________wG.roof-7",
    ),
    (
        Line(SMITH, wire.DISMISS, "Dach-ß".encode(), worker=BAKER),
        "6fa459ea-ee8a-3ca4-894e-db77e160355e DISMISS ffffffff-ffff-4fff-bfff-ffffffffffff:Dach-ß".encode(),
        "!b6RZ6u6KPKSJTtt34WA1XgD________T_-__________w:.Dach-ß".encode(),
    ),
    (
        Line(SMITH, wire.QUIT, JOB),
        b"6fa459ea-ee8a-3ca4-894e-db77e160355e QUIT 16fd2706-8baf-433b-82eb-8c7fada847da",
        b"!b6RZ6u6KPKSJTtt34WA1XgQFv0nBouvQzuC64x_rahH2g",
    ),
]


@pytest.mark.parametrize(("line", "long", "compact"), GOLDEN)
def test_a_golden_line_is_read_and_written_in_both_forms(line: Line, long: bytes, compact: bytes) -> None:
    assert wire.write_line(line) == long
    assert wire.write_line(line, compact=True) == compact
    assert wire.read_line(long) == line
    assert wire.read_line(compact) == line
    assert len(compact) < len(long)


def test_every_verb_has_its_golden_line() -> None:
    assert [line.verb for line, _, _ in GOLDEN] == list(wire.FIELDS)


def test_uuids_may_be_spelt_in_capitals_and_are_one_with_those_that_are_not() -> None:
    assert wire.read_line(GOLDEN[1][1].upper()) == GOLDEN[1][0]


def test_the_longest_id_can_be_said_in_both_forms() -> None:
    line = Line(SMITH, wire.AVAIL, b"j" * wire.ID_BYTES_MAX, time_us=1, skill=2)
    assert wire.read_line(wire.write_line(line)) == line
    assert wire.read_line(wire.write_line(line, compact=True)) == line


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("0.1234564", 123_456),
        ("0.1234565", 123_457),
        ("3.3333333333333335", 3_333_333),
        ("0.9999999", 1_000_000),
        ("2.50000000000000000", 2_500_000),
        ("0." + "0" * 500, 0),
    ],
)
@pytest.mark.parametrize("compact", [False, True])
def test_a_time_with_more_than_six_places_is_rounded(text: str, time_us: int, compact: bool) -> None:
    line = Line(SMITH, wire.AVAIL, b"roof-7", time_us=1, skill=2)
    said = wire.write_line(line, compact=compact).replace(b":0.000001:", f":{text}:".encode())
    assert wire.read_line(said) == line._replace(time_us=time_us)


# --- there and back

uuids = st.binary(min_size=16, max_size=16)
words = st.binary(min_size=1, max_size=255).filter(
    lambda word: not any(b <= 32 or b in (58, 127) for b in word)
)
jobs = st.one_of(uuids.map(wire.write_uuid), words.filter(lambda word: wire.read_uuid(word) is None))
queues = st.binary(min_size=1, max_size=512)
times = st.integers(0, wire.TIME_US_MAX)
skills = st.integers(0, wire.SKILL_MAX)
lines = st.one_of(
    st.builds(lambda s, j, t: Line(s, wire.ANNOUNCE, j, type=t), uuids, jobs, queues),
    st.builds(lambda s, j, t, k: Line(s, wire.AVAIL, j, time_us=t, skill=k), uuids, jobs, times, skills),
    st.builds(
        lambda s, v, j, w: Line(s, v, j, worker=w),
        uuids,
        st.sampled_from([wire.HIRE, wire.DISMISS]),
        jobs,
        uuids,
    ),
    st.builds(
        lambda s, v, j: Line(s, v, j, b""),
        uuids,
        st.sampled_from([wire.START, wire.PERFORMING, wire.QUIT]),
        jobs,
    ),
    st.builds(lambda s, j, t, d: Line(s, wire.PERFORM, j, type=t, time_us=d), uuids, jobs, queues, times),
)


@given(lines, st.booleans())
def test_what_is_read_back_is_what_was_written(line: Line, compact: bool) -> None:
    text = wire.write_line(line, compact=compact)
    assert wire.read_line(text) == line
    assert len(text) <= wire.LINE_BYTES_MAX
    assert b"\n" not in text
    assert (text[:1] == wire.COMPACT) == compact


@given(
    st.one_of(
        st.binary(max_size=200),
        lines.map(wire.write_line),
        lines.map(lambda x: wire.write_line(x, compact=True)),
    ),
    st.data(),
)
def test_any_bytes_are_a_line_or_refused(text: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    broken = text[:place] + data.draw(st.binary(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    try:
        line = wire.read_line(broken)
    except BadLine:
        return
    for compact in (False, True):
        assert wire.read_line(wire.write_line(line, compact=compact)) == line


# --- what is no line

ME = b"6fa459ea-ee8a-3ca4-894e-db77e160355e "
SHORT = b"!b6RZ6u6KPKSJTtt34WA1Xg"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (b"", "UUID VERB field:field"),
        (b"hello", "UUID VERB field:field"),
        (ME + b"QUIT", "UUID VERB field:field"),
        (ME + b" QUIT j", "UUID VERB field:field"),
        (ME + b"QUIT j ", "UUID VERB field:field"),
        (b"6fa459eaee8a3ca4894edb77e160355e QUIT j", "start with the UUID"),
        (b"6fa459ea-ee8a-3ca4-894e-db77e160355g QUIT j", "start with the UUID"),
        (b"-fa459ea-ee8a-3ca4-894e-db77e160355e QUIT j", "start with the UUID"),
        (ME + b"quit j", "the verb must be one of"),
        (ME + b"ERROR j", "the verb must be one of"),
        (ME + b"QUIT ", "1 to 255 bytes"),
        (ME + b"QUIT a:b", "QUIT takes 1 fields"),
        (ME + b"ANNOUNCE a:b:c", "ANNOUNCE takes 2 fields"),
        (ME + b"AVAIL a:1", "AVAIL takes 3 fields"),
        (ME + b"QUIT " + b"j" * 256, "1 to 255 bytes"),
        (ME + b"QUIT j\x00", "control character"),
        (ME + b"QUIT j\x7f", "control character"),
        (ME + b"QUIT j\t", "control character"),
        (ME + b"ANNOUNCE j:" + b"t" * 1537, "a type 1 to 1536"),
        (ME + b"ANNOUNCE j:a%", "two hexadecimal digits"),
        (ME + b"ANNOUNCE j:a%4", "two hexadecimal digits"),
        (ME + b"ANNOUNCE j:a%4g", "two hexadecimal digits"),
        (ME + b"AVAIL j::1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:-1:1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:1.:1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:.5:1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:1e3:1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:1.000000x:1", "a time must be a number of seconds"),
        (ME + b"AVAIL j:31536001:1", "at most a year"),
        (ME + b"AVAIL j:1:1.5", "a skill must be a whole number"),
        (ME + b"AVAIL j:1:-1", "a skill must be a whole number"),
        (ME + b"AVAIL j:1:1000001", "a skill must be a whole number"),
        (ME + b"HIRE smith:j", "a worker must be named by its UUID"),
        (ME + b"QUIT " + b"j" * 4096, "4096 bytes"),
        (b"!", "22 characters of base64url"),
        (b"!b6RZ6u6KPKSJTtt34WA1Xh" + b"Q.j", "22 characters of base64url"),
        (b"!b6RZ6u6KPKSJTtt34WA1X=" + b"Q.j", "22 characters of base64url"),
        (SHORT + b"X.j", "the letter after the UUID"),
        (SHORT, "the letter after the UUID"),
        (SHORT + b"Qj", "22 characters of base64url, or a dot"),
        (SHORT + b"Q.", "a UUID must be written as 22"),
        (SHORT + b"Q." + JOB, "a UUID must be written as 22"),
        (SHORT + b"Q." + b"j" * 256, "1 to 255 bytes"),
        (SHORT + b"Q" + b"j" * 256, "1 to 255 bytes"),
        (SHORT + b"N.j:." + b"t" * 1536, "a type 1 to 1536"),
        (SHORT + b"Hsmith:.j", "a worker must be named by its UUID"),
    ],
)
def test_a_line_that_is_none_is_refused_with_a_reason(text: bytes, wrong: str) -> None:
    with pytest.raises(BadLine, match=wrong):
        wire.read_line(text)
