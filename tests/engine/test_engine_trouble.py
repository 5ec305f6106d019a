"""The store fails: nothing of the batch is acknowledged, what was promised before is kept, service resumes."""

from __future__ import annotations

import pytest
from engine_room import FOREGROUND, WATCHED, Room

from hiringhall.core.errors import STORE_DOWN, Refusal
from hiringhall.core.states import DONE
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US, RETRY_MAX_US
from hiringhall.storage.contract import HistoryQuery


@pytest.fixture
def room() -> Room:
    return Room()


def test_an_acknowledgement_under_way_is_recalled(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.receive(b"before")
        room.submit(ann, "a")
        ann.receive(b"after")
    room.turn_that_fails("no space left")
    assert wire.said() == ["echo before|refused a: no space left|echo after|"]
    assert room.core.store_trouble == "no space left"
    assert room.core.jobs == {}


def test_so_is_one_that_gathers_for_the_next_commit(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(ann, "a")
    with room.turn():
        ann.receive(b"x")
        room.submit(ann, "b")
        room.submit(eve, "c")
    room.turn_that_fails()
    assert ann_wire.said() == ["refused a: disk full|echo x|refused b: disk full|"]
    assert eve_wire.said() == ["refused c: disk full|"]


def test_so_is_one_said_in_the_very_turn_of_the_failure(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(ann, "a")
    with room.turn():
        ann.receive(b"x")
        room.submit(ann, "b")
        room.submit(eve, "c")
        room.fail()
    assert "".join(ann_wire.said()) == "refused a: disk full|echo x|refused b: disk full|"
    assert "".join(eve_wire.said()) == "refused c: disk full|"
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    assert (ann_wire.said(), eve_wire.said()) == ([], [])


def test_in_trouble_durable_jobs_are_refused_and_foreground_jobs_are_served(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a")
    room.turn_that_fails()
    wire.said()
    with room.turn():
        with pytest.raises(Refusal) as caught:
            room.submit(ann, "b")
        assert caught.value.reason == STORE_DOWN
        room.submit(ann, "c", FOREGROUND)
        room.core.finish(room.take(bob), b"")
    assert wire.said() == ["accepted c|ended c|"]


def test_the_end_of_a_stored_job_goes_on_waiting(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    bob, _ = room.worker("bob")
    with room.turn():
        job = room.submit(ann, "a")
        room.core.watch(job, eve)
    room.turn_that_commits()
    ann_wire.said()
    with room.turn():
        eve.receive(b"before")
        room.core.finish(room.take(bob), b"r")
        eve.receive(b"after")
    room.turn_that_fails()
    assert eve_wire.said() == [], "it is not true yet"
    with room.turn():
        eve.receive(b"much later")
    assert eve_wire.said() == []
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    assert room.under_way() is not None
    room.turn_that_commits()
    assert eve_wire.said() == ["echo before|ended a|echo after|echo much later|"]
    assert [end.state for end in room.store.history(HistoryQuery())] == [DONE]


def test_one_message_is_recalled_and_the_next_goes_on_waiting(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        job = room.submit(ann, "old")
        room.core.watch(job, ann)
    room.turn_that_commits()
    wire.said()
    with room.turn():
        room.submit(ann, "new")
        room.core.finish(room.take(bob), b"")
    room.turn_that_fails()
    assert wire.said() == [], "the refusal stands before the end, and keeps its place"
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    assert wire.said() == ["refused new: disk full|ended old|"]


def test_the_store_is_tried_again_after_longer_and_longer_pauses(room: Room) -> None:
    ann, _ = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
    pause_us = RETRY_FIRST_US
    for _ in range(8):
        room.turn_that_fails()
        assert room.engine.next_deadline() == room.now_us + pause_us
        with room.turn(after_us=pause_us - 1):
            pass
        assert room.under_way() is None, "not before its time"
        with room.turn():
            pass
        batch = room.under_way()
        assert batch is not None
        assert batch.empty, "with nothing to write the store is probed"
        pause_us = min(2 * pause_us, RETRY_MAX_US)
    assert pause_us == RETRY_MAX_US


def test_after_the_trouble_everything_is_as_before(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
    room.turn_that_fails()
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    wire.said()
    assert room.core.store_trouble == ""
    assert room.engine.next_deadline() == 0
    assert not room.busy()
    with room.turn():
        room.submit(ann, "b")
    room.turn_that_fails()
    assert room.engine.next_deadline() == room.now_us + RETRY_FIRST_US, (
        "a new trouble starts with a short pause"
    )
    assert wire.said() == ["refused b: disk full|"]


def test_the_earlier_of_retry_and_deadline_counts(room: Room) -> None:
    ann, _ = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
    room.turn_that_fails()
    retry_us = room.engine.next_deadline()
    bob, _ = room.worker("bob")
    room.core.expect(room.core.worker(bob), 10)
    assert room.engine.next_deadline() == room.now_us + 10
    room.core.expect(room.core.worker(bob), 0)
    with room.turn(after_us=11):
        pass
    assert room.engine.next_deadline() == retry_us


def test_closing_after_a_refusal(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
        ann.finish()
    room.turn_that_fails()
    assert wire.said() == ["refused a: disk full|"]
    assert wire.closed


def test_a_joined_foreground_job_goes_on_for_its_watcher(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", FOREGROUND, key="k")
        room.submit(eve, "a", key="k")
    assert ann_wire.said() == ["accepted a|"]
    room.turn_that_fails()
    assert eve_wire.said() == ["refused a: disk full|"]
    with room.turn():
        room.core.finish(room.take(bob), b"")
    assert ann_wire.said() == ["ended a|"]
    assert room.under_way() is None


def test_a_foreground_submit_that_joins_a_job_on_its_way_to_the_disk_is_not_recalled(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", key="k")
        room.submit(eve, "a", FOREGROUND, key="k")
    assert eve_wire.said() == ["accepted a|"]
    room.turn_that_fails()
    assert ann_wire.said() == ["refused a: disk full|"]
    with room.turn():
        room.core.finish(room.take(bob), b"")
    assert eve_wire.said() == ["ended a|"]


def test_who_is_refused_a_watched_job_hears_no_more_of_it(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        job = room.submit(ann, "a", WATCHED)
    room.turn_that_fails()
    assert wire.said() == ["refused a: disk full|"]
    assert job.ended
    assert ann.watching == {}
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    assert wire.said() == []


def test_the_hall_is_busy_while_ends_wait(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a")
    room.turn_that_commits()
    with room.turn():
        room.core.finish(room.take(bob), b"")
        assert room.busy()
    with room.turn(after_us=LINGER_US):
        pass
    room.turn_that_fails()
    assert room.busy()
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    assert not room.busy()
    assert room.store.count() == (0, 1)


def test_the_length_of_the_output_is_right_after_a_failed_commit(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
        ann.pledge(b"promised|")
    with room.turn():
        ann.send(b"said meanwhile|")
        room.submit(ann, "b")
        ann.pledge(b"promised again|")
    with room.turn():
        room.fail("a disk that is much fuller than the acknowledgement is long")
        assert len(ann.out) == 5
        assert ann.out_bytes == sum(map(len, ann.out))
    assert wire.said() == []


def test_a_refusal_longer_than_the_acknowledgement_counts_with_its_own_length(room: Room) -> None:
    ann, _ = room.peer("ann")
    ann.out_bytes_max = 200
    with room.turn():
        room.submit(ann, "a")
        ann.pledge(b"promised|")
    with room.turn():
        room.fail("f" * 180)
        ann.send(b"x" * 20)
        assert ann.closing, "with its refusal it has more to say than it may"
