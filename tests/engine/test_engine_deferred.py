"""What residents are given: on disk before it is said in a hall at leisure, soon after in a busy one."""

from __future__ import annotations

import pytest
from engine_room import Room, Talker

from hiringhall.engine.deadlines import LINGER_US


@pytest.fixture
def room() -> Room:
    return Room()


def stored(room: Room, *names: str) -> None:
    """Jobs that one peer submitted, and that are on disk."""
    clerk, _ = room.peer("clerk")
    with room.turn():
        for name in names:
            room.submit(clerk, name)
    room.turn_that_commits()


def make_busy(room: Room) -> None:
    """Two peers have just shared a commit."""
    peers = [room.peer(name)[0] for name in ("one", "two")]
    with room.turn():
        for peer in peers:
            room.submit(peer, peer.name)
    room.turn_that_commits()


def steal(room: Room, session: Talker) -> None:
    lease = room.core.take(room.core.residents.get(b"q", b"host"))
    assert lease is not None
    session.send_after_commit_if_idle(b"given " + lease.job.payload + b"|")


def test_a_lone_peer_hears_of_it_when_it_is_on_disk(room: Room) -> None:
    stored(room, "a")
    ann, wire = room.peer("ann")
    with room.turn():
        steal(room, ann)
    assert wire.said() == []
    batch = room.under_way()
    assert batch is not None
    assert [update.holder for update in batch.updates] == [b"host"]
    room.turn_that_commits()
    assert wire.said() == ["given a|"]


def test_a_busy_hall_says_it_at_once_and_writes_it_soon(room: Room) -> None:
    stored(room, "a")
    make_busy(room)
    ann, wire = room.peer("ann")
    with room.turn():
        steal(room, ann)
    assert wire.said() == ["given a|"]
    assert room.under_way() is None
    assert room.busy(), "a hall that closes does not forget it"
    assert room.engine.next_deadline() == room.now_us + LINGER_US
    with room.turn(after_us=LINGER_US - 1):
        pass
    assert room.under_way() is None
    with room.turn():
        pass
    batch = room.under_way()
    assert batch is not None
    assert [update.holder for update in batch.updates] == [b"host"]


def test_what_has_ended_by_then_needs_no_row_of_its_own(room: Room) -> None:
    stored(room, "a")
    make_busy(room)
    ann, _ = room.peer("ann")
    with room.turn():
        steal(room, ann)
    with room.turn():
        room.core.finish(next(iter(room.core.residents.get(b"q", b"host").leases.values())), b"")
    with room.turn(after_us=2 * LINGER_US):
        pass
    batch = room.under_way()
    assert batch is not None
    assert (batch.updates, [end.worker for end in batch.ends]) == ([], [b"host"])


def test_while_a_commit_is_under_way_nobody_waits_for_the_next(room: Room) -> None:
    stored(room, "a")
    bob, _ = room.peer("bob")
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(bob, "b")
    with room.turn():
        steal(room, ann)
    assert wire.said() == ["given a|"]
    with room.turn(after_us=LINGER_US):
        pass
    assert room.engine.next_deadline() == 0, "the commit's return is what is waited for"
    room.turn_that_commits()
    batch = room.under_way()
    assert batch is not None
    assert [update.holder for update in batch.updates] == [b"host"]


def test_what_waits_for_its_own_order_is_not_said_before(room: Room) -> None:
    stored(room, "a")
    ann, wire = room.peer("ann")
    with room.turn():
        room.submit(ann, "b")
    with room.turn():
        steal(room, ann)
    assert wire.said() == []
    room.turn_that_commits()
    assert wire.said() == ["accepted b|", "given a|"]


def test_a_failing_store_does_not_hold_it_back_for_ever(room: Room) -> None:
    stored(room, "a")
    ann, wire = room.peer("ann")
    with room.turn():
        steal(room, ann)
    room.turn_that_fails()
    assert wire.said() == ["given a|"]
    with room.turn(after_us=1_000_000):
        pass
    batch = room.under_way()
    assert batch is not None
    assert [update.holder for update in batch.updates] == [b"host"], "written when the store works again"


def test_nothing_to_note_leaves_no_deadline_behind(room: Room) -> None:
    clerk, _ = room.peer("clerk")
    ann, _ = room.peer("ann")
    with room.turn():
        room.submit(clerk, "a")
    with room.turn():
        steal(room, ann)
    room.turn_that_fails()
    with room.turn(after_us=10 * LINGER_US):
        pass
    assert room.engine.next_deadline() > room.now_us, "only the store's next try is left"


def test_a_closing_hall_writes_it_at_once(room: Room) -> None:
    stored(room, "a")
    make_busy(room)
    ann, _ = room.peer("ann")
    with room.turn():
        steal(room, ann)
        room.core.close()
    batch = room.under_way()
    assert batch is not None
    assert [update.holder for update in batch.updates] == [b"host"]
