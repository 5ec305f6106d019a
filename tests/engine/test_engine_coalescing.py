"""A busy hall: workers are answered at once, the others a few turns' news at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.engine.turn import COALESCED_BYTES_MAX

if TYPE_CHECKING:
    from stage.talker import TalkerHall


def test_a_client_hears_of_several_turns_with_one_write(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    for number in (1, 2, 3):
        with hall.turn(coalesce=True):
            ann.send(b"%d|" % number)
    assert hall.engine.has_coalesced
    assert wire.written == []
    hall.engine.flush_coalesced()
    assert wire.written == [b"1|2|3|"]
    assert not hall.engine.has_coalesced


def test_a_worker_is_answered_at_once(hall: TalkerHall) -> None:
    bob, wire = hall.worker("bob")
    with hall.turn(coalesce=True):
        bob.send(b"work|")
    assert wire.written == [b"work|"]


def test_a_pledge_behind_patience_is_kept_like_any_other(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn(coalesce=True):
        ann.send(b"first|")
    with hall.turn(coalesce=True):
        hall.submit(ann, "a")
    hall.engine.flush_coalesced()
    assert wire.written == []
    hall.turn_that_commits()
    assert wire.written == [b"first|accepted a|"]


@pytest.mark.parametrize("patience_ends_first", [True, False])
def test_a_pledge_behind_patience_is_recalled_like_any_other(
    hall: TalkerHall, patience_ends_first: bool
) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn(coalesce=True):
        ann.send(b"first|")
    with hall.turn(coalesce=True):
        hall.submit(ann, "a")
    if patience_ends_first:
        hall.engine.flush_coalesced()
    hall.turn_that_fails()
    hall.engine.flush_coalesced()
    assert wire.written == [b"first|refused a: disk full|"]


def test_a_pledge_of_the_turn_in_which_the_store_fails_is_recalled_behind_patience(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    eve, _ = hall.peer("eve")
    with hall.turn():
        hall.submit(eve, "e")
    with hall.turn(coalesce=True):
        ann.send(b"first|")
    with hall.turn(coalesce=True):
        hall.submit(ann, "a")
        hall.fail()
    hall.engine.flush_coalesced()
    assert wire.written == [b"first|refused a: disk full|"]


def test_who_parts_is_not_written_to(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn(coalesce=True):
        ann.send(b"first|")
    with hall.turn(coalesce=True):
        hall.engine.leave(ann)
    hall.engine.flush_coalesced()
    assert wire.written == []


def test_who_is_to_be_told_much_is_told_at_once(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    half = bytes(COALESCED_BYTES_MAX // 2)
    with hall.turn(coalesce=True):
        ann.send(half)
    assert wire.written == []
    with hall.turn(coalesce=True):
        ann.send(half)
    assert wire.written == [half + half]
    with hall.turn(coalesce=True):
        ann.send(half + half)
    assert wire.written[1:] == [half + half]


def test_an_acknowledgement_that_is_one_too_many_still_waits_for_its_commit(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    ann.out_bytes_max = 5
    with hall.turn():
        hall.submit(ann, "a")
        ann.send(b"never said")
    assert wire.written == []
    assert ann.closing
    hall.turn_that_commits()
    assert wire.written == [b"accepted a|"]
    assert wire.closed
