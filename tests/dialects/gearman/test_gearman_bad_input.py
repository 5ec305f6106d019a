"""Mistakes, nonsense and malice: answered in the protocol, and nobody else is touched."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman import wire
from hiringhall.dialects.gearman.session import GearmanContext, GearmanOptions, ProcessInfo
from stage.gearman import GearmanGuest, GearmanHall

PACKET_BYTES_MAX = 300


def still_served(guest: GearmanGuest) -> None:
    assert guest.say(wire.ECHO_REQ, b"still").hears() == [(wire.ECHO_RES, b"still")]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\0RES" + pack(">II", wire.ECHO_REQ, 0), b"INVALID_MAGIC"),
        (b"\0XYZ", b"INVALID_MAGIC"),
        (b"\0REQ" + pack(">II", wire.ECHO_REQ, 0xFFFFFFFF), b"ARGUMENT_TOO_LARGE"),
        (b"\0REQ" + pack(">II", wire.ECHO_REQ, PACKET_BYTES_MAX + 1), b"ARGUMENT_TOO_LARGE"),
    ],
)
def test_a_stream_that_cannot_be_trusted_is_closed_after_an_error(bad: bytes, code: bytes) -> None:
    echo = wire.pack_request(wire.ECHO_REQ, b"before")
    for pieces in ([echo + bad], [bytes([byte]) for byte in echo + bad], [echo + bad + echo, echo]):
        guest = GearmanHall(GearmanOptions(packet_bytes_max=PACKET_BYTES_MAX)).guest()
        for piece in pieces:
            guest.say_bytes(piece)
        before, error = guest.hears()
        assert before == (wire.ECHO_RES, b"before")
        assert (error[0], error[1].split(b"\0", 1)[0]) == (wire.ERROR, code)
        assert guest.session.closing
        assert guest.say(wire.ECHO_REQ, b"after").hears() == []


@pytest.mark.parametrize(
    "packet_type",
    [
        0,
        5,
        wire.NOOP,
        wire.JOB_CREATED,
        wire.NO_JOB,
        wire.JOB_ASSIGN,
        wire.ECHO_RES,
        wire.ERROR,
        wire.STATUS_RES,
        wire.OPTION_RES,
        wire.JOB_ASSIGN_UNIQ,
        wire.JOB_ASSIGN_ALL,
        wire.STATUS_RES_UNIQUE,
        43,
        255,
        1000,
        0xFFFFFFFF,
    ],
)
def test_a_type_that_no_server_takes_is_an_error_and_the_stream_goes_on(
    hall: GearmanHall, packet_type: int
) -> None:
    guest = hall.guest().say_bytes(b"\0REQ" + pack(">II", packet_type, 3) + b"a\0b")
    assert guest.is_refused(b"INVALID_COMMAND")
    still_served(guest)


@pytest.mark.parametrize(
    ("packet_type", "arguments"),
    [
        (wire.SUBMIT_JOB, 3),
        (wire.SUBMIT_JOB_BG, 3),
        (wire.SUBMIT_JOB_HIGH, 3),
        (wire.SUBMIT_JOB_HIGH_BG, 3),
        (wire.SUBMIT_JOB_LOW, 3),
        (wire.SUBMIT_JOB_LOW_BG, 3),
        (wire.SUBMIT_JOB_SCHED, 8),
        (wire.SUBMIT_JOB_EPOCH, 4),
        (wire.SUBMIT_REDUCE_JOB, 4),
        (wire.SUBMIT_REDUCE_JOB_BACKGROUND, 4),
        (wire.CAN_DO_TIMEOUT, 2),
        (wire.WORK_STATUS, 3),
    ],
)
def test_missing_arguments_are_an_error_and_the_stream_goes_on(
    hall: GearmanHall, packet_type: int, arguments: int
) -> None:
    guest = hall.guest()
    for given_arguments in range(1, arguments):
        text = guest.say(packet_type, *[b"1"] * given_arguments).is_refused(b"INVALID_ARGUMENT")
        assert text.startswith(wire.NAMES[packet_type])
        assert text.count(",") == arguments
    still_served(guest)
    assert not hall.scheduler.jobs


@pytest.mark.parametrize("packet_type", [wire.CAN_DO, wire.CANT_DO])
def test_a_function_with_a_nul_is_an_error(hall: GearmanHall, packet_type: int) -> None:
    hall.guest().say(packet_type, b"a", b"b").is_refused(b"INVALID_ARGUMENT")


def test_a_function_without_a_name_is_an_error(hall: GearmanHall) -> None:
    hall.guest().say(wire.CAN_DO).is_refused(b"INVALID_ARGUMENT")
    hall.guest().say(wire.CAN_DO_TIMEOUT, b"", b"1").is_refused(b"INVALID_ARGUMENT")


@pytest.mark.parametrize("prefix", [b"", b"x" * 44, b"a b", b"a\0b", b"a\nb"])
def test_a_door_with_a_prefix_that_breaks_handles_does_not_open(hall: GearmanHall, prefix: bytes) -> None:
    process = ProcessInfo("", 0, "", hall.stops.append)
    with pytest.raises(ValueError, match="prefix"):
        GearmanContext(hall.scheduler, GearmanOptions(handle_prefix=prefix), process)


def test_the_longest_handle_fits() -> None:
    hall = GearmanHall(GearmanOptions(handle_prefix=b"x" * 42))
    handle = hall.context.handle(2**63 - 1)
    assert len(handle) <= 63
    assert hall.context.job_id(handle) == 2**63 - 1
    assert hall.context.job_id(hall.context.handle(2**63)) == 0


# --- whatever arrives

words = st.sampled_from([b"", b"f", b"g", b"u", b"-", b"1", b"*", b"exceptions", b"H:hall:68719476737", b"\0"])
arguments = st.lists(words | st.binary(max_size=12), max_size=9)
packets = st.builds(
    lambda packet_type, args: wire.pack_request(packet_type, *args),
    st.sampled_from(sorted(wire.NAMES)),
    arguments,
)
lines = st.sampled_from(
    [
        b"status\n",
        b"workers\n",
        b"cancel job H:hall:68719476737\n",
        b"maxqueue f 1\n",
        b"drop function f\n",
        b"x",
    ]
)
LIVELY = [
    wire.pack_request(wire.CAN_DO, b"f"),
    wire.pack_request(wire.SUBMIT_JOB, b"f", b"", b"1"),
    wire.pack_request(wire.SUBMIT_JOB_BG, b"f", b"u", b"2"),
    wire.pack_request(wire.GRAB_JOB),
    wire.pack_request(wire.PRE_SLEEP),
    *[wire.pack_request(wire.WORK_COMPLETE, b"H:hall:%d" % (68719476737 + place), b"") for place in range(3)],
    wire.pack_request(wire.WORK_FAIL, b"H:hall:68719476737"),
]
speech = st.lists(packets | st.sampled_from(LIVELY) | lines | st.binary(max_size=30), max_size=25)


@st.composite
def mutated_streams(draw: st.DrawFn) -> list[bytes]:
    """A stream of packets with some bytes changed, in arbitrary pieces."""
    stream = bytearray(b"".join(draw(speech)))
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4)):
        if place < len(stream):
            stream[place] = byte
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [bytes(stream[start:end]) for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


SMALL = Limits(
    jobs_max=4, queues_max=3, abilities_max=2, watchers_max=3, queue_name_bytes_max=8, key_bytes_max=30
)


@given(mutated_streams(), mutated_streams(), st.integers(0, 3))
def test_no_stream_breaks_the_hall(first: list[bytes], second: list[bytes], waits: int) -> None:
    hall = GearmanHall(GearmanOptions(packet_bytes_max=PACKET_BYTES_MAX), SMALL)
    honest = hall.guest()
    guests = [hall.guest(), hall.guest()]
    for place in range(max(len(first), len(second))):
        for guest, pieces in zip(guests, (first, second), strict=True):
            if place < len(pieces):
                guest.say_bytes(pieces[place])
        hall.wait(waits * 700_000)
        assert len(hall.scheduler.jobs) <= SMALL.jobs_max
        assert len(hall.scheduler.queues) <= SMALL.queues_max
    for guest in guests:
        guest.reads()
        guest.leaves()
    still_served(honest)
    assert not honest.session.closing
    assert list(hall.context.sessions) == [honest.session]


@given(mutated_streams(), st.integers(1, 40))
def test_however_it_is_cut_the_same_is_said(pieces: list[bytes], step: int) -> None:
    stream = b"".join(pieces)
    whole = GearmanHall(limits=SMALL).guest().say_bytes(stream).reads()
    drip = GearmanHall(limits=SMALL).guest()
    for start in range(0, len(stream), step):
        drip.say_bytes(stream[start : start + step])
    assert drip.reads() == whole


@pytest.mark.parametrize("asking", [wire.pack_request(wire.ECHO_REQ, bytes(100)), b"status\n"])
def test_who_asks_for_more_than_can_be_sent_is_closed_in_the_middle(hall: GearmanHall, asking: bytes) -> None:
    """A small question may have a large answer, and many fit into one piece of input."""
    for number in range(100):
        hall.scheduler.queue(b"function-%d" % number)
    guest = hall.guest()
    guest.session.out_bytes_max = 10_000
    guest.session.receive(asking * 1000 + wire.pack_request(wire.SUBMIT_JOB_BG, b"f", b"", b""))
    assert guest.session.closing
    assert guest.session.out_bytes < 15_000
    assert not hall.scheduler.jobs
