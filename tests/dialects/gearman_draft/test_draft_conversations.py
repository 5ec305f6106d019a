"""Applications and workers who do as the draft says: what they say, what they hear, to the byte."""

from __future__ import annotations

import pytest

from hiringhall.dialects.gearman_draft import wire
from hiringhall.dialects.gearman_draft.session import DraftOptions
from stage.draft import DraftGuest, DraftHall
from stage.hall import SECOND_US

FIRST = b"H:hall:68719476737"
"""The handle of the first job of the first boot: 18 bytes, so 12 in hexadecimal."""


def heard(guest: DraftGuest, *hexadecimal: str) -> None:
    """The guest hears exactly these bytes."""
    assert guest.reads().hex() == bytes.fromhex("".join(hexadecimal)).hex()


def sync(name: bytes, key: bytes = b"", args: bytes = b"", flags: int = 0) -> bytes:
    return wire.pack_job_create_req(name, key, flags, wire.SYNC_WAIT, args)


# --- the draft's own examples


def test_the_best_case(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.guest()
    # "here's what i can do": mail
    worker.say(bytes.fromhex("004A4F42 01 00000004 6D61696C"))
    heard(worker)
    # "create this new job": mail, key u, flags 0, async+handle, args hi
    application.say(bytes.fromhex("004A4F42 04 0000000B 6D61696C00 7500 00 01 6869"))
    # "okay (here is its handle)"
    heard(application, "004A4F42 05 00000012", FIRST.hex())
    # "got a job for me?"
    worker.say(bytes.fromhex("004A4F42 06 00000000"))
    # "yes, here is a job i've locked for you"
    heard(worker, "004A4F42 07 00000007 6D61696C00 6869")
    # "i'm 1/100 complete now", a minute to go
    worker.say(bytes.fromhex("004A4F42 08 0000000C 00000001 00000064 0000003C"))
    heard(worker)
    # "how far along is this job?"
    application.say(bytes.fromhex("004A4F42 09 00000012") + FIRST)
    # "job is 1/100 complete"
    heard(application, "004A4F42 0A 0000000C 00000001 00000064 0000003C")
    # "is this job finished?"
    application.say(bytes.fromhex("004A4F42 0C 00000012") + FIRST)
    # not yet
    heard(application, "004A4F42 0D 00000005 00000000 00")
    hall.wait(90 * SECOND_US)
    # "here is the result": 0, sent
    worker.say(bytes.fromhex("004A4F42 0B 00000005 00 73656E74"))
    heard(worker)
    application.say(bytes.fromhex("004A4F42 0C 00000012") + FIRST)
    # "job completed as follows": after 90 seconds, 0, sent
    heard(application, "004A4F42 0D 00000009 0000005A 00 73656E74")
    # "goodbye"
    worker.say(bytes.fromhex("004A4F42 02 00000000"))
    heard(worker)
    assert not hall.scheduler.workers


def test_the_worse_case() -> None:
    """A worker asks each of two servers again and again, sleeps on both, and one of them wakes it up."""
    halls = [DraftHall(), DraftHall()]
    links = [hall.guest() for hall in halls]
    for link in links:
        link.say(bytes.fromhex("004A4F42 01 00000004 6D61696C"))
    for _ in range(3):
        for link in links:
            # "got a job for me?" "no, sorry"
            link.say(bytes.fromhex("004A4F42 06 00000000"))
            heard(link, "004A4F42 07 00000000")
    for link in links:
        # "going to sleep"
        link.say(bytes.fromhex("004A4F42 03 00000000"))
        heard(link)
    # A job comes to the second server, which wakes the worker up.
    halls[1].guest().say(bytes.fromhex("004A4F42 04 00000009 6D61696C00 00 00 02 31"))
    heard(links[0])
    heard(links[1], "004A4F42 00 00000000")
    # It resumes the loop.
    links[0].say(bytes.fromhex("004A4F42 06 00000000"))
    heard(links[0], "004A4F42 07 00000000")
    links[1].say(bytes.fromhex("004A4F42 06 00000000"))
    heard(links[1], "004A4F42 07 00000006 6D61696C00 31")


# --- the three types


def test_sync_and_wait_streams_status_and_result(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    application.say(sync(b"resize", args=b"image"))
    heard(application, "004A4F42 05 00000000")
    assert worker.takes() == (b"resize", b"image")
    worker.say(wire.pack_job_status_announce(1, 2, 5))
    heard(application, "004A4F42 0A 0000000C 00000001 00000002 00000005")
    worker.say(wire.pack_job_status_announce(2, 2))
    heard(application, "004A4F42 0A 0000000C 00000002 00000002 00000000")
    worker.completes(0, b"small image")
    heard(application, "004A4F42 0D 00000010 00000001 00", b"small image".hex())
    application.say(sync(b"resize"))
    heard(application, "004A4F42 05 00000000")


def test_async_with_a_handle_goes_on_without_its_application(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", args=b"image")
    application.leaves()
    worker.takes()
    worker.completes(0, b"small")
    assert hall.guest().asks_end(handle) == (1, 0, b"small")


def test_async_and_throw_away_has_no_handle(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    application.say(wire.pack_job_create_req(b"resize", b"", 0, wire.ASYNC_THROW_AWAY, b"image"))
    heard(application, "004A4F42 05 00000000")
    application.leaves()
    assert worker.takes() == (b"resize", b"image")


def test_a_sync_job_goes_with_its_application(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    application.say(sync(b"resize")).leaves()
    assert worker.takes() is None


def test_a_connection_waits_for_one_sync_job_at_a_time(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    application.say(sync(b"resize", args=b"1")).reads()
    application.say(sync(b"resize", args=b"2"))
    assert "one at a time" in application.is_refused(wire.BUSY)
    application.creates(b"resize", args=b"3")
    assert worker.takes() == (b"resize", b"1")
    worker.completes()
    assert len(application.hears()) == 1
    assert worker.takes() == (b"resize", b"3")


def test_large_data_travels_whole(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    args, result = bytes(range(256)) * 1000, bytes(range(255, -1, -1)) * 2000
    application.say(sync(b"resize", args=args)).reads()
    assert worker.takes() == (b"resize", args)
    worker.completes(0, result)
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0" + result)]
    handle = application.creates(b"resize", args=args)
    worker.takes()
    worker.completes(0, result)
    assert application.asks_end(handle) == (1, 0, result)


# --- how a job ends


@pytest.mark.parametrize("code", range(1, 256))
def test_every_error_code_is_told(code: int) -> None:
    hall = DraftHall()
    application, waiting, worker = hall.guest(), hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", b"u")
    waiting.say(sync(b"resize", b"u")).reads()
    worker.takes()
    worker.completes(code, b"it broke")
    assert application.asks_end(handle) == (1, code, b"it broke")
    assert waiting.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01" + bytes([code]) + b"it broke")]


@pytest.mark.parametrize(
    ("waits_us", "elapsed_s"),
    [(0, 1), (1_500_000, 1), (2_000_000, 2), (3600 * SECOND_US, 3600), (2**33 * SECOND_US, 0xFFFFFFFE)],
)
def test_the_seconds_from_creation_to_end_at_least_one(waits_us: int, elapsed_s: int) -> None:
    hall = DraftHall()
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    assert application.asks_end(handle) == (0, 0, b"")
    worker.takes()
    assert application.asks_end(handle) == (0, 0, b"")
    hall.wait(waits_us)
    worker.completes()
    assert application.asks_end(handle) == (elapsed_s, 0, b"")


def test_a_job_that_is_called_off_says_why(hall: DraftHall) -> None:
    application, waiting, worker = hall.guest(), hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", b"u")
    waiting.say(sync(b"resize", b"u")).reads()
    worker.takes()
    job = hall.scheduler.jobs[hall.context.job_id(handle)]
    hall.begin()
    hall.scheduler.cancel(job, b"no longer needed")
    hall.end()
    assert waiting.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x82no longer needed")]
    assert application.asks_end(handle) == (1, 130, b"no longer needed")
    # Nobody could tell the worker. What it says of the job comes too late, and it goes on.
    worker.say(wire.pack_job_complete_announce(0, b"late"))
    worker.is_refused(wire.NO_TASK)
    assert worker.takes() is None


def test_a_failure_is_followed_by_another_attempt_if_the_door_says_so() -> None:
    hall = DraftHall(DraftOptions(failures_max=1, backoff_us=2 * SECOND_US))
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    worker.completes(7, b"first")
    assert application.asks_end(handle) == (0, 0, b"")
    assert worker.takes() is None
    hall.wait(2 * SECOND_US)
    assert worker.takes() is not None
    worker.completes(8, b"second")
    assert application.asks_end(handle) == (2, 8, b"second")


def test_a_job_that_lost_too_many_workers_has_failed(hall: DraftHall) -> None:
    handle = hall.guest().creates(b"resize")
    for _ in range(3):
        worker = hall.worker(b"resize")
        assert worker.takes() is not None
        worker.leaves()
    assert hall.guest().asks_end(handle) == (1, 125, b"its workers were lost 3 times")


def test_a_silent_worker_loses_its_job_and_hears_of_it_when_it_reports() -> None:
    hall = DraftHall(DraftOptions(lease_us=10 * SECOND_US))
    silent, other = hall.worker(b"resize"), hall.worker(b"resize")
    handle = hall.guest().creates(b"resize")
    silent.takes()
    # Any packet is a sign of life.
    for packet in (wire.NOOP_PACKET, wire.pack_job_status_announce(1, 4), wire.NOOP_PACKET):
        hall.wait(8 * SECOND_US)
        silent.say(packet)
        assert silent.reads() == b""
    hall.wait(11 * SECOND_US)
    assert other.takes() == (b"resize", b"")
    silent.say(wire.pack_job_complete_announce(0, b"too late"))
    silent.is_refused(wire.NO_TASK)
    other.completes(0, b"in time")
    assert hall.guest().asks_end(handle)[1:] == (0, b"in time")


# --- status


def test_the_seconds_left_run_down(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    assert application.asks_status(handle) == (0, 0, 0)
    worker.takes()
    assert application.asks_status(handle) == (0, 0, 0)
    worker.say(wire.pack_job_status_announce(1, 3, 10))
    assert application.asks_status(handle) == (1, 3, 10)
    hall.wait(4_500_000)
    assert application.asks_status(handle) == (1, 3, 6)
    hall.wait(10 * SECOND_US)
    assert application.asks_status(handle) == (1, 3, 0)
    worker.say(wire.pack_job_status_announce(2, 3, 0xFFFFFFFF))
    assert application.asks_status(handle) == (2, 3, 0xFFFFFFFF)
    worker.say(wire.pack_job_status_announce(0xFFFFFFFF, 0xFFFFFFFF, 0))
    assert application.asks_status(handle) == (0xFFFFFFFF, 0xFFFFFFFF, 0)


@pytest.mark.parametrize(
    ("announced", "code", "status"),
    [
        (None, 0, (1, 1, 0)),
        ((3, 10, 60), 0, (10, 10, 0)),
        ((3, 0, 60), 0, (1, 1, 0)),
        ((3, 10, 60), 5, (3, 10, 0)),
        (None, 5, (0, 0, 0)),
    ],
)
def test_the_status_of_a_job_that_has_ended(
    hall: DraftHall, announced: tuple[int, int, int] | None, code: int, status: tuple[int, int, int]
) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize")
    worker.takes()
    if announced is not None:
        worker.say(wire.pack_job_status_announce(*announced))
    worker.completes(code)
    assert application.asks_status(handle) == status


# --- a worker's life


def test_a_worker_has_one_task_at_a_time(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    application.creates(b"resize", args=b"1")
    application.creates(b"resize", args=b"2")
    worker.takes()
    worker.say(wire.JOB_ASSIGN_REQ_PACKET)
    worker.is_refused(wire.BUSY)
    worker.say(wire.WORKER_SLEEP_PACKET)
    worker.is_refused(wire.BUSY)
    worker.completes()
    assert worker.takes() == (b"resize", b"2")


def test_a_new_list_of_names_replaces_the_one_before(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize", b"mail")
    application.creates(b"resize", args=b"1")
    application.creates(b"resize", args=b"2")
    assert worker.takes() == (b"resize", b"1")
    worker.say(wire.pack_worker_connect([b"mail", b"rss"]))
    worker.completes()
    assert worker.takes() is None
    application.creates(b"rss", args=b"3")
    assert worker.takes() == (b"rss", b"3")
    worker.completes()
    worker.say(wire.pack_worker_connect([]))
    application.creates(b"rss", args=b"4")
    assert worker.takes() is None


def test_a_sleeper_with_a_new_list_is_woken_for_what_it_can_do_now(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    worker.say(wire.WORKER_SLEEP_PACKET + wire.pack_worker_connect([b"mail"]))
    application.creates(b"resize")
    heard(worker)
    application.creates(b"mail")
    heard(worker, "004A4F42 00 00000000")


def test_one_sleeper_is_woken_for_one_job(hall: DraftHall) -> None:
    workers = [hall.worker(b"resize").say(wire.WORKER_SLEEP_PACKET) for _ in range(3)]
    hall.guest().creates(b"resize")
    assert sorted(worker.reads() for worker in workers) == [b"", b"", wire.NOOP_PACKET]


def test_who_sleeps_while_there_is_work_is_woken_at_once(hall: DraftHall) -> None:
    hall.guest().creates(b"resize")
    worker = hall.worker(b"resize").say(wire.WORKER_SLEEP_PACKET)
    heard(worker, "004A4F42 00 00000000")


def test_goodbye_gives_the_task_back_without_blame(hall: DraftHall) -> None:
    application, worker, other = hall.guest(), hall.worker(b"resize"), hall.worker(b"resize")
    handle = application.creates(b"resize")
    for _ in range(5):
        worker.takes()
        worker.say(wire.WORKER_DISCONNECT_PACKET)
        worker.say(wire.pack_worker_connect([b"resize"]))
    assert hall.scheduler.jobs[hall.context.job_id(handle)].losses == 0
    assert other.takes() is not None
    # The connection is as good as ever.
    worker.say(wire.WORKER_DISCONNECT_PACKET * 2)
    heard(worker)
    assert worker.takes() is None
    worker.say(wire.pack_job_complete_announce(0, b""))
    worker.is_refused(wire.NO_TASK)


def test_a_noop_is_no_operation(hall: DraftHall) -> None:
    guest = hall.guest().say(wire.NOOP_PACKET * 3)
    heard(guest)
    assert not hall.scheduler.workers


def test_an_application_can_be_a_worker_too(hall: DraftHall) -> None:
    both = hall.worker(b"resize")
    both.say(sync(b"resize", args=b"mine"))
    heard(both, "004A4F42 05 00000000")
    assert both.takes() == (b"resize", b"mine")
    both.say(wire.pack_job_complete_announce(0, b"done"))
    heard(both, "004A4F42 0D 00000009 00000001 00", b"done".hex())


# --- priorities and expiry


def test_high_goes_before_normal_before_low(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    for flags, args in ((2, b"low"), (0, b"normal"), (1, b"high"), (2, b"low too"), (1, b"high too")):
        application.creates(b"resize", args=args, flags=flags)
    order = []
    while (taken := worker.takes()) is not None:
        order.append(taken[1])
        worker.completes()
    assert order == [b"high", b"high too", b"normal", b"low", b"low too"]


def test_an_old_async_job_expires_and_a_sync_one_waits_with_its_application() -> None:
    hall = DraftHall(DraftOptions(expire_us=60 * SECOND_US))
    application, worker = hall.guest(), hall.worker(b"resize")
    handle = application.creates(b"resize", args=b"async")
    application.say(sync(b"resize", args=b"sync")).reads()
    hall.wait(59 * SECOND_US)
    assert hall.guest().asks_end(handle) == (0, 0, b"")
    hall.wait(SECOND_US)
    assert hall.guest().asks_end(handle) == (60, 130, b"no worker took it in time")
    assert worker.takes() == (b"resize", b"sync")
