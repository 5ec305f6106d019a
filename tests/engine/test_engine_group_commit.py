"""Peers that each wait for an answer share commits: those who did are waited for, for a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.engine.deadlines import GROUP_COMMIT_US
from hiringhall.engine.grouping import GROUP_COMMIT_CHANGES_MAX
from hiringhall.engine.turn import GATHERED_CHANGES_MAX

if TYPE_CHECKING:
    from stage.talker import Talker, TalkerHall


def submit_all(hall: TalkerHall, *peers: Talker) -> None:
    with hall.turn():
        for peer in peers:
            hall.submit(peer, peer.name)


def test_who_is_alone_waits_for_nobody(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    for _ in range(3):
        submit_all(hall, ann)
        assert hall.requests.under_way() is not None
        hall.turn_that_commits()
        assert wire.said() == ["accepted ann|"]


def test_those_who_shared_a_commit_share_the_next(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.peer("bob")
    submit_all(hall, ann, bob)
    hall.turn_that_commits()
    submit_all(hall, ann)
    assert hall.requests.under_way() is None
    submit_all(hall, bob)
    batch = hall.requests.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"ann", b"bob"]


def test_they_are_waited_for_for_a_moment(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.peer("bob")
    submit_all(hall, ann, bob)
    hall.turn_that_commits()
    until_us = hall.now_us + GROUP_COMMIT_US
    wire.said()
    submit_all(hall, ann)
    assert hall.engine.next_deadline() == until_us
    with hall.turn(after_us=until_us - 1 - hall.now_us):
        pass
    assert hall.requests.under_way() is None
    with hall.turn():
        pass
    assert hall.requests.under_way() is not None
    hall.turn_that_commits()
    assert wire.said() == ["accepted ann|"]
    submit_all(hall, ann)
    assert hall.requests.under_way() is None, "bob was there for one of the last two"
    with hall.turn(after_us=GROUP_COMMIT_US):
        pass
    hall.turn_that_commits()
    submit_all(hall, ann)
    assert hall.requests.under_way() is not None, "and is so no more"


def test_those_who_take_turns_come_together(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.peer("bob")
    submit_all(hall, ann)
    submit_all(hall, bob)
    hall.turn_that_commits()
    batch = hall.requests.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"bob"], "who comes during a commit waits for the next"
    hall.turn_that_commits()
    submit_all(hall, ann)
    assert hall.requests.under_way() is None
    submit_all(hall, bob)
    assert hall.requests.under_way() is not None


def test_who_brings_much_waits_for_nobody(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.peer("bob")
    submit_all(hall, ann, bob)
    hall.turn_that_commits()
    submit_all(hall, *[ann] * GROUP_COMMIT_CHANGES_MAX)
    assert hall.requests.under_way() is not None


def test_a_closing_hall_waits_for_nobody(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.peer("bob")
    submit_all(hall, ann, bob)
    hall.turn_that_commits()
    with hall.turn():
        hall.submit(ann, "last")
        hall.scheduler.close()
    assert hall.requests.under_way() is not None


def test_who_waits_for_the_store_is_not_read_from_while_the_next_batch_is_large(hall: TalkerHall) -> None:
    ann, ann_wire = hall.peer("ann")
    eve, eve_wire = hall.peer("eve")
    bob, bob_wire = hall.worker("bob")
    submit_all(hall, ann)
    submit_all(hall, *[ann, eve] * (GATHERED_CHANGES_MAX // 2 - 1))
    assert not ann_wire.paused
    submit_all(hall, ann, eve)
    with hall.turn():
        hall.take(bob)
    assert (ann_wire.paused, eve_wire.paused, bob_wire.paused) == (True, True, False)
    hall.turn_that_commits()
    batch = hall.requests.under_way()
    assert batch is not None
    assert len(batch.inserts) == GATHERED_CHANGES_MAX
    hall.turn_that_commits()
    assert (ann_wire.paused, eve_wire.paused) == (False, False)
