"""The outcome of a commit is unknown: what waits for it goes on waiting until the store has found out."""

from __future__ import annotations

import pytest

from hiringhall.core.errors import STORE_DOWN, Refusal
from hiringhall.core.states import DONE
from hiringhall.engine.deadlines import RETRY_FIRST_US, RETRY_MAX_US
from hiringhall.storage.contract import HistoryQuery
from stage.talker import FOREGROUND, TalkerHall


def ask(hall: TalkerHall, pause_us: int = RETRY_FIRST_US) -> None:
    """Time passes until the engine asks the store what became of the commit."""
    with hall.turn(after_us=pause_us):
        pass
    assert hall.requests.asked


def test_an_acknowledgement_waits_and_is_sent_when_the_batch_turns_out_to_be_kept(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.doubt(kept=True)
    assert wire.said() == []
    assert hall.scheduler.store_trouble == "connection lost"
    ask(hall)
    assert wire.said() == []
    with hall.turn():
        hall.settle_commit(kept=True)
    assert wire.said() == ["accepted a|"]
    assert hall.scheduler.store_trouble == ""
    assert hall.store.count() == (1, 0)


def test_it_is_refused_when_the_batch_turns_out_not_to_be_kept(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.doubt(kept=False)
    ask(hall)
    with hall.turn():
        hall.settle_commit(kept=False)
    assert wire.said() == ["refused a: connection lost|"]
    assert hall.scheduler.jobs == {}
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert hall.scheduler.store_trouble == ""
    hall.is_at_rest()


def test_meanwhile_durable_jobs_are_refused_and_foreground_jobs_are_served(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.doubt(kept=True)
    with hall.turn():
        with pytest.raises(Refusal) as caught:
            hall.submit(eve, "b")
        assert caught.value.reason == STORE_DOWN
        hall.take(bob)
        hall.submit(eve, "c", FOREGROUND)
        hall.scheduler.finish(hall.take(bob), b"")
    assert eve_wire.said() == ["accepted c|ended c|"]
    assert ann_wire.said() == []


def test_what_gathered_behind_the_unknown_commit_goes_to_the_next_one(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.submit(eve, "b")
    with hall.turn():
        hall.doubt(kept=True)
    ask(hall)
    assert hall.requests.under_way() is None, "no other commit comes in between"
    with hall.turn():
        hall.settle_commit(kept=True)
    assert (ann_wire.said(), eve_wire.said()) == (["accepted a|"], [])
    hall.turn_that_commits()
    assert eve_wire.said() == ["accepted b|"]
    assert hall.store.count() == (2, 0)


def test_what_gathered_behind_it_is_refused_with_it(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.submit(eve, "b")
    with hall.turn():
        hall.doubt(kept=False)
    ask(hall)
    with hall.turn():
        hall.settle_commit(kept=False)
    assert ann_wire.said() == ["refused a: connection lost|"]
    assert eve_wire.said() == ["refused b: connection lost|"]


@pytest.mark.parametrize("kept", [True, False])
def test_an_end_in_the_unknown_batch_is_told_once_and_only_when_it_is_stored(
    hall: TalkerHall, kept: bool
) -> None:
    ann, _ = hall.peer("ann")
    eve, wire = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.scheduler.watch(hall.submit(ann, "a"), eve)
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"r")
    with hall.turn():
        hall.doubt(kept=kept)
    ask(hall)
    assert wire.said() == []
    with hall.turn():
        hall.settle_commit(kept=kept)
    if not kept:
        assert wire.said() == []
        with hall.turn(after_us=RETRY_FIRST_US):
            pass
        hall.turn_that_commits()
    assert wire.said() == ["ended a|"]
    assert [end.state for end in hall.store.history(HistoryQuery())] == [DONE]
    hall.is_at_rest()


def test_the_store_is_asked_again_after_longer_and_longer_pauses(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.doubt(kept=True)
    pause_us = RETRY_FIRST_US
    for _ in range(8):
        assert hall.engine.next_deadline() == hall.now_us + pause_us
        with hall.turn(after_us=pause_us - 1):
            pass
        assert not hall.requests.asked, "not before its time"
        ask(hall, 1)
        with hall.turn(after_us=RETRY_MAX_US):
            pass  # asked once: it is the store's turn
        with hall.turn():
            hall.doubt_again()
        pause_us = min(2 * pause_us, RETRY_MAX_US)
    assert hall.scheduler.store_trouble == "no connection"
    ask(hall, pause_us)
    with hall.turn():
        hall.settle_commit(kept=True)
    assert wire.said() == ["accepted a|"]
    with hall.turn():
        hall.submit(ann, "b")
    hall.turn_that_fails()
    assert hall.engine.next_deadline() == hall.now_us + RETRY_FIRST_US, (
        "a new trouble starts with a short pause"
    )


def test_a_crash_while_the_outcome_is_unknown_leaves_what_the_store_has(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    with hall.turn():
        hall.doubt(kept=True)
    hall.open()
    assert wire.said() == []
    assert [job.payload for job in hall.scheduler.jobs.values()] == [b"a"]


def test_the_jobs_of_the_unknown_commit_can_be_named(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    with hall.turn():
        first, second = hall.submit(ann, "a"), hall.submit(ann, "b")
    with hall.turn():
        hall.doubt(kept=False)
    assert hall.engine.in_doubt
    assert hall.engine.jobs_under_way == [first.id, second.id]
