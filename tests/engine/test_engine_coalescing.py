"""A busy hall: workers are answered at once, the others a few turns' news at a time."""

from __future__ import annotations

import pytest
from engine_room import Room

from hiringhall.engine.turn import COALESCED_BYTES_MAX


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_client_hears_of_several_turns_with_one_write(room: Room) -> None:
    ann, wire = room.peer("ann")
    for number in (1, 2, 3):
        with room.turn(coalesce=True):
            ann.send(b"%d|" % number)
    assert room.engine.has_coalesced
    assert wire.writes == []
    room.engine.flush_coalesced()
    assert wire.writes == [b"1|2|3|"]
    assert not room.engine.has_coalesced


def test_a_worker_is_answered_at_once(room: Room) -> None:
    bob, wire = room.worker("bob")
    with room.turn(coalesce=True):
        bob.send(b"work|")
    assert wire.writes == [b"work|"]


def test_a_pledge_behind_patience_is_kept_like_any_other(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn(coalesce=True):
        ann.send(b"first|")
    with room.turn(coalesce=True):
        room.submit(ann, "a")
    room.engine.flush_coalesced()
    assert wire.writes == []
    room.turn_that_commits()
    assert wire.writes == [b"first|accepted a|"]


@pytest.mark.parametrize("patience_ends_first", [True, False])
def test_a_pledge_behind_patience_is_recalled_like_any_other(room: Room, patience_ends_first: bool) -> None:
    ann, wire = room.peer("ann")
    with room.turn(coalesce=True):
        ann.send(b"first|")
    with room.turn(coalesce=True):
        room.submit(ann, "a")
    if patience_ends_first:
        room.engine.flush_coalesced()
    room.turn_that_fails()
    room.engine.flush_coalesced()
    assert wire.writes == [b"first|refused a: disk full|"]


def test_a_pledge_of_the_turn_in_which_the_store_fails_is_recalled_behind_patience(room: Room) -> None:
    ann, wire = room.peer("ann")
    eve, _ = room.peer("eve")
    with room.turn():
        room.submit(eve, "e")
    with room.turn(coalesce=True):
        ann.send(b"first|")
    with room.turn(coalesce=True):
        room.submit(ann, "a")
        room.fail()
    room.engine.flush_coalesced()
    assert wire.writes == [b"first|refused a: disk full|"]


def test_who_parts_is_not_written_to(room: Room) -> None:
    ann, wire = room.peer("ann")
    with room.turn(coalesce=True):
        ann.send(b"first|")
    with room.turn(coalesce=True):
        room.engine.leave(ann)
    room.engine.flush_coalesced()
    assert wire.writes == []


def test_who_is_to_be_told_much_is_told_at_once(room: Room) -> None:
    ann, wire = room.peer("ann")
    half = bytes(COALESCED_BYTES_MAX // 2)
    with room.turn(coalesce=True):
        ann.send(half)
    assert wire.writes == []
    with room.turn(coalesce=True):
        ann.send(half)
    assert wire.writes == [half + half]
    with room.turn(coalesce=True):
        ann.send(half + half)
    assert wire.writes[1:] == [half + half]


def test_an_acknowledgement_that_is_one_too_many_still_waits_for_its_commit(room: Room) -> None:
    ann, wire = room.peer("ann")
    ann.out_bytes_max = 5
    with room.turn():
        room.submit(ann, "a")
        ann.send(b"never said")
    assert wire.writes == []
    assert ann.closing
    room.turn_that_commits()
    assert wire.writes == [b"accepted a|"]
    assert wire.closed
