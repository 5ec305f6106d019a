"""The turn: what may be said at once, what waits for the disk, and in which order everything leaves."""

from __future__ import annotations

import pytest

from hiringhall.core.errors import BrokenLaw
from hiringhall.core.states import DONE
from hiringhall.core.terms import Terms
from hiringhall.engine.deadlines import LINGER_US
from hiringhall.engine.turn import HELD_MESSAGES_MAX, LINGER_CHANGES_MAX
from stage.talker import BACKGROUND, FOREGROUND, TalkerHall


def test_what_is_true_already_leaves_with_the_turn(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.receive(b"a")
        ann.receive(b"b")
        assert wire.said() == []
    assert wire.said() == ["echo a|echo b|"], "one write for each peer and turn"
    with hall.turn():
        pass
    assert wire.said() == []
    assert hall.requests.under_way() is None, "a turn without changes commits nothing"


def test_an_accepted_durable_job_waits_for_its_commit(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    assert wire.said() == []
    assert hall.requests.under_way() is not None
    assert hall.engine.busy
    hall.turn_that_commits()
    assert wire.said() == ["accepted a|"]
    assert not hall.engine.busy


def test_a_foreground_job_waits_for_nothing(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", FOREGROUND)
        hall.scheduler.finish(hall.take(bob), b"")
    assert wire.said() == ["accepted a|ended a|"]
    assert hall.requests.under_way() is None


def test_everybody_else_is_flushed_at_once(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
        eve.receive(b"x")
    assert ann_wire.said() == []
    assert eve_wire.said() == ["echo x|"]


def test_assignments_never_wait(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, wire = hall.worker("bob")
    hall.scheduler.offer(hall.scheduler.worker(bob), 1)
    with hall.turn():
        hall.submit(ann, "a")
    assert wire.said() == ["assigned a|"]
    assert hall.requests.under_way() is not None


def test_a_peers_messages_keep_their_order_around_a_pledge(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.receive(b"before")
        hall.submit(ann, "a")
        ann.receive(b"after")
    with hall.turn():
        ann.receive(b"next turn")
    assert wire.said() == [], "what came later does not overtake what waits"
    with hall.turn():
        hall.commit()
        ann.receive(b"same turn")
    assert "".join(wire.said()) == "echo before|accepted a|echo after|echo next turn|echo same turn|"


def test_the_next_turn_gathers_while_a_commit_is_under_way(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
    for name in ("b", "c"):
        with hall.turn():
            hall.submit(ann, name)
            hall.submit(eve, name + "!")
    assert len(hall.requests.batches) == 1, "one transaction at a time"
    with hall.turn():
        hall.commit()
        assert ann_wire.said() == ["accepted a|"]
        assert eve_wire.said() == []
    batch = hall.requests.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"b", b"b!", b"c", b"c!"], "the rest is one transaction"
    assert ann_wire.said() == []
    hall.turn_that_commits()
    assert ann_wire.said() == ["accepted b|accepted c|"]
    assert eve_wire.said() == ["accepted b!|accepted c!|"]
    assert hall.requests.under_way() is None


def test_the_time_of_the_turn_goes_with_the_batch(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    with hall.turn(after_us=123):
        hall.submit(ann, "a")
    assert hall.requests.times_us == [hall.now_us]


def test_ends_and_cancels_of_durable_jobs_wait_too(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, bob_wire = hall.worker("bob")
    with hall.turn():
        job = hall.submit(ann, "a")
        hall.scheduler.watch(job, eve)
    hall.turn_that_commits()
    assert ann_wire.said() == ["accepted a|"]
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"r")
        bob.receive(b"next")
    assert bob_wire.said() == ["echo next|"]
    assert eve_wire.said() == []
    hall.turn_that_commits()
    assert eve_wire.said() == ["ended a|"]


def test_who_joins_a_stored_job_is_answered_at_once(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a", key="k")
    hall.turn_that_commits()
    ann_wire.said()
    with hall.turn():
        hall.submit(ann, "a", key="k")
    assert ann_wire.said() == ["accepted a|"]
    assert hall.requests.under_way() is None


def test_who_joins_a_job_on_its_way_to_the_disk_waits_for_that_commit_and_no_other(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a", key="k")
    with hall.turn():
        hall.submit(eve, "a", key="k")
    assert eve_wire.said() == []
    hall.turn_that_commits()
    assert ann_wire.said() == ["accepted a|"]
    assert eve_wire.said() == ["accepted a|"]
    assert hall.requests.under_way() is None


def test_a_pledge_without_a_change_is_true_when_nothing_is_under_way(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.pledge(b"as you know|")
    assert wire.said() == ["as you know|"]


# --- changes that nobody waits for


def done_unseen(hall: TalkerHall, count: int = 1) -> None:
    """Stored jobs that nobody watches, done in one turn."""
    ann, _ = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        for number in range(count):
            hall.submit(ann, str(number))
    hall.turn_that_commits()
    with hall.turn():
        for _ in range(count):
            hall.scheduler.finish(hall.take(bob), b"")


def test_changes_that_nobody_waits_for_linger_to_share_a_commit(hall: TalkerHall) -> None:
    done_unseen(hall)
    assert hall.requests.under_way() is None
    assert hall.engine.busy
    due_us = hall.engine.next_deadline()
    assert due_us == hall.now_us + LINGER_US
    with hall.turn(after_us=LINGER_US - 1):
        pass
    assert hall.requests.under_way() is None
    with hall.turn():
        pass
    assert hall.requests.under_way() is not None
    hall.turn_that_commits()
    assert not hall.engine.busy
    hall.is_at_rest()


def test_somebody_who_waits_takes_the_lingering_changes_along(hall: TalkerHall) -> None:
    done_unseen(hall)
    eve, wire = hall.peer("eve")
    with hall.turn():
        hall.submit(eve, "new")
    batch = hall.requests.under_way()
    assert batch is not None
    assert (len(batch.inserts), len(batch.ends)) == (1, 1)
    hall.turn_that_commits()
    assert wire.said() == ["accepted new|"]
    hall.is_at_rest()


def test_many_changes_do_not_linger(hall: TalkerHall) -> None:
    done_unseen(hall, LINGER_CHANGES_MAX)
    assert hall.requests.under_way() is not None


def test_nothing_lingers_in_a_hall_that_closes(hall: TalkerHall) -> None:
    hall.scheduler.close()
    ann, _ = hall.peer("ann")
    with hall.turn():
        job = hall.submit(ann, "a")
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.cancel(job)
    assert hall.requests.under_way() is not None


# --- connections that go


def test_a_parted_session_is_never_written_to(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        job = hall.submit(ann, "a")
        hall.submit(eve, "b", FOREGROUND)
    with hall.turn():
        ann.receive(b"gathered")
        hall.engine.leave(ann)
        eve.receive(b"in the outbox")
        hall.engine.leave(eve)
    hall.turn_that_commits()
    with hall.turn():
        pass
    assert wire.said() == []
    assert eve_wire.said() == ["accepted b|"]
    assert (ann.parts, eve.parts) == (1, 1)
    assert hall.scheduler.find(job.id) is job, "its job was stored all the same"
    assert list(hall.scheduler.jobs) == [job.id], "and who waited for the other is gone"


def test_a_parted_session_is_not_written_to_after_a_failure_either(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.engine.leave(ann)
        hall.fail()
    assert wire.said() == []
    assert not hall.scheduler.jobs


def test_closing_flushes_first(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.receive(b"last words")
        ann.finish()
    assert wire.said() == ["echo last words|"]
    assert wire.closed


def test_closing_with_nothing_to_say(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        ann.finish()
        ann.finish()
    assert "".join(wire.said()) == ""
    assert wire.closed


@pytest.mark.parametrize("when", ["same turn", "while sealed", "while gathering", "as it commits"])
def test_closing_waits_for_what_is_pledged(hall: TalkerHall, when: str) -> None:
    ann, wire = hall.peer("ann")
    eve, _ = hall.peer("eve")
    if when == "while gathering":
        with hall.turn():
            hall.submit(eve, "first")
    with hall.turn():
        hall.submit(ann, "a")
        if when == "same turn":
            ann.finish()
    if when in ("while sealed", "while gathering"):
        with hall.turn():
            ann.finish()
    assert not wire.closed
    while hall.requests.under_way() is not None:
        with hall.turn():
            if when == "as it commits":
                ann.finish()
            hall.commit()
    assert "".join(wire.said()) == "accepted a|"
    assert wire.closed


# --- back-pressure


def test_who_has_too_much_waiting_for_the_store_is_not_read_from(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(eve, "first")
    with hall.turn():
        hall.submit(ann, "a")
        for _ in range(HELD_MESSAGES_MAX - 1):
            ann.receive(b"")
    assert not ann_wire.paused
    with hall.turn():
        ann.receive(b"one too many")
    assert ann_wire.paused, "it grew over several turns"
    assert not eve_wire.paused
    hall.turn_that_commits()
    assert ann_wire.said() == []
    hall.turn_that_commits()
    assert len(ann_wire.said()) == 1
    assert not ann_wire.paused


@pytest.mark.parametrize("where", ["sealed", "gathering"])
def test_who_was_paused_is_read_again_after_a_failure(hall: TalkerHall, where: str) -> None:
    ann, wire = hall.peer("ann")
    eve, _ = hall.peer("eve")
    with hall.turn():
        hall.submit(ann if where == "sealed" else eve, "first")
    with hall.turn():
        hall.submit(ann, "a")
        for _ in range(HELD_MESSAGES_MAX + 1):
            ann.receive(b"")
    assert wire.paused
    hall.turn_that_fails()
    assert wire.said()
    assert not wire.paused


def test_who_was_paused_for_what_turned_out_to_be_stored_is_read_again(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    eve, _ = hall.peer("eve")
    with hall.turn():
        hall.submit(eve, "a", key="k")
    with hall.turn():
        for _ in range(HELD_MESSAGES_MAX + 1):
            hall.submit(ann, "a", key="k")
    assert wire.paused
    hall.turn_that_commits()
    assert len(wire.said()) == 1
    assert not wire.paused


# --- the history


def test_an_idle_hall_has_lines_dropped_that_are_due(hall: TalkerHall) -> None:
    bob, _ = hall.worker("bob")
    ann, _ = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a", BACKGROUND.replace(keep_us=60_000_000))
        hall.scheduler.finish(hall.take(bob), b"")
    hall.turn_that_commits()
    assert hall.store.count() == (0, 1)
    with hall.turn(after_us=61_000_000):
        assert hall.store.next_expiry_us() <= hall.now_us
        hall.engine.expire()
    hall.turn_that_commits()
    assert hall.store.count() == (0, 0)
    assert not hall.engine.busy


def test_what_is_new_is_committed_with_lines_that_are_dropped(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
        hall.engine.expire()
    hall.turn_that_commits()
    assert wire.said() == ["accepted a|"]
    assert hall.requests.under_way() is None


def test_no_lines_are_dropped_while_a_commit_is_under_way_or_the_store_fails(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.engine.expire()
    assert len(hall.requests.batches) == 1
    with hall.turn():
        hall.fail()
        hall.engine.expire()
    assert len(hall.requests.batches) == 1


# --- time


def test_the_engine_comes_back_for_the_cores_deadlines(hall: TalkerHall) -> None:
    assert hall.engine.next_deadline() == 0
    ann, _ = hall.peer("ann")
    bob, wire = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", Terms(detached=True, lease_us=1000))
        lease = hall.take(bob)
    due_us = hall.engine.next_deadline()
    assert due_us == hall.now_us + 1000
    hall.scheduler.sleep(hall.scheduler.worker(bob))
    with hall.turn(after_us=1000):
        pass
    assert lease.job.lease is None
    assert wire.said() == ["woken|"]


def test_an_answer_without_a_question_breaks_the_law(hall: TalkerHall) -> None:
    with pytest.raises(BrokenLaw):
        hall.engine.committed()
    with pytest.raises(BrokenLaw):
        hall.engine.failed("why")


def test_all_of_it_reaches_the_store(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.worker("bob")
    for number in range(20):
        with hall.turn():
            hall.submit(ann, str(number), BACKGROUND)
            if number % 2:
                lease = hall.take(bob)
                hall.scheduler.finish(lease, b"r")
                assert lease.job.state == DONE
            if hall.requests.under_way() is not None:
                hall.commit()
    while hall.requests.under_way() is not None:
        hall.turn_that_commits()
    assert hall.store.count() == (10, 10)


def test_who_waits_only_for_its_order_does_not_wait_for_the_next_commit(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, other = hall.peer("bob")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        ann.receive(b"hello")
        hall.submit(bob, "b")
    with hall.turn():
        hall.commit()
    assert wire.said() == ["accepted a|", "echo hello|"]
    assert other.said() == []
    assert hall.engine.busy, "the next commit has not returned"
