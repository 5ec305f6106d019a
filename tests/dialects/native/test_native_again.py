"""Submits that are sent again after a lost connection: nothing that has ended runs a second time."""

from __future__ import annotations

import msgspec
import pytest

from hiringhall.core.limits import Limits
from hiringhall.core.states import QUEUED
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.context import NativeOptions
from hiringhall.dialects.native.submitting import ENDS_ASKED_MAX, ENDS_BYTES_MAX, UNTOLD_MAX
from hiringhall.engine.parents import PARENTS_ASKED_MAX
from hiringhall.storage.contract import HistoryQuery
from stage.native import Frame, NativeGuest, NativeHall


def job_of(frames: list[Frame]) -> int:
    ((kind, _, (job,)),) = frames
    assert kind == "ok"
    assert isinstance(job, int)
    return job


def run_one(hall: NativeHall, result: bytes = b"done") -> None:
    """A worker comes, does one job, and goes."""
    worker = hall.guest()
    ((_, _, (lease, *_)),) = worker.works()
    worker.asks("slots", (0,))
    assert worker.asks("finish", (lease, result)) is None
    worker.leaves()


def small_hall() -> NativeHall:
    """One ended job is kept in memory."""
    return NativeHall(limits=Limits(ended_max=1))


def ran(hall: NativeHall, *keys: bytes) -> list[int]:
    """A job for each key has ended and is on disk."""
    ann = hall.guest()
    jobs = []
    for key in keys:
        jobs.append(job_of(ann.submits(key)))
        run_one(hall, b"result of " + key)
    hall.settle()
    return jobs


def test_a_job_that_is_not_known_is_submitted(guest: NativeGuest, hall: NativeHall) -> None:
    job = job_of(guest.submits(b"a", again=True))
    assert hall.scheduler.jobs[job].key == b"a"
    assert job_of(guest.submits(b"b", again=False)) == job + 1


def test_a_live_job_is_joined(guest: NativeGuest, hall: NativeHall) -> None:
    job = job_of(guest.submits(b"a"))
    eve = hall.guest()
    assert job_of(eve.submits(b"a", watch=1, again=True)) == job
    run_one(hall)
    assert eve.hears() == [("ended", 0, [job, "done", 0, b"done"])]


@pytest.mark.parametrize("memory", [Limits(), Limits(ended_max=1)])
def test_a_job_that_has_ended_is_answered_by_its_id_and_its_end_follows(memory: Limits) -> None:
    hall = NativeHall(limits=memory)
    first, _, last = ran(hall, b"a", b"b", b"c")
    ann = hall.guest()
    answer, *ends = ann.submits(b"a", b"c", watch=1, again=True)
    assert answer == ("ok", ann.number, [first, last])
    assert sorted(ends) == [
        ("ended", 0, [first, "done", 0, b"result of a"]),
        ("ended", 0, [last, "done", 0, b"result of c"]),
    ]
    assert ann.submits(b"a", again=True) == [("ok", ann.number, [first])]
    assert hall.scheduler.counters.submitted == 3


def test_a_plain_submit_of_an_ended_key_is_a_new_job() -> None:
    hall = small_hall()
    first, _ = ran(hall, b"a", b"b")
    assert job_of(hall.guest().submits(b"a")) > first
    assert hall.requests.parents == []


def test_an_end_that_is_not_on_disk_is_told_when_it_is(guest: NativeGuest, hall: NativeHall) -> None:
    hall.held = True
    worker = hall.guest()
    worker.works()
    guest.say_bytes(wire.encode("submit", 0, (0, [(b"q", b"", {}, b"a", 0, [])])))
    (lease,) = (body[0] for kind, _, body in worker.hears() if kind == "assign")
    worker.says("finish", (lease, b"done"))
    eve = hall.guest()
    assert eve.submits(b"a", watch=1, again=True) == []
    hall.settle()
    ((job, *_),) = hall.store.history(HistoryQuery())
    assert eve.hears() == [("ok", eve.number, [job]), ("ended", 0, [job, "done", 0, b"done"])]


def test_a_job_that_the_disk_did_not_keep_is_refused_to_both(guest: NativeGuest, hall: NativeHall) -> None:
    hall.held = True
    worker = hall.guest()
    worker.works()
    guest.say_bytes(wire.encode("submit", 5, (1, [(b"q", b"", {}, b"a", 0, [])])))
    (lease,) = (body[0] for kind, _, body in worker.hears() if kind == "assign")
    worker.says("finish", (lease, b"done"))
    eve = hall.guest()
    assert eve.submits(b"a", watch=1, again=True) == []
    hall.turn_that_fails()
    assert [(kind, number, body[0]) for kind, number, body in eve.hears()] == [
        ("error", eve.number, "store_down")
    ]
    assert [(kind, number, body[0]) for kind, number, body in guest.hears()] == [("error", 5, "store_down")]


def test_the_end_of_a_job_of_an_earlier_start_is_known_too() -> None:
    hall = small_hall()
    first, _ = ran(hall, b"a", b"b")
    hall.open()
    assert job_of(hall.guest().submits(b"a", again=True)) == first


def test_each_job_must_have_a_key_and_all_are_submitted_or_none() -> None:
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann = hall.guest()
    good = (b"q", b"", {}, b"new", 0, [])
    assert ann.asks("submit", (0, [good, (b"q", b"", {}, b"", 0, [])], True)) == "bad_request"
    known = (b"q", b"", {}, b"a", 0, [])
    bad = (b"q", b"", {"retries": -1}, b"c", 0, [])
    ((_, _, (code, text)),) = ann.says_numbered("submit", (1, [known, good, bad], True))
    assert (code, "job 3 of 3" in text) == ("bad_request", True)
    assert (len(hall.scheduler.jobs), dict(ann.session.watching)) == (0, {})


def test_many_keys_are_asked_for_in_parts() -> None:
    hall = small_hall()
    first, _ = ran(hall, b"0", b"x")
    keys = [b"%d" % number for number in range(2 * PARENTS_ASKED_MAX + 1)]
    ann = hall.guest()
    hall.held = True
    assert ann.submits(*keys, again=True) == []
    parts = []
    while hall.requests.parents:
        parts.append(len(hall.requests.parents[0]))
        with hall.turn():
            hall.answer_parents()
    assert parts == [PARENTS_ASKED_MAX, PARENTS_ASKED_MAX, 1]
    hall.settle()
    ((_, _, jobs),) = ann.hears()
    assert (jobs[0], len(set(jobs)), hall.scheduler.counters.submitted) == (first, len(keys), len(keys) + 1)


def test_parents_and_keys_share_a_question() -> None:
    hall = small_hall()
    first, _ = ran(hall, b"a", b"b")
    ann, eve = hall.guest(), hall.guest()
    hall.held = True
    ann.says("submit", (0, [(b"q", b"", {}, b"child", 0, [(b"q", b"a")])]))
    eve.submits(b"a", again=True)
    hall.settle()
    assert job_of(eve.hears()) == first
    assert [job.state for job in hall.scheduler.jobs.values()] == [QUEUED]


def test_a_key_that_came_while_the_history_was_asked_is_joined() -> None:
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann, eve = hall.guest(), hall.guest()
    hall.held = True
    ann.submits(b"new", again=True)
    eve.submits(b"new")
    hall.settle()
    assert job_of(ann.hears()) == job_of(eve.hears())


def test_a_key_that_leaves_the_memory_while_the_history_is_asked_is_looked_up_too() -> None:
    hall = small_hall()
    first, second = ran(hall, b"a", b"b")
    hall.held = True
    ann = hall.guest()
    assert ann.submits(b"a", b"b", again=True) == []
    hall.guest().says("submit", (0, [(b"q", b"", {"durable": False}, b"c", 0, [])]))
    run_one(hall)
    assert hall.scheduler.find(second) is None
    hall.held = False
    hall.settle()
    assert ann.hears() == [("ok", ann.number, [first, second])]


def test_a_delay_counts_from_the_time_when_the_submit_came() -> None:
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann = hall.guest()
    hall.held = True
    came_us = hall.scheduler.now_us
    ann.says_numbered("submit", (0, [(b"q", b"", {}, b"new", 60_000_000, [])], True))
    hall.wait(20_000_000)
    hall.held = False
    hall.settle()
    job = hall.scheduler.jobs[job_of(ann.hears())]
    assert job.due_us == came_us + 60_000_000


def test_a_history_that_cannot_be_read_refuses_the_submit() -> None:
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann = hall.guest()
    hall.trouble = "unreadable"
    assert ann.submits(b"a", again=True) == [("error", ann.number, ["store_down", "unreadable"])]
    assert len(hall.scheduler.jobs) == 0


def test_a_failed_commit_refuses_what_waits_for_the_history() -> None:
    """What the commit should have brought may be what was asked for."""
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann, eve, joe = hall.guest(), hall.guest(), hall.guest()
    hall.held = True
    eve.submits(b"c")
    for guest in (ann, joe):
        assert guest.submits(b"a", again=True) == []
    assert len(hall.requests.parents) == 1
    hall.turn_that_fails()
    with hall.turn():
        hall.answer_parents()
    for guest in (ann, joe, eve):
        assert guest.hears() == [("error", guest.number, ["store_down", "disk full"])]
    assert ann.asks("submit", (0, [(b"q", b"", {}, b"a", 0, [])], True)) == "store_down"


def test_who_leaves_while_the_history_is_asked_submits_nothing() -> None:
    hall = small_hall()
    ran(hall, b"a", b"b")
    ann, eve, joe = hall.guest(), hall.guest(), hall.guest()
    hall.held = True
    for guest in (ann, eve, joe):
        guest.submits(b"new", again=True)
    ann.leaves()
    eve.says_no_more()
    hall.settle()
    assert (ann.hears(), eve.hears()) == ([], [])
    assert hall.scheduler.counters.submitted == 3
    assert len(joe.hears()) == 1


def test_what_waits_is_bounded_and_counted() -> None:
    hall = NativeHall(NativeOptions(lookups_max=2), Limits(ended_max=1))
    ran(hall, b"a", b"b")
    ann = hall.guest()
    hall.held = True
    for _ in range(2):
        assert ann.submits(b"a", again=True) == []
    assert ann.session.input_bytes > 2 * len(b"work of a")
    ((kind, _, (code, text)),) = ann.submits(b"a", again=True)
    assert (kind, code, "lookups_max" in text) == ("error", "hall_full", True)
    hall.settle()
    assert ann.session.input_bytes == 0
    assert len(ann.hears()) == 2


def test_the_ends_of_many_jobs_are_told_in_their_order() -> None:
    hall = small_hall()
    keys = [b"%d" % number for number in range(ENDS_ASKED_MAX + 2)]
    jobs = ran(hall, *keys, b"last")[:-1]
    ann = hall.guest()
    assert ann.submits(*keys, watch=1, again=True) == [
        ("ok", ann.number, jobs),
        *[("ended", 0, [job, "done", 0, b"result of " + key]) for job, key in zip(jobs, keys, strict=True)],
    ]


def test_long_results_of_one_job_are_told_in_several_turns(guest: NativeGuest, hall: NativeHall) -> None:
    job = job_of(guest.submits(b"a"))
    result = bytes(ENDS_BYTES_MAX * 2 // 3)
    run_one(hall, result)
    hall.settle()
    hall.held = True
    for number in range(7, 12):
        guest.say_bytes(wire.encode("job", number, (job,)))
    with hall.turn():
        hall.answer_look_up()
    assert [number for _, number, _ in guest.hears()] == [7, 8]
    hall.held = False
    hall.end()
    assert [(number, body["result"]) for _, number, body in guest.hears()] == [
        (number, result) for number in range(9, 12)
    ]
    hall.held = True
    again = [(b"q", b"", {}, b"a", 0, [])] * 5
    assert guest.says("submit", (1, again, True), 20) == [("ok", 20, [job] * 5)]
    with hall.turn():
        hall.answer_look_up()
    ended = ("ended", 0, [job, "done", 0, result])
    assert guest.hears() == [ended, ended]
    hall.held = False
    hall.end()
    assert guest.hears() == [ended] * 3


def test_ends_that_are_to_be_told_are_bounded(guest: NativeGuest, hall: NativeHall) -> None:
    (job,) = ran(hall, b"a")
    hall.held = True
    again = wire.encode("submit", 0, (1, [(b"q", b"", {}, b"a", 0, [])] * wire.JOBS_MAX, True))
    for _ in range(UNTOLD_MAX // wire.JOBS_MAX + 1):
        guest.say_bytes(again)
    assert guest.asks("submit", (1, [(b"q", b"", {}, b"a", 0, [])], True)) == "hall_full"
    hall.settle()
    assert guest.hears() == [("ended", 0, [job, "done", 0, b"result of a"])] * (UNTOLD_MAX + wire.JOBS_MAX)
    assert guest.submits(b"a", again=True) == [("ok", guest.number, [job])]


def test_a_dead_letter_that_is_retried_meanwhile_is_watched(guest: NativeGuest, hall: NativeHall) -> None:
    job = job_of(guest.submits(b"a"))
    worker = hall.guest()
    ((_, _, (lease, *_)),) = worker.works()
    worker.asks("fail", (lease, 7, b"no", False))
    hall.settle()
    hall.held = True
    eve = hall.guest()
    assert eve.submits(b"a", watch=1, again=True) == [("ok", eve.number, [job])]
    guest.says_numbered("retry", (job,))
    hall.held = False
    (lease,) = (body[0] for kind, _, body in worker.hears() if kind == "assign")
    worker.asks("finish", (lease, b"yes"))
    assert eve.hears() == [("ended", 0, [job, "done", 0, b"yes"])]


def test_the_new_end_of_a_dead_letter_is_told_in_full_if_it_is_asked_for_before_it_is_stored(
    guest: NativeGuest, hall: NativeHall
) -> None:
    job = job_of(guest.submits(b"a"))
    worker = hall.guest()
    ((_, _, (lease, *_)),) = worker.works()
    worker.asks("fail", (lease, 7, b"no", False))
    hall.settle()
    hall.held = True
    guest.says_numbered("retry", (job,))
    (lease,) = (body[0] for kind, _, body in worker.hears() if kind == "assign")
    worker.says_numbered("finish", (lease, b"yes"))
    eve = hall.guest()
    eve.submits(b"a", watch=1, again=True)
    hall.held = False
    hall.settle()
    assert ("ended", 0, [job, "done", 0, b"yes"]) in eve.hears()


def test_a_dead_letter_that_is_retried_meanwhile_and_has_all_its_watchers_closes_the_connection() -> None:
    hall = NativeHall(limits=Limits(watchers_max=1))
    guest, worker, eve = hall.guest(), hall.guest(), hall.guest()
    job = job_of(guest.submits(b"a"))
    ((_, _, (lease, *_)),) = worker.works()
    worker.asks("fail", (lease, 7, b"no", False))
    hall.settle()
    hall.held = True
    assert eve.submits(b"a", watch=1, again=True) == [("ok", eve.number, [job])]
    guest.says_numbered("retry", (job,))
    guest.says_numbered("watch", (job, 1))
    hall.held = False
    hall.settle()
    text = f"job {job} cannot be watched: 1 peers watch this job already (watchers_max)"
    assert eve.hears() == [("error", 0, ["hall_full", text])]
    assert eve.closed
    assert not guest.closed


def test_an_end_that_the_history_has_dropped_meanwhile_is_told_without_its_result(
    guest: NativeGuest, hall: NativeHall
) -> None:
    (job,) = ran(hall, b"a")
    hall.held = True
    assert guest.submits(b"a", watch=1, again=True) == [("ok", guest.number, [job])]
    session, _ = hall.requests.look_ups.pop()
    with hall.turn():
        hall.engine.looked_up(session, job, None, "")
    assert guest.hears() == [("ended", 0, [job, "done", 0, b"", True])]


def test_an_end_that_cannot_be_read_closes_the_connection(guest: NativeGuest, hall: NativeHall) -> None:
    (job,) = ran(hall, b"a")
    hall.trouble = "unreadable"
    text = f"the end of job {job} cannot be read: unreadable"
    assert guest.submits(b"a", watch=1, again=True) == [
        ("ok", guest.number, [job]),
        ("error", 0, ["store_down", text]),
    ]
    assert guest.closed


def test_the_third_element_may_be_left_out_and_every_form_of_an_array_is_read() -> None:
    two = msgspec.msgpack.encode((1, []))
    three = msgspec.msgpack.encode((1, [], True))
    assert wire.decode_submit(msgspec.Raw(two)) == (1, [], False)
    for head in (b"\x93", b"\xdc\0\x03", b"\xdd\0\0\0\x03"):
        assert wire.decode_submit(msgspec.Raw(head + three[1:])) == (1, [], True)
    for head in (b"\xdc\0\x02", b"\xdd\0\0\0\x02"):
        assert wire.decode_submit(msgspec.Raw(head + two[1:])) == (1, [], False)
    for bad in (
        b"\xc0",
        b"\x91\x01",
        msgspec.msgpack.encode((1, [], 1)),
        msgspec.msgpack.encode((1, [], True, 1)),
    ):
        with pytest.raises(wire.BadBody):
            wire.decode_submit(msgspec.Raw(bad))


def test_a_job_in_memory_goes_with_the_durable_one_that_its_submit_joined(
    hall: NativeHall, guest: NativeGuest
) -> None:
    """The submit is refused because the store fails: nothing of it may be left behind."""
    hall.held = True
    guest.says(wire.SUBMIT, (0, [(b"q", b"", {}, b"k", 0, [])]), 5)
    eve = hall.guest()
    memory = {"durable": False, "detached": False}
    jobs = [(b"q", b"alone", memory, b"", 0, []), (b"q", b"joins", memory, b"k", 0, [])]
    assert eve.says(wire.SUBMIT, (1, jobs), 6) == []
    hall.held = False
    hall.trouble = "disk full"
    hall.end()
    assert [(kind, number, body[0]) for kind, number, body in eve.hears()] == [("error", 6, "store_down")]
    assert hall.scheduler.jobs == {}
