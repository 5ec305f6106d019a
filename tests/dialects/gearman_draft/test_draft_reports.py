"""Tasks that run outside the hall, told to its log: register_start_task and register_task_result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.states import DONE, FAILED
from hiringhall.dialects.gearman_draft import wire
from hiringhall.storage.contract import HistoryQuery
from stage.hall import SECOND_US, START_US

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from stage.draft import DraftGuest, DraftHall


def reports(guest: DraftGuest, packet: bytes) -> bytes:
    """The handle that a report is answered with."""
    ((heard, handle),) = guest.say(packet).hears()
    assert heard == wire.JOB_CREATE_RES, handle
    return handle


def line(hall: DraftHall, handle: bytes) -> EndRow:
    (found,) = hall.store.history(HistoryQuery(id=hall.context.job_id(handle)))
    return found


def test_a_task_is_logged_from_its_start_to_its_end(hall: DraftHall) -> None:
    guest = hall.guest()
    handle = reports(guest, wire.pack_task_start(b"nightly", b"2026-01-01", START_US - 5 * SECOND_US))
    assert guest.asks_end(handle) == (0, 0, b"")
    assert [row.key for row in hall.store.live()] == [b"2026-01-01"]
    hall.wait(60 * SECOND_US)
    ended_us = START_US + 50 * SECOND_US
    assert reports(guest, wire.pack_task_result(b"nightly", b"2026-01-01", ended_us, 0, b"42 rows")) == handle
    assert guest.asks_end(handle) == (55, 0, b"42 rows")
    end = line(hall, handle)
    assert (end.queue, end.key, end.state, end.worker) == (b"nightly", b"2026-01-01", DONE, b"127.0.0.1")
    assert (end.started_us, end.ended_us) == (START_US - 5 * SECOND_US, ended_us)


def test_a_result_without_a_start_is_logged_too(hall: DraftHall) -> None:
    handle = reports(hall.guest(), wire.pack_task_result(b"nightly", b"k", START_US, 9, b"no rows"))
    end = line(hall, handle)
    assert (end.state, end.code, end.result, end.started_us, end.ended_us) == (
        FAILED,
        9,
        b"no rows",
        START_US,
        START_US,
    )


def test_time_0_is_now_and_the_future_is_not_believed(hall: DraftHall) -> None:
    guest = hall.guest()
    assert line(hall, reports(guest, wire.pack_task_result(b"n", b"1", 0, 0, b""))).ended_us == START_US
    hall.wait(SECOND_US)
    now_us = hall.now_us
    handle = reports(guest, wire.pack_task_result(b"n", b"2", 2**64 - 1, 0, b""))
    assert line(hall, handle).ended_us == now_us
    reports(guest, wire.pack_task_start(b"n", b"3", 0))
    hall.wait(SECOND_US)
    now_us = hall.now_us
    # It cannot have ended before it began.
    handle = reports(guest, wire.pack_task_result(b"n", b"3", 17, 0, b""))
    assert line(hall, handle).ended_us == now_us


def test_a_task_goes_on_over_a_restart_and_anybody_may_end_it(hall: DraftHall) -> None:
    handle = reports(hall.guest(), wire.pack_task_start(b"nightly", b"k", START_US))
    hall.open()
    worker = hall.worker(b"nightly")
    assert worker.takes() is None
    assert reports(worker, wire.pack_task_result(b"nightly", b"k", START_US, 0, b"")) == handle


def test_a_task_that_is_under_way_is_not_started_again(hall: DraftHall) -> None:
    guest = hall.guest()
    start = wire.pack_task_start(b"nightly", b"k", START_US)
    reports(guest, start)
    guest.say(start)
    guest.is_refused(wire.BUSY)
    # Those who hand in a job of that name and key learn of the task.
    application = hall.guest()
    application.say(wire.pack_job_create_req(b"nightly", b"k", 0, wire.SYNC_WAIT, b"")).reads()
    reports(guest, wire.pack_task_result(b"nightly", b"k", START_US, 3, b"broke"))
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x03broke")]


def test_a_job_of_the_hall_is_ended_by_its_worker_alone(hall: DraftHall) -> None:
    application, worker, stranger = hall.guest(), hall.worker(b"resize"), hall.guest()
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
    hall.begin()
    hall.scheduler.take(hall.scheduler.residents.get(b"resize", b"somebody"))
    hall.end()
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
def test_a_task_has_a_name_and_a_key(hall: DraftHall, packet: bytes, code: int) -> None:
    hall.guest().say(packet).is_refused(code)
    assert not hall.scheduler.jobs


def test_a_report_is_answered_when_it_is_on_disk(hall: DraftHall) -> None:
    guest = hall.guest()
    hall.held = True
    guest.say(wire.pack_task_start(b"nightly", b"k", START_US))
    guest.say(wire.pack_task_result(b"nightly", b"k", START_US, 0, b""))
    assert guest.reads() == b""
    hall.settle()
    (first, second) = guest.hears()
    assert first == second
    guest.say(wire.pack_task_start(b"nightly", b"k2", START_US))
    hall.settle()
    guest.reads()
    guest.say(wire.pack_task_result(b"nightly", b"k2", START_US, 0, b""))
    assert guest.reads() == b""
    hall.settle()
    assert guest.hears()[0][0] == wire.JOB_CREATE_RES


@pytest.mark.parametrize(
    "packet",
    [
        wire.pack_task_start(b"nightly", b"k", START_US),
        wire.pack_task_result(b"nightly", b"k", START_US, 0, b""),
    ],
)
def test_a_report_that_cannot_be_stored_is_refused(hall: DraftHall, packet: bytes) -> None:
    guest = hall.guest()
    hall.trouble = "disk full"
    assert guest.say(packet).is_refused(wire.STORE_DOWN) == "disk full"
    hall.trouble = ""
    hall.wait(SECOND_US)
    reports(guest, packet)


def test_the_end_of_a_stored_task_waits_for_a_store_that_works_again(hall: DraftHall) -> None:
    guest = hall.guest()
    handle = reports(guest, wire.pack_task_start(b"nightly", b"k", START_US))
    hall.trouble = "disk full"
    guest.say(wire.pack_task_result(b"nightly", b"k", START_US, 0, b"42"))
    assert guest.reads() == b""
    hall.trouble = ""
    hall.wait(SECOND_US)
    assert guest.hears() == [(wire.JOB_CREATE_RES, handle)]
    assert line(hall, handle).result == b"42"
