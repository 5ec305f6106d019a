"""The turn: what may be said at once, what waits for the disk, and in which order everything leaves."""

from __future__ import annotations

import pytest
from engine_room import BACKGROUND, FOREGROUND, Room

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.states import DONE
from hiringhall.core.terms import Terms
from hiringhall.engine.deadlines import LINGER_US
from hiringhall.engine.turn import HELD_MESSAGES_MAX, LINGER_CHANGES_MAX


@pytest.fixture
def room() -> Room:
    return Room()


def test_what_is_true_already_leaves_with_the_turn(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.receive(b"a")
        ann.receive(b"b")
        assert wire.said() == []
    assert wire.said() == ["echo a|echo b|"], "one write for each peer and turn"
    with room.turn():
        pass
    assert wire.said() == []
    assert room.under_way() is None, "a turn without changes commits nothing"


def test_an_accepted_durable_job_waits_for_its_commit(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
    assert wire.said() == []
    assert room.under_way() is not None
    assert room.busy()
    room.turn_that_commits()
    assert wire.said() == ["accepted a|"]
    assert not room.busy()


def test_a_foreground_job_waits_for_nothing(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", FOREGROUND)
        room.core.finish(room.take(bob), b"")
    assert wire.said() == ["accepted a|ended a|"]
    assert room.under_way() is None


def test_everybody_else_is_flushed_at_once(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(ann, "a")
        eve.receive(b"x")
    assert ann_wire.said() == []
    assert eve_wire.said() == ["echo x|"]


def test_assignments_never_wait(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, wire = room.worker("bob")
    room.core.offer(room.core.worker(bob), 1)
    with room.turn():
        room.submit(ann, "a")
    assert wire.said() == ["assigned a|"]
    assert room.under_way() is not None


def test_a_peers_messages_keep_their_order_around_a_pledge(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.receive(b"before")
        room.submit(ann, "a")
        ann.receive(b"after")
    with room.turn():
        ann.receive(b"next turn")
    assert wire.said() == [], "what came later does not overtake what waits"
    with room.turn():
        room.commit()
        ann.receive(b"same turn")
    assert "".join(wire.said()) == "echo before|accepted a|echo after|echo next turn|echo same turn|"


def test_the_next_turn_gathers_while_a_commit_is_under_way(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(ann, "a")
    for name in ("b", "c"):
        with room.turn():
            room.submit(ann, name)
            room.submit(eve, name + "!")
    assert len(room.desk.batches) == 1, "one transaction at a time"
    with room.turn():
        room.commit()
        assert ann_wire.said() == ["accepted a|"]
        assert eve_wire.said() == []
    batch = room.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"b", b"b!", b"c", b"c!"], "the rest is one transaction"
    assert ann_wire.said() == []
    room.turn_that_commits()
    assert ann_wire.said() == ["accepted b|accepted c|"]
    assert eve_wire.said() == ["accepted b!|accepted c!|"]
    assert room.under_way() is None


def test_the_time_of_the_turn_goes_with_the_batch(room: Room) -> None:
    ann, _ = room.peer("ann")
    with room.turn(after_us=123):
        room.submit(ann, "a")
    assert room.desk.times_us == [room.now_us]


def test_ends_and_cancels_of_durable_jobs_wait_too(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    bob, bob_wire = room.worker("bob")
    with room.turn():
        job = room.submit(ann, "a")
        room.core.watch(job, eve)
    room.turn_that_commits()
    assert ann_wire.said() == ["accepted a|"]
    with room.turn():
        room.core.finish(room.take(bob), b"r")
        bob.receive(b"next")
    assert bob_wire.said() == ["echo next|"]
    assert eve_wire.said() == []
    room.turn_that_commits()
    assert eve_wire.said() == ["ended a|"]


def test_who_joins_a_stored_job_is_answered_at_once(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a", key="k")
    room.turn_that_commits()
    ann_wire.said()
    with room.turn():
        room.submit(ann, "a", key="k")
    assert ann_wire.said() == ["accepted a|"]
    assert room.under_way() is None


def test_who_joins_a_job_on_its_way_to_the_disk_waits_for_that_commit_and_no_other(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(ann, "a", key="k")
    with room.turn():
        room.submit(eve, "a", key="k")
    assert eve_wire.said() == []
    room.turn_that_commits()
    assert ann_wire.said() == ["accepted a|"]
    assert eve_wire.said() == ["accepted a|"]
    assert room.under_way() is None


def test_a_pledge_without_a_change_is_true_when_nothing_is_under_way(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.pledge(b"as you know|")
    assert wire.said() == ["as you know|"]


# --- changes that nobody waits for


def done_unseen(room: Room, count: int = 1) -> None:
    """Stored jobs that nobody watches, done in one turn."""
    ann, _ = room.peer("ann")
    bob, _ = room.worker("bob")
    with room.turn():
        for number in range(count):
            room.submit(ann, str(number))
    room.turn_that_commits()
    with room.turn():
        for _ in range(count):
            room.core.finish(room.take(bob), b"")


def test_changes_that_nobody_waits_for_linger_to_share_a_commit(room: Room) -> None:
    done_unseen(room)
    assert room.under_way() is None
    assert room.busy()
    due_us = room.engine.next_deadline()
    assert due_us == room.now_us + LINGER_US
    with room.turn(after_us=LINGER_US - 1):
        pass
    assert room.under_way() is None
    with room.turn():
        pass
    assert room.under_way() is not None
    room.turn_that_commits()
    assert not room.busy()
    room.is_at_rest()


def test_somebody_who_waits_takes_the_lingering_changes_along(room: Room) -> None:
    done_unseen(room)
    eve, wire = room.peer("eve")
    with room.turn():
        room.submit(eve, "new")
    batch = room.under_way()
    assert batch is not None
    assert (len(batch.inserts), len(batch.ends)) == (1, 1)
    room.turn_that_commits()
    assert wire.said() == ["accepted new|"]
    room.is_at_rest()


def test_many_changes_do_not_linger(room: Room) -> None:
    done_unseen(room, LINGER_CHANGES_MAX)
    assert room.under_way() is not None


def test_nothing_lingers_in_a_hall_that_closes(room: Room) -> None:
    room.core.close()
    ann, _ = room.peer("ann")
    with room.turn():
        job = room.submit(ann, "a")
    room.turn_that_commits()
    with room.turn():
        room.core.cancel(job)
    assert room.under_way() is not None


# --- connections that go


def test_a_parted_session_is_never_written_to(room: Room) -> None:
    ann, wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        job = room.submit(ann, "a")
        room.submit(eve, "b", FOREGROUND)
    with room.turn():
        ann.receive(b"gathered")
        room.engine.leave(ann)
        eve.receive(b"in the outbox")
        room.engine.leave(eve)
    room.turn_that_commits()
    with room.turn():
        pass
    assert wire.said() == []
    assert eve_wire.said() == ["accepted b|"]
    assert (ann.parts, eve.parts) == (1, 1)
    assert room.core.find(job.id) is job, "its job was stored all the same"
    assert list(room.core.jobs) == [job.id], "and who waited for the other is gone"


def test_a_parted_session_is_not_written_to_after_a_failure_either(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "a")
    with room.turn():
        room.engine.leave(ann)
        room.fail()
    assert wire.said() == []
    assert not room.core.jobs


def test_closing_flushes_first(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.receive(b"last words")
        ann.finish()
    assert wire.said() == ["echo last words|"]
    assert wire.closed


def test_closing_with_nothing_to_say(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn():
        ann.finish()
        ann.finish()
    assert "".join(wire.said()) == ""
    assert wire.closed


@pytest.mark.parametrize("when", ["same turn", "while sealed", "while gathering", "as it commits"])
def test_closing_waits_for_what_is_pledged(room: Room, when: str) -> None:
    ann, wire = room.peer("ann")
    eve, _ = room.peer("eve")
    if when == "while gathering":
        with room.turn():
            room.submit(eve, "first")
    with room.turn():
        room.submit(ann, "a")
        if when == "same turn":
            ann.finish()
    if when in ("while sealed", "while gathering"):
        with room.turn():
            ann.finish()
    assert not wire.closed
    while room.under_way() is not None:
        with room.turn():
            if when == "as it commits":
                ann.finish()
            room.commit()
    assert "".join(wire.said()) == "accepted a|"
    assert wire.closed


# --- back-pressure


def test_who_has_too_much_waiting_for_the_store_is_not_read_from(room: Room) -> None:
    ann, ann_wire = room.peer("ann")
    eve, eve_wire = room.peer("eve")
    with room.turn():
        room.submit(eve, "first")
    with room.turn():
        room.submit(ann, "a")
        for _ in range(HELD_MESSAGES_MAX - 1):
            ann.receive(b"")
    assert not ann_wire.is_paused()
    with room.turn():
        ann.receive(b"one too many")
    assert ann_wire.is_paused(), "it grew over several turns"
    assert not eve_wire.is_paused()
    room.turn_that_commits()
    assert ann_wire.said() == []
    room.turn_that_commits()
    assert len(ann_wire.said()) == 1
    assert not ann_wire.is_paused()


@pytest.mark.parametrize("where", ["sealed", "gathering"])
def test_who_was_paused_is_read_again_after_a_failure(room: Room, where: str) -> None:
    ann, wire = room.peer("ann")
    eve, _ = room.peer("eve")
    with room.turn():
        room.submit(ann if where == "sealed" else eve, "first")
    with room.turn():
        room.submit(ann, "a")
        for _ in range(HELD_MESSAGES_MAX + 1):
            ann.receive(b"")
    assert wire.is_paused()
    room.turn_that_fails()
    assert wire.said()
    assert not wire.is_paused()


def test_who_was_paused_for_what_turned_out_to_be_stored_is_read_again(room: Room) -> None:
    ann, wire = room.peer("ann")
    eve, _ = room.peer("eve")
    with room.turn():
        room.submit(eve, "a", key="k")
    with room.turn():
        for _ in range(HELD_MESSAGES_MAX + 1):
            room.submit(ann, "a", key="k")
    assert wire.is_paused()
    room.turn_that_commits()
    assert len(wire.said()) == 1
    assert not wire.is_paused()


# --- time


def test_the_engine_comes_back_for_the_cores_deadlines(room: Room) -> None:
    assert room.engine.next_deadline() == 0
    ann, _ = room.peer("ann")
    bob, wire = room.worker("bob")
    with room.turn():
        room.submit(ann, "a", Terms(detached=True, lease_us=1000))
        lease = room.take(bob)
    due_us = room.engine.next_deadline()
    assert due_us == room.now_us + 1000
    room.core.sleep(room.core.worker(bob))
    with room.turn(after_us=1000):
        pass
    assert lease.job.lease is None
    assert wire.said() == ["woken|"]


def test_an_answer_without_a_question_breaks_the_law(room: Room) -> None:
    with pytest.raises(BrokenLaw):
        room.engine.committed()
    with pytest.raises(BrokenLaw):
        room.engine.failed("why")


def test_all_of_it_reaches_the_store(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.worker("bob")
    for number in range(20):
        with room.turn():
            room.submit(ann, str(number), BACKGROUND)
            if number % 2:
                lease = room.take(bob)
                room.core.finish(lease, b"r")
                assert lease.job.state == DONE
            if room.under_way() is not None:
                room.commit()
    while room.under_way() is not None:
        room.turn_that_commits()
    assert room.store.count() == (10, 10)


def test_who_waits_only_for_its_order_does_not_wait_for_the_next_commit(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, other = room.peer("bob")
    with room.turn():
        room.submit(ann, "a")
    with room.turn():
        ann.receive(b"hello")
        room.submit(bob, "b")
    with room.turn():
        room.commit()
    assert wire.said() == ["accepted a|", "echo hello|"]
    assert other.said() == []
    assert room.busy(), "the next commit has not returned"
