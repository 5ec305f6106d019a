"""What residents are given: on disk before it is said in an idle hall, soon after in a busy one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US

if TYPE_CHECKING:
    from stage.talker import Talker, TalkerHall, Wire

SAID = ["given a|"]


def store_jobs(hall: TalkerHall, *names: str) -> None:
    """Each is submitted by a peer of its own; one commit."""
    peers = [hall.peer(name)[0] for name in names]
    with hall.turn():
        for peer in peers:
            hall.submit(peer, peer.name)
    hall.turn_that_commits()


def steal(hall: TalkerHall, session: Talker) -> None:
    lease = hall.scheduler.take(hall.scheduler.residents.get(b"q", b"host"))
    assert lease is not None
    session.send_after_commit_if_idle(b"given " + lease.job.payload + b"|")


def stolen(hall: TalkerHall, *, closing: bool = False) -> Wire:
    """A turn in which ann steals the first job, and in which the hall may start to close."""
    ann, wire = hall.peer("ann")
    with hall.turn():
        steal(hall, ann)
        if closing:
            hall.scheduler.close()
    return wire


def holders(hall: TalkerHall) -> list[bytes]:
    """The holders of jobs in the transaction under way."""
    batch = hall.requests.under_way()
    assert batch is not None
    return [update.holder for update in batch.updates]


@pytest.mark.parametrize(
    ("jobs", "closing", "said_at_once", "written_after_us"),
    [
        (["a"], False, [], 0),
        (["a", "b"], False, SAID, LINGER_US),
        (["a", "b"], True, [], 0),
    ],
    ids=["idle", "two peers have just shared a commit", "closing"],
)
def test_when_it_is_said_and_when_it_is_written(
    hall: TalkerHall, jobs: list[str], closing: bool, said_at_once: list[str], written_after_us: int
) -> None:
    store_jobs(hall, *jobs)
    wire = stolen(hall, closing=closing)
    assert wire.said() == said_at_once
    assert hall.engine.busy, "a closing hall does not forget it"
    if written_after_us:
        assert hall.engine.next_deadline() == hall.now_us + written_after_us
        with hall.turn(after_us=written_after_us - 1):
            pass
        assert hall.requests.under_way() is None
        with hall.turn():
            pass
    assert holders(hall) == [b"host"]
    hall.turn_that_commits()
    assert said_at_once + wire.said() == SAID


def test_what_has_ended_by_then_needs_no_row_of_its_own(hall: TalkerHall) -> None:
    store_jobs(hall, "a", "b")
    stolen(hall)
    with hall.turn():
        hall.scheduler.finish(next(iter(hall.scheduler.residents.get(b"q", b"host").leases.values())), b"")
    with hall.turn(after_us=2 * LINGER_US):
        pass
    assert holders(hall) == []
    assert [end.worker for end in hall.requests.batches[-1].ends] == [b"host"]


def test_while_a_commit_is_under_way_nobody_waits_for_the_next(hall: TalkerHall) -> None:
    store_jobs(hall, "a")
    bob, _ = hall.peer("bob")
    with hall.turn():
        hall.submit(bob, "b")
    wire = stolen(hall)
    assert wire.said() == SAID
    with hall.turn(after_us=LINGER_US):
        pass
    assert hall.engine.next_deadline() == 0, "the engine waits only for the commit"
    hall.turn_that_commits()
    assert holders(hall) == [b"host"]


def test_it_is_not_said_before_what_was_said_earlier(hall: TalkerHall) -> None:
    store_jobs(hall, "a")
    ann, wire = hall.peer("ann")
    with hall.turn():
        hall.submit(ann, "b")
    with hall.turn():
        steal(hall, ann)
    assert wire.said() == []
    hall.turn_that_commits()
    assert wire.said() == ["accepted b|", *SAID]


def test_if_the_store_fails_it_is_said_and_written_later(hall: TalkerHall) -> None:
    store_jobs(hall, "a")
    wire = stolen(hall)
    hall.turn_that_fails()
    assert wire.said() == SAID
    with hall.turn(after_us=1_000_000):
        pass
    assert holders(hall) == [b"host"]


def test_without_anything_to_note_there_is_no_deadline_for_it(hall: TalkerHall) -> None:
    clerk, _ = hall.peer("clerk")
    with hall.turn():
        hall.submit(clerk, "a")
    stolen(hall)
    hall.turn_that_fails()
    failed_us = hall.now_us
    with hall.turn(after_us=10 * LINGER_US):
        pass
    assert hall.engine.next_deadline() == failed_us + RETRY_FIRST_US, "only that of the store"
