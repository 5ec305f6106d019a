"""The store fails: nothing of the batch is acknowledged, what was promised before is kept, service resumes."""

from __future__ import annotations

import pytest

from hiringhall.core.errors import STORE_DOWN, Refusal
from hiringhall.core.states import DONE
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US, RETRY_MAX_US
from hiringhall.storage.contract import HistoryQuery
from stage.talker import FOREGROUND, WATCHED, TalkerHall


def test_an_acknowledgement_under_way_is_recalled(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.receive(b"before")
        hall.submit(ann, "a")
        ann.receive(b"after")
    hall.turn_that_fails("no space left")
    assert wire.said() == ["echo before|refused a: no space left|echo after|"]
    assert hall.scheduler.store_trouble == "no space left"
    assert hall.scheduler.jobs == {}


def test_so_is_one_that_gathers_for_the_next_commit(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        ann.receive(b"x")
        hall.submit(ann, "b")
        hall.submit(eve, "c")
    hall.turn_that_fails()
    assert ann_wire.said() == ["refused a: disk full|echo x|refused b: disk full|"]
    assert eve_wire.said() == ["refused c: disk full|"]


def test_so_is_one_said_in_the_very_turn_of_the_failure(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        ann.receive(b"x")
        hall.submit(ann, "b")
        hall.submit(eve, "c")
        hall.fail()
    assert "".join(ann_wire.said()) == "refused a: disk full|echo x|refused b: disk full|"
    assert "".join(eve_wire.said()) == "refused c: disk full|"
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert (ann_wire.said(), eve_wire.said()) == ([], [])


def test_in_trouble_durable_jobs_are_refused_and_foreground_jobs_are_served(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a")
    hall.turn_that_fails()
    wire.said()
    with hall.turn():
        with pytest.raises(Refusal) as caught:
            hall.submit(ann, "b")
        assert caught.value.reason == STORE_DOWN
        hall.submit(ann, "c", FOREGROUND)
        hall.scheduler.finish(hall.take(bob), b"")
    assert wire.said() == ["accepted c|ended c|"]


def test_the_end_of_a_stored_job_goes_on_waiting(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        job = hall.submit(ann, "a")
        hall.scheduler.watch(job, eve)
    hall.turn_that_commits()
    ann_wire.said()
    with hall.turn():
        eve.receive(b"before")
        hall.scheduler.finish(hall.take(bob), b"r")
        eve.receive(b"after")
    hall.turn_that_fails()
    assert eve_wire.said() == [], "it is not true yet"
    with hall.turn():
        eve.receive(b"much later")
    assert eve_wire.said() == []
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    assert hall.requests.under_way() is not None
    hall.turn_that_commits()
    assert eve_wire.said() == ["echo before|ended a|echo after|echo much later|"]
    assert [end.state for end in hall.store.history(HistoryQuery())] == [DONE]


def test_one_message_is_recalled_and_the_next_goes_on_waiting(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        job = hall.submit(ann, "old")
        hall.scheduler.watch(job, ann)
    hall.turn_that_commits()
    wire.said()
    with hall.turn():
        hall.submit(ann, "new")
        hall.scheduler.finish(hall.take(bob), b"")
    hall.turn_that_fails()
    assert wire.said() == [], "the refusal stands before the end, and keeps its place"
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert wire.said() == ["refused new: disk full|ended old|"]


def test_the_store_is_tried_again_after_longer_and_longer_pauses(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    pause_us = RETRY_FIRST_US
    for _ in range(8):
        hall.turn_that_fails()
        assert hall.engine.next_deadline() == hall.now_us + pause_us
        with hall.turn(after_us=pause_us - 1):
            pass
        assert hall.requests.under_way() is None, "not before its time"
        with hall.turn():
            pass
        batch = hall.requests.under_way()
        assert batch is not None
        assert batch.empty, "with nothing to write the store is probed"
        pause_us = min(2 * pause_us, RETRY_MAX_US)
    assert pause_us == RETRY_MAX_US


def test_after_the_trouble_everything_is_as_before(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    hall.turn_that_fails()
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    wire.said()
    assert hall.scheduler.store_trouble == ""
    assert hall.engine.next_deadline() == 0
    assert not hall.engine.busy
    with hall.turn():
        hall.submit(ann, "b")
    hall.turn_that_fails()
    assert hall.engine.next_deadline() == hall.now_us + RETRY_FIRST_US, (
        "a new trouble starts with a short pause"
    )
    assert wire.said() == ["refused b: disk full|"]


def test_the_earlier_of_retry_and_deadline_counts(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    hall.turn_that_fails()
    retry_us = hall.engine.next_deadline()
    bob, _ = hall.worker("bob")
    hall.scheduler.expect(hall.scheduler.worker(bob), 10)
    assert hall.engine.next_deadline() == hall.now_us + 10
    hall.scheduler.expect(hall.scheduler.worker(bob), 0)
    with hall.turn(after_us=11):
        pass
    assert hall.engine.next_deadline() == retry_us


def test_closing_after_a_refusal(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
        ann.finish()
    hall.turn_that_fails()
    assert wire.said() == ["refused a: disk full|"]
    assert wire.closed


def test_a_joined_foreground_job_goes_on_for_its_watcher(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", FOREGROUND, key="k")
        hall.submit(eve, "a", key="k")
    assert ann_wire.said() == ["accepted a|"]
    hall.turn_that_fails()
    assert eve_wire.said() == ["refused a: disk full|"]
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"")
    assert ann_wire.said() == ["ended a|"]
    assert hall.requests.under_way() is None


def test_a_foreground_submit_that_joins_a_job_on_its_way_to_the_disk_is_not_recalled(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", key="k")
        hall.submit(eve, "a", FOREGROUND, key="k")
    assert eve_wire.said() == ["accepted a|"]
    hall.turn_that_fails()
    assert ann_wire.said() == ["refused a: disk full|"]
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"")
    assert eve_wire.said() == ["ended a|"]


def test_who_is_refused_a_watched_job_hears_no_more_of_it(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        job = hall.submit(ann, "a", WATCHED)
    hall.turn_that_fails()
    assert wire.said() == ["refused a: disk full|"]
    assert job.ended
    assert ann.watching == {}
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert wire.said() == []


def test_the_hall_is_busy_while_ends_wait(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a")
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"")
        assert hall.engine.busy
    with hall.turn(after_us=LINGER_US):
        pass
    hall.turn_that_fails()
    assert hall.engine.busy
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert not hall.engine.busy
    assert hall.store.count() == (0, 1)


def test_the_length_of_the_output_is_right_after_a_failed_commit(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
        ann.pledge(b"promised|")
    with hall.turn():
        ann.send(b"said meanwhile|")
        hall.submit(ann, "b")
        ann.pledge(b"promised again|")
    with hall.turn():
        hall.fail("a disk that is much fuller than the acknowledgement is long")
        assert len(ann.out) == 5
        assert ann.out_bytes == sum(map(len, ann.out))
    assert wire.said() == []


def test_a_refusal_longer_than_the_acknowledgement_counts_with_its_own_length(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    ann.out_bytes_max = 200
    with hall.turn():
        hall.submit(ann, "a")
        ann.pledge(b"promised|")
    with hall.turn():
        hall.fail("f" * 180)
        ann.send(b"x" * 20)
        assert ann.closing, "with its refusal it has more to say than it may"
