"""That a job has begun: the store hears of it if it takes a while, and nobody waits for that."""

from __future__ import annotations

import pytest
from engine_room import BACKGROUND, FOREGROUND, WATCHED, Room

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US, STARTED_US
from hiringhall.storage.contract import HistoryQuery


@pytest.fixture
def room() -> Room:
    return Room()


def stored(room: Room, *names: str) -> list[Job]:
    ann, _ = room.peer("ann")
    with room.turn():
        jobs = [room.submit(ann, name) for name in names]
    room.turn_that_commits()
    return jobs


def states(room: Room) -> list[tuple[int, bytes]]:
    return [(row.state, row.worker) for row in room.store.live()]


def pass_time(room: Room, passed_us: int) -> None:
    with room.turn(after_us=passed_us):
        pass


def let_linger(room: Room) -> None:
    """A change that nobody waits for is committed after its pause."""
    pass_time(room, LINGER_US)
    room.turn_that_commits()


def test_a_job_that_takes_a_while_is_in_the_store_as_begun(room: Room) -> None:
    stored(room, "a")
    bob, _ = room.worker("bob")
    with room.turn():
        room.core.worker(bob).name = b"bob"
        room.take(bob)
    begun_us = room.now_us
    assert room.engine.next_deadline() == begun_us + STARTED_US
    pass_time(room, STARTED_US - 1)
    assert room.under_way() is None
    assert not room.busy(), "a hall that closes does not wait for it"
    pass_time(room, 1)
    let_linger(room)
    (row,) = room.store.live()
    assert (row.state, row.worker, row.started_us, row.attempts) == (LEASED, b"bob", begun_us, 1)
    assert room.engine.next_deadline() == 0


def test_quick_jobs_cost_no_row(room: Room) -> None:
    stored(room, *"abc")
    bob, _ = room.worker("bob")
    for _ in range(3):
        with room.turn(after_us=10):
            lease = room.take(bob)
        with room.turn(after_us=10):
            room.core.finish(lease, b"")
    before = len(room.desk.batches)
    let_linger(room)
    assert [len(batch.updates) for batch in room.desk.batches[before:]] == [0]
    room.is_at_rest()
    assert len(room.store.history(HistoryQuery())) == 3


def test_those_that_began_later_are_noted_together_and_none_is_late(room: Room) -> None:
    jobs = stored(room, *"abc")
    bob, _ = room.worker("bob")
    with room.turn():
        room.take(bob)
    for _ in range(2):
        with room.turn(after_us=STARTED_US // 3):
            room.take(bob)
    pass_time(room, STARTED_US // 3)
    pass_time(room, STARTED_US // 3)
    let_linger(room)
    assert [row.state for row in room.store.live()] == [LEASED] * 3
    for job in jobs:
        assert room.now_us - job.started_us < 2 * STARTED_US
    assert room.engine.next_deadline() == 0


def test_a_job_that_came_back_meanwhile_is_ready_in_the_store(room: Room) -> None:
    stored(room, "a")
    bob, _ = room.worker("bob")
    with room.turn():
        lease = room.take(bob)
    pass_time(room, STARTED_US)
    let_linger(room)
    assert [state for state, _ in states(room)] == [LEASED]
    with room.turn():
        room.core.release(lease)
    let_linger(room)
    assert [state for state, _ in states(room)] == [QUEUED]
    room.is_at_rest()


def test_jobs_in_memory_set_no_clock(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", FOREGROUND)
        room.take(bob)
    assert room.engine.next_deadline() == 0


def test_what_a_resident_has_is_noted_as_before(room: Room) -> None:
    stored(room, "a")
    with room.turn():
        lease = room.core.take(room.core.residents.get(b"q", b"rosa"))
    assert lease is not None
    assert room.under_way() is not None
    room.turn_that_commits()
    (row,) = room.store.live()
    assert (row.state, row.holder, row.worker) == (LEASED, b"rosa", b"rosa")
    assert room.engine.next_deadline() == 0


def test_a_job_taken_back_leaves_no_deadline_behind(room: Room) -> None:
    """Else the hall would come back for it for ever, without a pause."""
    ann, _ = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a")
        room.take(bob)
    room.turn_that_fails()
    assert room.core.jobs == {}
    assert room.engine.next_deadline() == room.now_us + RETRY_FIRST_US
    pass_time(room, RETRY_FIRST_US)
    room.turn_that_commits()
    pass_time(room, STARTED_US)
    assert room.engine.next_deadline() == 0


def test_in_trouble_a_start_waits_for_the_store_with_everything_else(room: Room) -> None:
    stored(room, "a")
    bob, _ = room.worker("bob")
    with room.turn():
        room.take(bob)
    pass_time(room, STARTED_US)
    pass_time(room, LINGER_US)
    room.turn_that_fails()
    assert [state for state, _ in states(room)] == [QUEUED]
    pass_time(room, RETRY_FIRST_US)
    room.turn_that_commits()
    assert [state for state, _ in states(room)] == [LEASED]
    assert room.engine.next_deadline() == 0


def test_a_start_that_is_written_holds_nobody_back(room: Room) -> None:
    stored(room, "a")
    bob, wire = room.worker("bob")
    with room.turn():
        room.take(bob)
    pass_time(room, STARTED_US)
    pass_time(room, LINGER_US)
    assert room.under_way() is not None
    with room.turn():
        bob.receive(b"hello")
    assert wire.said() == ["echo hello|"]
    room.turn_that_commits()


# --- the ends of jobs in memory


LOGGED = Terms(logged=True)


def test_the_end_of_a_logged_job_is_told_at_once_and_stored_at_leisure(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", LOGGED)
        room.core.finish(room.take(bob), b"r")
    assert wire.said() == ["accepted a|ended a|"]
    assert room.under_way() is None
    let_linger(room)
    assert [line.result for line in room.store.history(HistoryQuery())] == [b"r"]
    room.is_at_rest()


def test_a_store_that_does_not_answer_stops_no_logged_job(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "durable", BACKGROUND)
        room.take(bob)
    eve, eve_wire = room.peer("eve")
    for number in range(5):
        with room.turn(after_us=LINGER_US):
            room.submit(eve, str(number), LOGGED)
            room.core.finish(room.take(bob), b"")
    assert "".join(eve_wire.said()) == "".join(f"accepted {number}|ended {number}|" for number in range(5))
    assert wire.said() == []
    room.turn_that_fails()
    assert wire.said() == ["refused durable: disk full|"]
    with room.turn():
        room.submit(eve, "in trouble", LOGGED)
        room.core.finish(room.take(bob), b"")
    assert eve_wire.said() == ["accepted in trouble|ended in trouble|"]
    pass_time(room, RETRY_FIRST_US)
    room.turn_that_commits()
    assert b"in trouble" not in {line.payload for line in room.store.history(HistoryQuery())}
    assert len(room.store.history(HistoryQuery())) <= 5
    room.is_at_rest()


def test_a_reported_task_is_acknowledged_when_it_is_on_disk(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        job = room.core.reports.start(JobSpec(b"q", b"task", b"k", BACKGROUND), b"robot", room.now_us)
        ann.acknowledge(job, b"noted|")
    assert wire.said() == []
    room.turn_that_commits()
    assert wire.said() == ["noted|"]
    assert states(room) == [(LEASED, b"robot")]


def test_a_firing_is_committed_although_nobody_waits_for_it(room: Room) -> None:
    with room.turn():
        room.core.firings.mark("nightly", None)
    assert room.busy()
    let_linger(room)
    room.is_at_rest()


def test_one_who_waits_for_the_end_of_a_durable_job_hears_it_after_its_commit(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", WATCHED)
    room.turn_that_commits()
    with room.turn():
        lease = room.take(bob)
    pass_time(room, STARTED_US)
    with room.turn():
        room.core.finish(lease, b"r")
    assert wire.said() == ["accepted a|"]
    batch = room.under_way()
    assert batch is not None
    assert (len(batch.updates), len(batch.ends)) == (0, 1), "that it began is no news any more"
    room.turn_that_commits()
    assert wire.said() == ["ended a|"]
    room.is_at_rest()
