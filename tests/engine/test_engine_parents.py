"""When the history is asked for parents: once every end so far is on its way there; again after trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, HELD, QUEUED
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US
from hiringhall.engine.parents import PARENTS_ASKED_MAX
from stage.talker import BACKGROUND, TalkerHall

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef

SETUP: ParentRef = (b"q", b"setup")


@pytest.fixture
def hall() -> TalkerHall:
    """One ended job is kept in memory."""
    return TalkerHall(Limits(ended_max=1))


def run(hall: TalkerHall, name: str) -> Job:
    """A job begins and ends within one turn."""
    worker, _ = hall.worker("worker")
    job = hall.scheduler.submit(JobSpec(b"q", name.encode(), name.encode(), BACKGROUND), None)
    hall.scheduler.finish(hall.take(worker), b"")
    assert job.state == DONE
    return job


def create(hall: TalkerHall, name: str, *parents: ParentRef) -> Job:
    return hall.scheduler.submit(JobSpec(b"q", name.encode(), name.encode(), BACKGROUND, 0, parents), None)


def ended_jobs(hall: TalkerHall) -> None:
    """Setup and two more have ended, and are in the ledger only."""
    for name in ("setup", "a", "b"):
        run(hall, name)


def linger(hall: TalkerHall) -> None:
    with hall.turn(after_us=LINGER_US):
        pass


def test_the_history_is_asked_once_every_end_is_on_its_way_there(hall: TalkerHall) -> None:
    with hall.turn():
        ended_jobs(hall)
        child = create(hall, "child", SETUP)
    assert hall.requests.parents == [], "the end of setup is not on its way to the store yet"
    linger(hall)
    assert hall.requests.under_way() is not None
    assert hall.requests.parents == [[SETUP]]
    hall.turn_that_commits()
    with hall.turn():
        hall.answer_parents()
    assert child.state == QUEUED


def test_an_answer_behind_a_commit_whose_outcome_is_unknown_is_asked_for_again(hall: TalkerHall) -> None:
    """The history may have lacked the ends of that commit when it was read."""
    with hall.turn():
        ended_jobs(hall)
        child = create(hall, "child", SETUP)
    linger(hall)
    with hall.turn():
        hall.doubt(kept=True)
    with hall.turn():
        hall.requests.parents.pop()
        hall.engine.parents_looked_up([], "")
    assert child.state == HELD
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    with hall.turn():
        hall.settle_commit(kept=True)
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    assert hall.requests.parents == [[SETUP]]
    with hall.turn():
        hall.answer_parents()
    assert child.state == QUEUED


def test_an_answer_after_a_failed_commit_is_asked_for_again(hall: TalkerHall) -> None:
    """What the commit should have brought may have been what was asked for."""
    with hall.turn():
        child = hall.scheduler.submit(JobSpec(b"other", b"child", b"child", BACKGROUND), None)
        for name in ("setup", "a", "b"):
            create(hall, name)
    linger(hall)
    hall.turn_that_commits()
    worker, _ = hall.worker("worker")
    with hall.turn():
        for _ in range(3):
            hall.scheduler.finish(hall.take(worker), b"")
        hall.scheduler.dependencies.depend(child, (SETUP,))
    linger(hall)
    assert hall.requests.parents == [[SETUP]]
    hall.turn_that_fails()
    with hall.turn():
        hall.answer_parents()
    assert child.state == HELD
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    hall.turn_that_commits()
    assert hall.requests.parents == [[SETUP]]
    with hall.turn():
        hall.answer_parents()
    assert child.state == QUEUED


def test_trouble_with_the_history_is_followed_by_another_try(hall: TalkerHall) -> None:
    with hall.turn():
        ended_jobs(hall)
    linger(hall)
    hall.turn_that_commits()
    with hall.turn():
        child = create(hall, "child", SETUP)
    linger(hall)
    hall.turn_that_commits()
    with hall.turn():
        hall.answer_parents("the disk cannot be read")
    assert hall.requests.parents == []
    assert child.state == HELD
    assert 0 < hall.engine.next_deadline() <= hall.now_us + RETRY_FIRST_US
    with hall.turn(after_us=RETRY_FIRST_US):
        pass
    assert hall.requests.parents == [[SETUP]]
    with hall.turn():
        hall.answer_parents()
    assert child.state == QUEUED


def test_many_parents_are_asked_for_by_the_handful(hall: TalkerHall) -> None:
    count = PARENTS_ASKED_MAX + 5
    with hall.turn():
        ended_jobs(hall)
        for number in range(count):
            create(hall, f"child {number}", (b"q", b"parent %d" % number))
    linger(hall)
    hall.turn_that_commits()
    assert [len(refs) for refs in hall.requests.parents] == [PARENTS_ASKED_MAX], "one look-up at a time"
    with hall.turn():
        hall.answer_parents()
    assert [len(refs) for refs in hall.requests.parents] == [5]
    assert hall.engine.asking
    with hall.turn():
        hall.answer_parents()
    assert not hall.engine.asking
