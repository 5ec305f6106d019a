"""Tasks that run outside the hall, told to its log: register_start_task and register_task_result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from draft_room import SECOND_US, START_US, Guest, Room

from hiringhall.core.states import DONE, FAILED
from hiringhall.dialects.gearman_draft import wire
from hiringhall.storage.contract import HistoryQuery

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow


def reports(guest: Guest, packet: bytes) -> bytes:
    """The handle that a report is answered with."""
    ((heard, handle),) = guest.say(packet).hears()
    assert heard == wire.JOB_CREATE_RES, handle
    return handle


def line(room: Room, handle: bytes) -> EndRow:
    (found,) = room.store.history(HistoryQuery(id=room.door.job_id(handle)))
    return found


def test_a_task_is_logged_from_its_start_to_its_end(room: Room) -> None:
    guest = room.guest()
    handle = reports(guest, wire.pack_task_start(b"nightly", b"2026-01-01", START_US - 5 * SECOND_US))
    assert guest.asks_end(handle) == (0, 0, b"")
    assert [row.key for row in room.store.live()] == [b"2026-01-01"]
    room.wait(60 * SECOND_US)
    ended_us = START_US + 50 * SECOND_US
    assert reports(guest, wire.pack_task_result(b"nightly", b"2026-01-01", ended_us, 0, b"42 rows")) == handle
    assert guest.asks_end(handle) == (55, 0, b"42 rows")
    end = line(room, handle)
    assert (end.queue, end.key, end.state, end.worker) == (b"nightly", b"2026-01-01", DONE, b"127.0.0.1")
    assert (end.started_us, end.ended_us) == (START_US - 5 * SECOND_US, ended_us)


def test_a_result_without_a_start_is_logged_too(room: Room) -> None:
    handle = reports(room.guest(), wire.pack_task_result(b"nightly", b"k", START_US, 9, b"no rows"))
    end = line(room, handle)
    assert (end.state, end.code, end.result, end.started_us, end.ended_us) == (
        FAILED,
        9,
        b"no rows",
        START_US,
        START_US,
    )


def test_time_0_is_now_and_the_future_is_not_believed(room: Room) -> None:
    guest = room.guest()
    assert line(room, reports(guest, wire.pack_task_result(b"n", b"1", 0, 0, b""))).ended_us == START_US
    room.wait(SECOND_US)
    now_us = room.now_us
    handle = reports(guest, wire.pack_task_result(b"n", b"2", 2**64 - 1, 0, b""))
    assert line(room, handle).ended_us == now_us
    reports(guest, wire.pack_task_start(b"n", b"3", 0))
    room.wait(SECOND_US)
    now_us = room.now_us
    # It cannot have ended before it began.
    handle = reports(guest, wire.pack_task_result(b"n", b"3", 17, 0, b""))
    assert line(room, handle).ended_us == now_us


def test_a_task_goes_on_over_a_restart_and_anybody_may_end_it(room: Room) -> None:
    handle = reports(room.guest(), wire.pack_task_start(b"nightly", b"k", START_US))
    room.open()
    worker = room.worker(b"nightly")
    assert worker.takes() is None
    assert reports(worker, wire.pack_task_result(b"nightly", b"k", START_US, 0, b"")) == handle


def test_a_task_that_is_under_way_is_not_started_again(room: Room) -> None:
    guest = room.guest()
    start = wire.pack_task_start(b"nightly", b"k", START_US)
    reports(guest, start)
    guest.say(start)
    guest.is_refused(wire.BUSY)
    # Those who hand in a job of that name and key learn of the task.
    application = room.guest()
    application.say(wire.pack_job_create_req(b"nightly", b"k", 0, wire.SYNC_WAIT, b"")).reads()
    reports(guest, wire.pack_task_result(b"nightly", b"k", START_US, 3, b"broke"))
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x03broke")]


def test_a_job_of_the_hall_is_ended_by_its_worker_alone(room: Room) -> None:
    application, worker, stranger = room.guest(), room.worker(b"resize"), room.guest()
    handle = application.creates(b"resize", b"k")
    result = wire.pack_task_result(b"resize", b"k", START_US, 0, b"forged")

    def forge() -> None:
        for packet in (wire.pack_task_start(b"resize", b"k", START_US), result):
            stranger.say(packet)
            stranger.is_refused(wire.BUSY)

    forge()
    worker.takes()
    forge()
    # What a worker that is known by its name holds is its own too.
    worker.say(wire.WORKER_DISCONNECT_PACKET)
    room.begin()
    room.hall.take(room.hall.residents.get(b"resize", b"somebody"))
    room.end()
    forge()
    assert application.asks_end(handle) == (0, 0, b"")


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (wire.pack_task_start(b"nightly", b"", START_US), wire.BAD_REQUEST),
        (wire.pack_task_result(b"nightly", b"", START_US, 0, b""), wire.BAD_REQUEST),
        (wire.pack_task_start(b"", b"k", START_US), wire.BAD_REQUEST),
        (wire.pack_task_result(b"", b"k", START_US, 0, b""), wire.BAD_REQUEST),
        (wire.pack_task_start(b"nightly", b"k" * 4097, START_US), wire.TOO_LARGE),
        (wire.pack_task_start(b"n" * 600, b"k", START_US), wire.TOO_LARGE),
    ],
)
def test_a_task_has_a_name_and_a_key(room: Room, packet: bytes, code: int) -> None:
    room.guest().say(packet).is_refused(code)
    assert not room.hall.jobs


def test_a_report_is_answered_when_it_is_on_disk(room: Room) -> None:
    guest = room.guest()
    room.slow = True
    guest.say(wire.pack_task_start(b"nightly", b"k", START_US))
    guest.say(wire.pack_task_result(b"nightly", b"k", START_US, 0, b""))
    assert guest.reads() == b""
    room.settle()
    (first, second) = guest.hears()
    assert first == second
    guest.say(wire.pack_task_start(b"nightly", b"k2", START_US))
    room.settle()
    guest.reads()
    guest.say(wire.pack_task_result(b"nightly", b"k2", START_US, 0, b""))
    assert guest.reads() == b""
    room.settle()
    assert guest.hears()[0][0] == wire.JOB_CREATE_RES


@pytest.mark.parametrize(
    "packet",
    [
        wire.pack_task_start(b"nightly", b"k", START_US),
        wire.pack_task_result(b"nightly", b"k", START_US, 0, b""),
    ],
)
def test_a_report_that_cannot_be_stored_is_refused(room: Room, packet: bytes) -> None:
    guest = room.guest()
    room.trouble = "disk full"
    assert guest.say(packet).is_refused(wire.STORE_DOWN) == "disk full"
    room.trouble = ""
    room.wait(SECOND_US)
    reports(guest, packet)


def test_the_end_of_a_stored_task_waits_for_a_store_that_works_again(room: Room) -> None:
    guest = room.guest()
    handle = reports(guest, wire.pack_task_start(b"nightly", b"k", START_US))
    room.trouble = "disk full"
    guest.say(wire.pack_task_result(b"nightly", b"k", START_US, 0, b"42"))
    assert guest.reads() == b""
    room.trouble = ""
    room.wait(SECOND_US)
    assert guest.hears() == [(wire.JOB_CREATE_RES, handle)]
    assert line(room, handle).result == b"42"
