"""What a peer was assigned waits behind what it was promised: not sent when the hall may have been replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.engine.deadlines import NEVER, RETRY_FIRST_US

if TYPE_CHECKING:
    from stage.talker import TalkerHall, Wire


@pytest.fixture
def wire(hall: TalkerHall) -> Wire:
    """Of a worker that was assigned a job and promised another. Then its hall may hand out no more."""
    bob, wire = hall.worker("bob")
    with hall.turn():
        hall.submit(bob, "a")
    with hall.turn():
        hall.commit()
    assert wire.said() == ["accepted a|"]
    with hall.turn():
        hall.submit(bob, "b")
        bob.assigned(hall.take(bob))
    hall.engine.hands_out_until_us = hall.now_us
    return wire


def test_it_is_sent_when_the_hall_may_hand_out_again(hall: TalkerHall, wire: Wire) -> None:
    with hall.turn():
        hall.commit()
    assert wire.said() == []
    with hall.turn():
        pass
    assert wire.said() == []
    hall.engine.hands_out_until_us = NEVER
    with hall.turn():
        pass
    assert wire.said() == ["accepted b|assigned a|"]


def test_it_waits_also_when_the_commit_was_not_kept(hall: TalkerHall, wire: Wire) -> None:
    with hall.turn():
        hall.doubt(kept=False)
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    with hall.turn():
        hall.settle_commit(kept=False)
    assert wire.said() == []
    hall.engine.hands_out_until_us = NEVER
    hall.recover()
    assert wire.said() == ["refused b: connection lost|assigned a|"]


def test_a_hall_that_closes_drops_the_peer(hall: TalkerHall, wire: Wire) -> None:
    hall.scheduler.close()
    with hall.turn():
        hall.commit()
    assert wire.said() == []
    assert wire.closed
    assert not hall.engine.busy


def test_a_peer_that_does_not_work_hears_what_it_was_promised(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "a")
    hall.engine.hands_out_until_us = 0
    with hall.turn():
        hall.commit()
    assert wire.said() == ["accepted a|"]
