"""Guarantee 1 of the draft: a server kills duplicates within itself."""

from __future__ import annotations

from hiringhall.core.limits import Limits
from hiringhall.dialects.gearman_draft import wire
from stage.draft import DraftHall

CROWD = 1000


def create(key: bytes, job_type: int, args: bytes) -> bytes:
    return wire.pack_job_create_req(b"resize", key, 0, job_type, args)


def test_a_thousand_who_wait_for_one_key_learn_the_one_result(hall: DraftHall) -> None:
    worker = hall.worker(b"resize")
    crowd = [hall.guest().say(create(b"u7", wire.SYNC_WAIT, b"%d" % place)) for place in range(CROWD // 2)]
    assert worker.takes() == (b"resize", b"0")
    # While it runs as well as while it waits.
    crowd += [hall.guest().say(create(b"u7", wire.SYNC_WAIT, b"again")) for _ in range(CROWD // 2)]
    worker.say(wire.pack_job_status_announce(1, 2, 30))
    worker.completes(0, b"small")
    for guest in crowd:
        assert guest.hears() == [
            (wire.JOB_CREATE_RES, b""),
            (wire.JOB_STATUS_RES, b"\0\0\0\x01\0\0\0\x02\0\0\0\x1e"),
            (wire.JOB_COMPLETE_RES, b"\0\0\0\x01\0small"),
        ]
    assert worker.takes() is None
    assert (hall.scheduler.counters.submitted, hall.scheduler.counters.joined) == (1, CROWD - 1)


def test_a_thousand_handles_of_one_key_are_one_handle(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    first = application.creates(b"resize", b"u7")
    worker.takes()
    handles = [first] + [hall.guest().creates(b"resize", b"u7") for _ in range(CROWD - 1)]
    assert set(handles) == {first}
    worker.completes(3, b"broken")
    assert worker.takes() is None
    application.say(b"".join(wire.pack_job_complete_req(handle) for handle in handles))
    assert application.hears() == [(wire.JOB_COMPLETE_RES, b"\0\0\0\x01\x03broken")] * CROWD
    assert hall.scheduler.counters.submitted == 1


def test_the_three_types_share_one_job(hall: DraftHall) -> None:
    worker, waiting, asking = hall.worker(b"resize"), hall.guest(), hall.guest()
    waiting.say(create(b"u7", wire.SYNC_WAIT, b"")).reads()
    handle = asking.creates(b"resize", b"u7")
    asking.say(create(b"u7", wire.ASYNC_THROW_AWAY, b""))
    assert asking.hears() == [(wire.JOB_CREATE_RES, b"")]
    waiting.leaves()
    # It was sync first, and is on disk since somebody has a handle.
    hall.open()
    worker, asking = hall.worker(b"resize"), hall.guest()
    assert worker.takes() is not None
    worker.completes(0, b"small")
    assert asking.asks_end(handle) == (1, 0, b"small")


def test_no_key_no_duplicates_and_another_name_is_another_job(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize", b"mail")
    handles = [application.creates(b"resize") for _ in range(3)]
    handles += [application.creates(name, b"u7") for name in (b"resize", b"mail")]
    assert len(set(handles)) == 5
    for _ in range(5):
        assert worker.takes() is not None
        worker.completes()
    assert worker.takes() is None


def test_a_key_is_free_when_its_job_has_ended(hall: DraftHall) -> None:
    application, worker = hall.guest(), hall.worker(b"resize")
    first = application.creates(b"resize", b"u7")
    worker.takes()
    worker.completes(0, b"1")
    second = application.creates(b"resize", b"u7")
    assert second != first
    worker.takes()
    worker.completes(0, b"2")
    assert application.asks_end(first) == (1, 0, b"1")
    assert application.asks_end(second) == (1, 0, b"2")


def test_more_than_may_wait_for_one_job_are_refused() -> None:
    hall = DraftHall(limits=Limits(watchers_max=2))
    for _ in range(2):
        hall.guest().say(create(b"u7", wire.SYNC_WAIT, b""))
    late = hall.guest().say(create(b"u7", wire.SYNC_WAIT, b""))
    assert "watchers_max" in late.is_refused(wire.FULL)
    # It waits for nothing, so it may ask for something else.
    late.say(create(b"u8", wire.SYNC_WAIT, b""))
    assert late.hears() == [(wire.JOB_CREATE_RES, b"")]
