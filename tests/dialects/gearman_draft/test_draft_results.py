"""Results that are asked for later: from memory before they are on disk, from the history after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from draft_room import SECOND_US, Guest, Room

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import HELD_BYTES_MORE, DraftOptions
from hiringhall.storage.contract import HistoryQuery

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_YET = b"\0\0\0\0\0"


def ended(room: Room, code: int = 0, data: bytes = b"small") -> bytes:
    """A job that has ended and is on disk; its handle."""
    handle = room.guest().creates(b"resize")
    worker = room.worker(b"resize")
    worker.takes()
    worker.completes(code, data)
    worker.leaves()
    return handle


def answer(room: Room) -> None:
    """A turn in which the store answers once."""
    room.begin()
    room.answer()
    room.engine.end()


# --- from the history


@pytest.mark.parametrize(("code", "data"), [(0, b"small"), (0, b""), (200, b"it broke")])
def test_a_result_is_there_after_a_restart(room: Room, code: int, data: bytes) -> None:
    handle = ended(room, code, data)
    room.open()
    assert room.guest().asks_end(handle) == (1, code, data)
    assert room.guest().asks_status(handle) == ((1, 1, 0) if code == 0 else (0, 0, 0))


def test_a_result_is_there_when_memory_has_forgotten_the_job() -> None:
    room = Room(limits=Limits(ended_max=1))
    first, failed, _ = ended(room), ended(room, 9, b"no"), ended(room)
    guest = room.guest()
    assert guest.asks_end(first) == (1, 0, b"small")
    assert guest.asks_status(first) == (1, 1, 0)
    assert guest.asks_end(failed) == (1, 9, b"no")
    assert guest.asks_status(failed) == (0, 0, 0)


def test_an_unfinished_job_has_its_handle_after_a_restart(room: Room) -> None:
    handle = room.guest().creates(b"resize", args=b"image")
    room.worker(b"resize").takes()
    room.open()
    guest, worker = room.guest(), room.worker(b"resize")
    assert guest.asks_end(handle) == (0, 0, b"")
    assert worker.takes() == (b"resize", b"image")
    worker.completes(0, b"small")
    assert guest.asks_end(handle) == (1, 0, b"small")


def test_what_comes_behind_a_look_up_waits_and_is_answered_in_order(room: Room) -> None:
    handle, other = ended(room, data=b"1"), ended(room, data=b"2")
    guest = room.worker(b"resize")
    room.slow = True
    guest.say(
        wire.JOB_ASSIGN_REQ_PACKET
        + wire.pack_job_complete_req(handle)
        + wire.pack_job_create_req(b"resize", b"", 0, wire.SYNC_WAIT, b"")
        + wire.pack_job_complete_req(other)
        + wire.JOB_ASSIGN_REQ_PACKET[:7]
    )
    assert guest.paused
    # Bytes that were on their way wait as well, and those that are read because a commit has returned.
    guest.resume()
    guest.say(wire.JOB_ASSIGN_REQ_PACKET[7:])
    assert guest.paused
    assert not room.hall.jobs
    assert guest.hears() == [(wire.JOB_ASSIGN_RES, b"")]
    answer(room)
    assert guest.paused
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x001"), (wire.JOB_CREATE_RES, b"")]
    answer(room)
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x002"), (wire.JOB_ASSIGN_RES, b"resize\0")]
    assert not guest.paused


def test_nobody_else_waits_for_a_look_up(room: Room) -> None:
    handle = ended(room)
    room.slow = True
    asking = room.guest().say(wire.pack_job_complete_req(handle))
    assert room.worker(b"resize").takes() is None
    assert asking.reads() == b""
    assert not asking.paused


def test_one_who_says_no_more_is_answered_first(room: Room) -> None:
    handle, other = ended(room, data=b"1"), ended(room, data=b"2")
    guest = room.guest()
    room.slow = True
    guest.say(wire.pack_job_complete_req(handle) + wire.pack_job_complete_req(other))
    guest.says_no_more()
    assert not guest.closed
    answer(room)
    answer(room)
    assert [body for _, body in guest.hears()] == [b"\0\0\0\x01\x001", b"\0\0\0\x01\x002"]
    assert guest.closed


def test_one_who_is_gone_is_not_answered(room: Room) -> None:
    handle = ended(room)
    guest = room.guest()
    room.slow = True
    guest.say(wire.pack_job_complete_req(handle))
    guest.leaves()
    answer(room)
    assert guest.reads() == b""


def test_a_mistake_behind_a_look_up_is_answered_after_it(room: Room) -> None:
    handle = ended(room)
    guest = room.guest()
    room.slow = True
    guest.say(wire.pack_job_complete_req(handle) + b"\0REQ" + bytes(8))
    assert guest.reads() == b""
    answer(room)
    (first, _), (second, body) = guest.hears()
    assert (first, second) == (wire.JOB_COMPLETE_RES, wire.JOB_COMPLETE_RES)
    assert body[:5] == b"\xff\xff\xff\xff" + bytes([wire.BAD_MAGIC])
    assert guest.closed


def test_who_sends_without_end_behind_a_look_up_is_closed() -> None:
    room = Room(DraftOptions(packet_bytes_max=1000))
    handle = ended(room)
    guest = room.guest()
    room.slow = True
    guest.say(wire.pack_job_complete_req(handle))
    for _ in range(HELD_BYTES_MORE // 9000 + 1):
        guest.say(wire.NOOP_PACKET * 1000)
    assert guest.session.closing
    guest.is_refused(wire.FULL)
    assert guest.closed
    answer(room)
    assert guest.reads() == b""


def test_what_was_said_before_a_look_up_is_no_burden_to_it() -> None:
    room = Room(DraftOptions(packet_bytes_max=1000))
    handle = ended(room)
    guest = room.guest()
    for _ in range(HELD_BYTES_MORE // 90_000 + 1):
        guest.say(wire.NOOP_PACKET * 10_000)
    room.slow = True
    guest.say(wire.pack_job_complete_req(handle))
    guest.say(wire.NOOP_PACKET * 1000)
    answer(room)
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0small")]


def test_many_look_ups_at_once(room: Room) -> None:
    handles = [ended(room, data=b"%d" % place) for place in range(20)]
    guest = room.guest()
    guest.say(b"".join(map(wire.pack_job_complete_req, handles)))
    assert [body for _, body in guest.hears()] == [b"\0\0\0\x01\0%d" % place for place in range(20)]


def test_a_history_that_cannot_be_read_says_so(room: Room) -> None:
    handle = ended(room)
    guest = room.guest()
    room.trouble = "disk on fire: \udcff"
    guest.say(wire.pack_job_complete_req(handle))
    assert guest.is_refused(wire.STORE_DOWN) == "disk on fire: ?"
    room.trouble = ""
    assert guest.asks_end(handle) == (1, 0, b"small")


# --- from memory


def test_an_end_is_told_when_it_is_on_disk(room: Room) -> None:
    application, worker = room.guest(), room.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    room.slow = True
    worker.completes(0, b"small")
    application.say(wire.pack_job_complete_req(handle))
    assert application.reads() == b""
    answer(room)
    assert application.reads() == bytes.fromhex("004A4F42 0D 0000000A 00000001 00 736D616C6C")


def test_an_end_that_the_store_refuses_is_told_when_it_works_again(room: Room) -> None:
    application, worker = room.guest(), room.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    room.trouble = "disk full"
    worker.completes(0, b"small")
    application.say(wire.pack_job_complete_req(handle))
    assert application.reads() == b""
    room.trouble = ""
    room.wait(SECOND_US)
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0small")]


@pytest.mark.parametrize("job_type", [wire.ASYNC_HANDLE, wire.ASYNC_THROW_AWAY])
def test_a_job_that_cannot_be_stored_is_refused(room: Room, job_type: int) -> None:
    application = room.guest()
    room.trouble = "disk full"
    create = wire.pack_job_create_req(b"resize", b"", 0, job_type, b"")
    application.say(create)
    assert application.is_refused(wire.STORE_DOWN) == "disk full"
    application.say(create)
    assert application.is_refused(wire.STORE_DOWN) == "disk full"
    assert not room.hall.jobs
    application.say(wire.pack_job_create_req(b"resize", b"", 0, wire.SYNC_WAIT, b""))
    assert application.hears() == [(wire.JOB_CREATE_RES, b"")]


def retried(room: Room) -> tuple[Guest, Guest, bytes]:
    """A dead letter that was asked to run again."""
    application, worker = room.guest(), room.worker(b"resize")
    handle = application.creates(b"resize", b"u7")
    worker.takes()
    worker.completes(5, b"first")
    job = room.hall.archive.find(room.door.job_id(handle))
    assert job is not None
    room.slow = True
    room.begin()
    room.hall.retry(job)
    room.engine.end()
    return application, worker, handle


def test_a_dead_letter_that_ran_again_tells_its_new_end(room: Room) -> None:
    application, worker, handle = retried(room)
    assert application.asks_end(handle) == (0, 0, b"")
    worker.takes()
    worker.completes(0, b"second")
    room.slow = False
    assert application.asks_end(handle) == (1, 0, b"second")


@pytest.mark.parametrize(
    ("packet", "heard"),
    [
        (wire.pack_job_complete_req, (wire.JOB_COMPLETE_RES, NOT_YET)),
        (wire.pack_job_status_req, (wire.JOB_STATUS_RES, bytes(12))),
    ],
)
def test_a_dead_letter_that_comes_to_life_while_it_is_looked_up(
    packet: Callable[[bytes], bytes], heard: tuple[int, bytes]
) -> None:
    room = Room(limits=Limits(ended_max=1))
    application, worker = room.guest(), room.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    worker.completes(5, b"first")
    job = room.hall.archive.find(room.door.job_id(handle))
    assert job is not None
    ended(room)
    room.slow = True
    application.say(packet(handle))
    (question,) = room.questions
    room.questions.clear()
    room.begin()
    room.hall.archive.add(job)
    room.hall.retry(job)
    room.engine.looked_up(*question, None, "")
    room.engine.end()
    assert application.hears() == [heard]


# --- what is not kept


def test_a_job_in_memory_leaves_no_result() -> None:
    room = Room(DraftOptions(background_durable=False))
    application, worker = room.guest(), room.worker(b"resize")
    with_key, without = application.creates(b"resize", b"u7"), application.creates(b"resize")
    for _ in range(2):
        worker.takes()
        worker.completes(0, b"small")
    # That it ended is still known; how it ended is known if it can be named.
    application.say(wire.pack_job_complete_req(with_key))
    assert "the job is done" in application.is_refused(wire.NOT_KEPT)
    assert application.asks_status(with_key) == (1, 1, 0)
    for packet in (wire.pack_job_complete_req(without), wire.pack_job_status_req(without)):
        assert "the job has ended" in application.say(packet).is_refused(wire.NOT_KEPT)


def test_after_a_restart_a_job_in_memory_is_unknown() -> None:
    room = Room(DraftOptions(background_durable=False))
    handle = room.guest().creates(b"resize")
    room.open()
    room.guest().say(wire.pack_job_complete_req(handle)).is_refused(wire.UNKNOWN_HANDLE)


def test_an_expired_job_has_one_code_on_the_wire_and_in_the_history() -> None:
    room = Room(DraftOptions(expire_us=10 * SECOND_US))
    application = room.guest()
    handle = application.creates(b"resize")
    room.wait(10 * SECOND_US)
    code = application.asks_end(handle)[1]
    (line,) = room.store.history(HistoryQuery(id=room.door.job_id(handle), limit=1))
    assert (line.code, code) == (130, 130)


@pytest.mark.parametrize("key", [b"u7", b""])
def test_a_job_in_memory_that_is_logged_leaves_its_result(key: bytes) -> None:
    room = Room(DraftOptions(background_durable=False, log_all=True))
    application, worker = room.guest(), room.worker(b"resize")
    handle = application.creates(b"resize", key)
    worker.takes()
    room.slow = True
    worker.completes(0, b"small")
    assert application.asks_end(handle) == (1, 0, b"small")
    room.slow = False
    room.wait(SECOND_US)
    assert application.asks_end(handle) == (1, 0, b"small")
    room.open()
    assert room.guest().asks_end(handle) == (1, 0, b"small")


def test_a_logged_sync_job_is_in_the_history() -> None:
    room = Room(DraftOptions(log_all=True))
    application, worker = room.guest(), room.worker(b"resize")
    application.say(wire.pack_job_create_req(b"resize", b"", 0, wire.SYNC_WAIT, b"")).reads()
    (job_id,) = room.hall.jobs
    worker.takes()
    worker.completes(7, b"no")
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x07no")]
    assert room.guest().asks_end(room.door.handle(job_id)) == (1, 7, b"no")


@pytest.mark.parametrize(
    "handle",
    [
        b"",
        b"H:hall:",
        b"H:hall:0",
        b"H:hall:01",
        b"H:hall:1",
        b"H:hall:68719476736",
        b"H:hall:68719476738",
        b"H:hall:68719476737\0",
        b"H:hall:99999999999999999999",
        b"H:other:68719476737",
        b"\xff" * 300,
    ],
)
@pytest.mark.parametrize("packet_type", [wire.JOB_COMPLETE_REQ, wire.JOB_STATUS_REQ])
def test_a_handle_that_was_never_given(room: Room, packet_type: int, handle: bytes) -> None:
    ended(room)
    guest = room.guest().say(wire.pack(packet_type, handle))
    guest.is_refused(wire.UNKNOWN_HANDLE)


def test_a_handle_of_a_boot_that_never_was_costs_no_look_up(room: Room) -> None:
    room.slow = True
    guest = room.guest().say(wire.pack_job_complete_req(b"H:hall:%d" % (2 << 36)))
    guest.is_refused(wire.UNKNOWN_HANDLE)
    assert not room.questions
