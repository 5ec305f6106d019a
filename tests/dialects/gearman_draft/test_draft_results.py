"""Results that are asked for later: from memory before they are on disk, from the history after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import HELD_BYTES_MORE, DraftOptions
from hiringhall.storage.contract import HistoryQuery
from stage.draft import DraftGuest, DraftHall
from stage.hall import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_YET = b"\0\0\0\0\0"


def ended(hall: DraftHall, code: int = 0, data: bytes = b"small") -> bytes:
    """A job that has ended and is on disk; its handle."""
    handle = hall.guest().creates(b"resize")
    worker = hall.worker(b"resize")
    worker.takes()
    worker.completes(code, data)
    worker.leaves()
    hall.settle()
    return handle


def answer(hall: DraftHall) -> None:
    """A turn in which the store answers once."""
    hall.begin()
    hall.answer()
    hall.end()


# --- from the history


@pytest.mark.parametrize(("code", "data"), [(0, b"small"), (0, b""), (200, b"it broke")])
def test_a_result_is_there_after_a_restart(hall: DraftHall, code: int, data: bytes) -> None:
    handle = ended(hall, code, data)
    hall.open()
    assert hall.guest().asks_end(handle) == (1, code, data)
    assert hall.guest().asks_status(handle) == ((1, 1, 0) if code == 0 else (0, 0, 0))


def test_a_result_is_there_when_memory_has_forgotten_the_job() -> None:
    hall = DraftHall(limits=Limits(ended_max=1))
    first, failed, _ = ended(hall), ended(hall, 9, b"no"), ended(hall)
    guest = hall.guest()
    assert guest.asks_end(first) == (1, 0, b"small")
    assert guest.asks_status(first) == (1, 1, 0)
    assert guest.asks_end(failed) == (1, 9, b"no")
    assert guest.asks_status(failed) == (0, 0, 0)


def test_an_unfinished_job_has_its_handle_after_a_restart(hall: DraftHall) -> None:
    handle = hall.guest().creates(b"resize", args=b"image")
    hall.worker(b"resize").takes()
    hall.open()
    guest, worker = hall.guest(), hall.worker(b"resize")
    assert guest.asks_end(handle) == (0, 0, b"")
    assert worker.takes() == (b"resize", b"image")
    worker.completes(0, b"small")
    assert guest.asks_end(handle) == (1, 0, b"small")


def test_what_comes_behind_a_look_up_waits_and_is_answered_in_order(hall: DraftHall) -> None:
    handle, other = ended(hall, data=b"1"), ended(hall, data=b"2")
    guest = hall.worker(b"resize")
    hall.held = True
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
    assert not hall.scheduler.jobs
    assert guest.hears() == [(wire.JOB_ASSIGN_RES, b"")]
    answer(hall)
    assert guest.paused
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x001"), (wire.JOB_CREATE_RES, b"")]
    answer(hall)
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x002"), (wire.JOB_ASSIGN_RES, b"resize\0")]
    assert not guest.paused


def test_nobody_else_waits_for_a_look_up(hall: DraftHall) -> None:
    handle = ended(hall)
    hall.held = True
    asking = hall.guest().say(wire.pack_job_complete_req(handle))
    assert hall.worker(b"resize").takes() is None
    assert asking.reads() == b""
    assert not asking.paused


def test_one_who_says_no_more_is_answered_first(hall: DraftHall) -> None:
    handle, other = ended(hall, data=b"1"), ended(hall, data=b"2")
    guest = hall.guest()
    hall.held = True
    guest.say(wire.pack_job_complete_req(handle) + wire.pack_job_complete_req(other))
    guest.says_no_more()
    assert not guest.closed
    answer(hall)
    answer(hall)
    assert [body for _, body in guest.hears()] == [b"\0\0\0\x01\x001", b"\0\0\0\x01\x002"]
    assert guest.closed


def test_one_who_is_gone_is_not_answered(hall: DraftHall) -> None:
    handle = ended(hall)
    guest = hall.guest()
    hall.held = True
    guest.say(wire.pack_job_complete_req(handle))
    guest.leaves()
    answer(hall)
    assert guest.reads() == b""


def test_a_mistake_behind_a_look_up_is_answered_after_it(hall: DraftHall) -> None:
    handle = ended(hall)
    guest = hall.guest()
    hall.held = True
    guest.say(wire.pack_job_complete_req(handle) + b"\0REQ" + bytes(8))
    assert guest.reads() == b""
    answer(hall)
    (first, _), (second, body) = guest.hears()
    assert (first, second) == (wire.JOB_COMPLETE_RES, wire.JOB_COMPLETE_RES)
    assert body[:5] == b"\xff\xff\xff\xff" + bytes([wire.BAD_MAGIC])
    assert guest.closed


def test_who_sends_without_end_behind_a_look_up_is_closed() -> None:
    hall = DraftHall(DraftOptions(packet_bytes_max=1000))
    handle = ended(hall)
    guest = hall.guest()
    hall.held = True
    guest.say(wire.pack_job_complete_req(handle))
    for _ in range(HELD_BYTES_MORE // 9000 + 1):
        guest.say(wire.NOOP_PACKET * 1000)
    assert guest.session.closing
    guest.is_refused(wire.FULL)
    assert guest.closed
    answer(hall)
    assert guest.reads() == b""


def test_what_was_said_before_a_look_up_is_no_burden_to_it() -> None:
    hall = DraftHall(DraftOptions(packet_bytes_max=1000))
    handle = ended(hall)
    guest = hall.guest()
    for _ in range(HELD_BYTES_MORE // 90_000 + 1):
        guest.say(wire.NOOP_PACKET * 10_000)
    hall.held = True
    guest.say(wire.pack_job_complete_req(handle))
    guest.say(wire.NOOP_PACKET * 1000)
    answer(hall)
    assert guest.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0small")]


def test_many_look_ups_at_once(hall: DraftHall) -> None:
    handles = [ended(hall, data=b"%d" % place) for place in range(20)]
    guest = hall.guest()
    guest.say(b"".join(map(wire.pack_job_complete_req, handles)))
    assert [body for _, body in guest.hears()] == [b"\0\0\0\x01\0%d" % place for place in range(20)]


def test_a_history_that_cannot_be_read_says_so(hall: DraftHall) -> None:
    handle = ended(hall)
    guest = hall.guest()
    hall.trouble = "disk on fire: \udcff"
    guest.say(wire.pack_job_complete_req(handle))
    assert guest.is_refused(wire.STORE_DOWN) == "disk on fire: ?"
    hall.trouble = ""
    assert guest.asks_end(handle) == (1, 0, b"small")


# --- from memory


def test_an_end_is_told_when_it_is_on_disk(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    hall.held = True
    worker.completes(0, b"small")
    application.say(wire.pack_job_complete_req(handle))
    assert application.reads() == b""
    answer(hall)
    assert application.reads() == bytes.fromhex("004A4F42 0D 0000000A 00000001 00 736D616C6C")


def test_an_end_that_the_store_refuses_is_told_when_it_works_again(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    hall.trouble = "disk full"
    worker.completes(0, b"small")
    application.say(wire.pack_job_complete_req(handle))
    assert application.reads() == b""
    hall.trouble = ""
    hall.wait(SECOND_US)
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0small")]


@pytest.mark.parametrize("job_type", [wire.ASYNC_HANDLE, wire.ASYNC_THROW_AWAY])
def test_a_job_that_cannot_be_stored_is_refused(hall: DraftHall, job_type: int) -> None:
    application = hall.guest()
    hall.trouble = "disk full"
    create = wire.pack_job_create_req(b"resize", b"", 0, job_type, b"")
    application.say(create)
    assert application.is_refused(wire.STORE_DOWN) == "disk full"
    application.say(create)
    assert application.is_refused(wire.STORE_DOWN) == "disk full"
    assert not hall.scheduler.jobs
    application.say(wire.pack_job_create_req(b"resize", b"", 0, wire.SYNC_WAIT, b""))
    assert application.hears() == [(wire.JOB_CREATE_RES, b"")]


def retried(hall: DraftHall) -> tuple[DraftGuest, DraftGuest, bytes]:
    """A dead letter that was asked to run again."""
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", b"u7")
    worker.takes()
    worker.completes(5, b"first")
    job = hall.scheduler.archive.find(hall.context.job_id(handle))
    assert job is not None
    hall.held = True
    hall.begin()
    hall.scheduler.retry(job)
    hall.end()
    return application, worker, handle


def test_a_dead_letter_that_ran_again_tells_its_new_end(hall: DraftHall) -> None:
    application, worker, handle = retried(hall)
    assert application.asks_end(handle) == (0, 0, b"")
    worker.takes()
    worker.completes(0, b"second")
    hall.held = False
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
    hall = DraftHall(limits=Limits(ended_max=1))
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    worker.completes(5, b"first")
    job = hall.scheduler.archive.find(hall.context.job_id(handle))
    assert job is not None
    ended(hall)
    hall.held = True
    application.say(packet(handle))
    (question,) = hall.requests.look_ups
    hall.requests.look_ups.clear()
    hall.begin()
    hall.scheduler.archive.add(job)
    hall.scheduler.retry(job)
    hall.engine.looked_up(*question, None, "")
    hall.end()
    assert application.hears() == [heard]


# --- what is not kept


def test_a_job_in_memory_leaves_no_result() -> None:
    hall = DraftHall(DraftOptions(background_durable=False))
    application, worker = hall.guest(), hall.worker(b"resize")
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
    hall = DraftHall(DraftOptions(background_durable=False))
    handle = hall.guest().creates(b"resize")
    hall.open()
    hall.guest().say(wire.pack_job_complete_req(handle)).is_refused(wire.UNKNOWN_HANDLE)


def test_an_expired_job_has_one_code_on_the_wire_and_in_the_history() -> None:
    hall = DraftHall(DraftOptions(expire_us=10 * SECOND_US))
    application = hall.guest()
    handle = application.creates(b"resize")
    hall.wait(10 * SECOND_US)
    code = application.asks_end(handle)[1]
    (line,) = hall.store.history(HistoryQuery(id=hall.context.job_id(handle), limit=1))
    assert (line.code, code) == (130, 130)


@pytest.mark.parametrize("key", [b"u7", b""])
def test_a_job_in_memory_that_is_logged_leaves_its_result(key: bytes) -> None:
    hall = DraftHall(DraftOptions(background_durable=False, log_all=True))
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", key)
    worker.takes()
    hall.held = True
    worker.completes(0, b"small")
    assert application.asks_end(handle) == (1, 0, b"small")
    hall.held = False
    hall.wait(SECOND_US)
    assert application.asks_end(handle) == (1, 0, b"small")
    hall.open()
    assert hall.guest().asks_end(handle) == (1, 0, b"small")


def test_a_logged_sync_job_is_in_the_history() -> None:
    hall = DraftHall(DraftOptions(log_all=True))
    application, worker = hall.guest(), hall.worker(b"resize")
    application.say(wire.pack_job_create_req(b"resize", b"", 0, wire.SYNC_WAIT, b"")).reads()
    (job_id,) = hall.scheduler.jobs
    worker.takes()
    worker.completes(7, b"no")
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x07no")]
    assert hall.guest().asks_end(hall.context.handle(job_id)) == (1, 7, b"no")


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
def test_a_handle_that_was_never_given(hall: DraftHall, packet_type: int, handle: bytes) -> None:
    ended(hall)
    guest = hall.guest().say(wire.pack(packet_type, handle))
    guest.is_refused(wire.UNKNOWN_HANDLE)


def test_a_handle_of_a_boot_that_never_was_costs_no_look_up(hall: DraftHall) -> None:
    hall.held = True
    guest = hall.guest().say(wire.pack_job_complete_req(b"H:hall:%d" % (2 << 36)))
    guest.is_refused(wire.UNKNOWN_HANDLE)
    assert not hall.requests.look_ups
