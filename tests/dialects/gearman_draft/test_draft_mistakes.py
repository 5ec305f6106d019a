"""Mistakes, nonsense and malice: answered in the protocol, and nobody else is touched."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import DraftContext, DraftOptions
from hiringhall.dialects.gearman_draft.wire import pack
from hiringhall.storage.contract import Retention
from stage.draft import DraftGuest, DraftHall
from stage.hall import START_US

PACKET_BYTES_MAX = 300
FIRST = 1 << 36
JOB = b"rss\0u7\0"


def still_served(guest: DraftGuest) -> None:
    assert guest.takes() is None


# --- a stream that cannot be read


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\0REQ" + bytes(8), wire.BAD_MAGIC),
        (b"\0XYZ", wire.BAD_MAGIC),
        (b"status\n", wire.BAD_MAGIC),
        (b"\0JOB\x04\xff\xff\xff\xff", wire.PACKET_TOO_LARGE),
        (b"\0JOB\x00\x00\x00\x01\x2d", wire.PACKET_TOO_LARGE),
        (b"\0JOB\xff\xff\xff\xff\xff", wire.PACKET_TOO_LARGE),
    ],
)
def test_a_stream_that_cannot_be_trusted_is_closed_after_an_error(bad: bytes, code: int) -> None:
    ask = wire.JOB_ASSIGN_REQ_PACKET
    for pieces in ([ask + bad], [bytes([byte]) for byte in ask + bad], [ask + bad + ask, ask]):
        guest = DraftHall(DraftOptions(packet_bytes_max=PACKET_BYTES_MAX)).guest()
        for piece in pieces:
            guest.say(piece)
        # What came before the bad packet counts.
        (first, (heard, body)) = guest.hears()
        assert first == (wire.JOB_ASSIGN_RES, b"")
        assert heard == wire.JOB_COMPLETE_RES
        assert body[:5] == b"\xff\xff\xff\xff" + bytes([code])
        assert guest.closed


# --- a packet that is not as it should be


SERVERS = (wire.JOB_CREATE_RES, wire.JOB_ASSIGN_RES, wire.JOB_STATUS_RES, wire.JOB_COMPLETE_RES)
BARE = (wire.NOOP, wire.WORKER_DISCONNECT, wire.WORKER_SLEEP, wire.JOB_ASSIGN_REQ)
MISTAKES: list[tuple[bytes, int]] = [
    *[(pack(packet_type), wire.UNKNOWN_TYPE) for packet_type in (0x10, 0x11, 0x7F, 0x80, 0xFF)],
    *[(pack(packet_type, body), wire.SERVER_ONLY) for packet_type in SERVERS for body in (b"", b"H:hall:1")],
    *[(pack(packet_type, body), wire.BAD_BODY) for packet_type in BARE for body in (b"x", bytes(100))],
    # worker_connect
    (pack(wire.WORKER_CONNECT, b"\0"), wire.BAD_BODY),
    (pack(wire.WORKER_CONNECT, b"rss\0\0mail"), wire.BAD_BODY),
    (pack(wire.WORKER_CONNECT, b"a\0" * 11), wire.BAD_BODY),
    (pack(wire.WORKER_CONNECT, b"n" * 41), wire.TOO_LARGE),
    # job_create_req
    *[
        (pack(wire.JOB_CREATE_REQ, (JOB + b"\0\1")[:length]), wire.BAD_BODY)
        for length in range(len(JOB + b"\0\1"))
    ],
    *[(pack(wire.JOB_CREATE_REQ, JOB + bytes([flags, 1])), wire.BAD_REQUEST) for flags in (3, 4, 5, 128, 255)],
    *[(pack(wire.JOB_CREATE_REQ, JOB + bytes([0, kind])), wire.BAD_REQUEST) for kind in (3, 4, 128, 255)],
    *[(pack(wire.JOB_CREATE_REQ, b"\0u7\0" + bytes([0, kind])), wire.BAD_REQUEST) for kind in range(3)],
    (pack(wire.JOB_CREATE_REQ, b"n" * 41 + b"\0\0\0\1"), wire.TOO_LARGE),
    (pack(wire.JOB_CREATE_REQ, b"rss\0" + b"k" * 41 + b"\0\0\1"), wire.TOO_LARGE),
    (pack(wire.JOB_CREATE_REQ, JOB + b"\0\1" + bytes(101)), wire.TOO_LARGE),
    # announcements of one who has no task
    *[(pack(wire.JOB_STATUS_ANNOUNCE, bytes(length)), wire.BAD_BODY) for length in (0, 1, 11, 13, 24)],
    (pack(wire.JOB_STATUS_ANNOUNCE, bytes(12)), wire.NO_TASK),
    (pack(wire.JOB_COMPLETE_ANNOUNCE), wire.BAD_BODY),
    (pack(wire.JOB_COMPLETE_ANNOUNCE, b"\0result"), wire.NO_TASK),
    (pack(wire.JOB_COMPLETE_ANNOUNCE, b"\x01"), wire.NO_TASK),
    # questions about nothing
    *[
        (pack(packet_type, handle), wire.UNKNOWN_HANDLE)
        for packet_type in (wire.JOB_STATUS_REQ, wire.JOB_COMPLETE_REQ)
        for handle in (b"", b"H:hall:1", b"H:hall:68719476737\0", b"\xff" * 200)
    ],
    # tasks that run elsewhere
    *[(pack(wire.TASK_START, (JOB + bytes(9))[:length]), wire.BAD_BODY) for length in range(len(JOB) + 8)],
    (pack(wire.TASK_START, JOB + bytes(9)), wire.BAD_BODY),
    *[(pack(wire.TASK_RESULT, (JOB + bytes(9))[:length]), wire.BAD_BODY) for length in range(len(JOB) + 9)],
    (wire.pack_task_start(b"rss", b"", START_US), wire.BAD_REQUEST),
    (wire.pack_task_result(b"", b"u7", START_US, 0, b""), wire.BAD_REQUEST),
]
STRICT = Limits(queue_name_bytes_max=40, key_bytes_max=40, payload_bytes_max=100, abilities_max=10)


@pytest.mark.parametrize(("packet", "code"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_answered_and_the_conversation_goes_on(packet: bytes, code: int) -> None:
    hall = DraftHall(limits=STRICT)
    guest = hall.guest().say(packet)
    guest.is_refused(code)
    assert not guest.closed
    assert not hall.scheduler.jobs
    still_served(guest)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"two words", b"line\nend", b"\x01", "größe".encode()])
def test_a_name_is_bytes(hall: DraftHall, name: bytes) -> None:
    application, worker = hall.guest(), hall.worker(name)
    handle = application.creates(name, name)
    assert application.creates(name, name) == handle
    assert worker.takes() == (name, b"")


def test_a_list_of_names_that_is_refused_leaves_a_worker_with_none() -> None:
    hall = DraftHall(limits=Limits(queue_name_bytes_max=8))
    hall.guest().creates(b"mail")
    worker = hall.worker(b"rss")
    worker.say(wire.pack_worker_connect([b"mail", b"much too long"]))
    worker.is_refused(wire.TOO_LARGE)
    assert worker.takes() is None
    # One that cannot even be read changes nothing.
    worker.say(wire.pack_worker_connect([b"mail"]))
    worker.say(pack(wire.WORKER_CONNECT, b"a\0\0b"))
    worker.is_refused(wire.BAD_BODY)
    assert worker.takes() == (b"mail", b"")


def test_a_full_hall_and_one_that_closes_say_so() -> None:
    hall = DraftHall(limits=Limits(jobs_max=1))
    guest = hall.guest()
    guest.creates(b"rss")
    guest.say(wire.pack_job_create_req(b"rss", b"", 0, wire.ASYNC_HANDLE, b""))
    assert "jobs_max" in guest.is_refused(wire.FULL)
    guest.say(wire.pack_task_start(b"rss", b"u7", START_US))
    assert "jobs_max" in guest.is_refused(wire.FULL)
    hall.scheduler.close()
    guest.say(wire.pack_job_create_req(b"rss", b"", 0, wire.SYNC_WAIT, b""))
    guest.is_refused(wire.CLOSING)
    still_served(hall.worker(b"rss"))


def test_somebody_elses_task_is_out_of_reach(hall: DraftHall) -> None:
    """A worker speaks of its own task only: there is no way to name another."""
    application, worker, thief = hall.guest(), hall.worker(b"rss"), hall.worker(b"rss")
    handle = application.creates(b"rss")
    worker.takes()
    for packet in (
        wire.pack_job_complete_announce(0, b"stolen"),
        wire.pack_job_complete_announce(9, b"stolen"),
        wire.pack_job_status_announce(9, 9),
    ):
        thief.say(packet)
        thief.is_refused(wire.NO_TASK)
    assert application.asks_status(handle) == (0, 0, 0)
    worker.completes(0, b"honest")
    worker.say(wire.pack_job_complete_announce(0, b"twice"))
    worker.is_refused(wire.NO_TASK)
    assert application.asks_end(handle) == (1, 0, b"honest")


def test_what_another_had_before_is_not_reported_on_by_who_had_it_first(hall: DraftHall) -> None:
    application, first, second = hall.guest(), hall.worker(b"rss"), hall.worker(b"rss")
    handle = application.creates(b"rss")
    first.takes()
    first.say(wire.WORKER_DISCONNECT_PACKET + wire.pack_worker_connect([b"rss"]))
    second.takes()
    first.say(wire.pack_job_complete_announce(0, b"first"))
    first.is_refused(wire.NO_TASK)
    second.completes(0, b"second")
    assert application.asks_end(handle) == (1, 0, b"second")


def test_who_asks_for_more_than_can_be_sent_is_closed_in_the_middle(hall: DraftHall) -> None:
    guest = hall.guest()
    guest.session.out_bytes_max = 10_000
    create = wire.pack_job_create_req(b"rss", b"", 0, wire.ASYNC_HANDLE, b"")
    guest.say(pack(wire.JOB_STATUS_REQ) * 1000 + create)
    assert guest.closed
    assert len(guest.reads()) < 15_000
    assert not hall.scheduler.jobs


@pytest.mark.parametrize("prefix", [b"", b"x" * 44, b"a b", b"a\0b", b"a\nb"])
def test_a_door_with_a_prefix_that_breaks_handles_does_not_open(hall: DraftHall, prefix: bytes) -> None:
    with pytest.raises(ValueError, match="prefix"):
        DraftContext(hall.scheduler, DraftOptions(handle_prefix=prefix), hall.engine.look_up)


# --- whatever arrives

words = st.sampled_from([b"", b"f", b"g", b"u", b"f\0u\0", b"H:hall:%d" % (FIRST + 1), b"\0", bytes(12)])
bodies = st.lists(words | st.binary(max_size=12), max_size=5).map(b"".join)
packets = st.builds(pack, st.sampled_from(sorted(wire.NAMES)), bodies)
LIVELY = [
    wire.pack_worker_connect([b"f", b"g"]),
    *[wire.pack_job_create_req(b"f", b"u", 0, job_type, b"1") for job_type in range(3)],
    wire.pack_job_create_req(b"g", b"", 1, wire.ASYNC_HANDLE, b"2"),
    wire.JOB_ASSIGN_REQ_PACKET,
    wire.WORKER_SLEEP_PACKET,
    wire.WORKER_DISCONNECT_PACKET,
    wire.pack_job_status_announce(1, 2, 3),
    wire.pack_job_complete_announce(0, b"done"),
    wire.pack_job_complete_announce(7, b"failed"),
    *[wire.pack_job_complete_req(b"H:hall:%d" % (FIRST + place)) for place in range(3)],
    wire.pack_job_status_req(b"H:hall:%d" % (FIRST + 1)),
    wire.pack_task_start(b"g", b"t", START_US),
    wire.pack_task_result(b"g", b"t", START_US, 0, b""),
]
speech = st.lists(packets | st.sampled_from(LIVELY) | st.binary(max_size=30), max_size=25)
lively_speech = st.lists(st.sampled_from(LIVELY), max_size=25)


@st.composite
def mutated_streams(draw: st.DrawFn) -> list[bytes]:
    """A stream of packets with some bytes changed, in arbitrary pieces."""
    stream = bytearray(b"".join(draw(speech | lively_speech)))
    for place, byte in draw(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4)):
        if place < len(stream):
            stream[place] = byte
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    return [bytes(stream[start:end]) for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


KEEP_ALL = Retention(age_us=1 << 62, dead_age_us=1 << 62)
SMALL = Limits(
    jobs_max=4,
    queues_max=3,
    abilities_max=2,
    watchers_max=3,
    queue_name_bytes_max=8,
    key_bytes_max=30,
    ended_max=1,
    residents_max=2,
)


@given(mutated_streams(), mutated_streams(), st.integers(0, 3), st.booleans(), st.booleans())
def test_no_stream_breaks_the_hall(
    first: list[bytes], second: list[bytes], waits: int, slow: bool, durable: bool
) -> None:
    options = DraftOptions(packet_bytes_max=PACKET_BYTES_MAX, background_durable=durable, failures_max=1)
    hall = DraftHall(options, SMALL)
    honest = hall.guest()
    guests = [hall.guest(), hall.guest()]
    for place in range(max(len(first), len(second))):
        hall.held = slow and place % 2 == 0
        for guest, pieces in zip(guests, (first, second), strict=True):
            if place < len(pieces):
                guest.say(pieces[place])
        hall.wait(waits * 700_000)
        assert len(hall.scheduler.jobs) <= SMALL.jobs_max
        assert len(hall.scheduler.queues) <= SMALL.queues_max
    hall.held = False
    for guest in guests:
        guest.hears()
        guest.leaves()
    still_served(honest)
    assert not honest.closed


# A task that is reported to have ended long ago: its line would expire with the commit that brings it.
@example([pack(wire.TASK_RESULT, b"g\0t\0\0\0GHF @\0\0"), wire.pack_job_complete_req(b"H:hall:68719476737")], 1)
@given(mutated_streams(), st.integers(1, 40))
def test_however_it_is_cut_the_same_is_said(pieces: list[bytes], step: int) -> None:
    """Also when some answers have to be looked up, and others wait for the disk."""
    stream = b"".join(pieces)
    whole = DraftHall(None, SMALL, KEEP_ALL).guest().say(stream).hears()
    drip = DraftHall(None, SMALL, KEEP_ALL).guest()
    for start in range(0, len(stream), step):
        drip.say(stream[start : start + step])
    assert answers(drip.hears()) == answers(whole)


def answers(said: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Without the wake-ups, which depend on where a turn ends."""
    return [packet for packet in said if packet[0] != wire.NOOP]
