"""Peers that each wait for an answer share commits: those who did are waited for, for a moment."""

from __future__ import annotations

import pytest
from engine_room import Room, Talker

from hiringhall.engine.deadlines import GROUP_COMMIT_US
from hiringhall.engine.turn import GROUP_COMMIT_CHANGES_MAX


@pytest.fixture
def room() -> Room:
    return Room()


def submit_all(room: Room, *peers: Talker) -> None:
    with room.turn():
        for peer in peers:
            room.submit(peer, peer.name)


def test_who_is_alone_waits_for_nobody(room: Room) -> None:
    ann, wire = room.peer("ann")
    for _ in range(3):
        submit_all(room, ann)
        assert room.under_way() is not None
        room.turn_that_commits()
        assert wire.said() == ["accepted ann|"]


def test_those_who_shared_a_commit_share_the_next(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.peer("bob")
    submit_all(room, ann, bob)
    room.turn_that_commits()
    submit_all(room, ann)
    assert room.under_way() is None
    submit_all(room, bob)
    batch = room.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"ann", b"bob"]


def test_they_are_waited_for_for_a_moment(room: Room) -> None:
    ann, wire = room.peer("ann")
    bob, _ = room.peer("bob")
    submit_all(room, ann, bob)
    room.turn_that_commits()
    until_us = room.now_us + GROUP_COMMIT_US
    wire.said()
    submit_all(room, ann)
    assert room.engine.next_deadline() == until_us
    with room.turn(after_us=until_us - 1 - room.now_us):
        pass
    assert room.under_way() is None
    with room.turn():
        pass
    assert room.under_way() is not None
    room.turn_that_commits()
    assert wire.said() == ["accepted ann|"]
    submit_all(room, ann)
    assert room.under_way() is None, "bob was there for one of the last two"
    with room.turn(after_us=GROUP_COMMIT_US):
        pass
    room.turn_that_commits()
    submit_all(room, ann)
    assert room.under_way() is not None, "and is so no more"


def test_those_who_take_turns_come_together(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.peer("bob")
    submit_all(room, ann)
    submit_all(room, bob)
    room.turn_that_commits()
    batch = room.under_way()
    assert batch is not None
    assert [row.payload for row in batch.inserts] == [b"bob"], "who comes during a commit waits for the next"
    room.turn_that_commits()
    submit_all(room, ann)
    assert room.under_way() is None
    submit_all(room, bob)
    assert room.under_way() is not None


def test_who_brings_much_waits_for_nobody(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.peer("bob")
    submit_all(room, ann, bob)
    room.turn_that_commits()
    submit_all(room, *[ann] * GROUP_COMMIT_CHANGES_MAX)
    assert room.under_way() is not None


def test_a_closing_hall_waits_for_nobody(room: Room) -> None:
    ann, _ = room.peer("ann")
    bob, _ = room.peer("bob")
    submit_all(room, ann, bob)
    room.turn_that_commits()
    with room.turn():
        room.submit(ann, "last")
        room.core.close()
    assert room.under_way() is not None
