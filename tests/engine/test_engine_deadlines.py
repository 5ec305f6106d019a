"""The engine's deadlines: the earliest one wakes the loop, and a deadline that is cleared does not."""

from __future__ import annotations

import pytest

from hiringhall.engine.deadlines import GROUP_COMMIT_US, NEVER, RETRY_FIRST_US, Deadlines
from stage.talker import WATCHED, TalkerHall

NAMES = ("linger_us", "group_us", "deferred_us", "started_us", "parents_us", "retry_us")


def test_without_deadlines_there_is_no_next_one() -> None:
    assert Deadlines().next_us(0) == 0


def test_the_next_deadline_is_that_of_the_scheduler_if_no_other_is_set() -> None:
    assert Deadlines().next_us(1_700_000_000_000_000) == 1_700_000_000_000_000


@pytest.mark.parametrize("name", NAMES)
def test_each_deadline_counts_until_it_is_cleared(name: str) -> None:
    deadlines = Deadlines()
    setattr(deadlines, name, 70)
    assert (deadlines.next_us(0), deadlines.next_us(69), deadlines.next_us(71)) == (70, 69, 70)
    setattr(deadlines, name, NEVER)
    assert (deadlines.next_us(0), deadlines.next_us(71)) == (0, 71)


@pytest.mark.parametrize("first", range(len(NAMES)))
def test_the_earliest_of_all_deadlines_is_the_next_one(first: int) -> None:
    deadlines = Deadlines()
    for place, name in enumerate(NAMES):
        setattr(deadlines, name, 100 + (place - first) % len(NAMES))
    assert deadlines.next_us(200) == 100


def test_after_a_failed_commit_nothing_is_due_before_the_next_try_of_the_store() -> None:
    """Also inside the group commit window, with a session whose answer waits for the store."""
    hall = TalkerHall()
    ann, _ = hall.peer("ann")
    eve, _ = hall.peer("eve")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", WATCHED)
        hall.submit(eve, "b", WATCHED)
    hall.turn_that_commits()
    with hall.turn():
        hall.scheduler.finish(hall.take(bob), b"")
        hall.scheduler.finish(hall.take(bob), b"")
    hall.turn_that_fails()
    assert hall.now_us < hall.requests.times_us[0] + GROUP_COMMIT_US
    assert hall.engine.busy
    assert hall.engine.deadlines.retry_us == hall.now_us + RETRY_FIRST_US
    assert hall.engine.next_deadline() > hall.now_us + GROUP_COMMIT_US
