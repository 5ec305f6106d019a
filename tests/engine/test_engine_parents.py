"""When the history is asked for parents: once every end so far is on its way there; again after trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_room import BACKGROUND, Room

from hiringhall.core.jobs import JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, HELD, QUEUED
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US
from hiringhall.engine.parents import PARENTS_ASKED_MAX

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job, ParentRef

SETUP: ParentRef = (b"q", b"setup")


@pytest.fixture
def room() -> Room:
    """One ended job is kept in memory."""
    return Room(Limits(ended_max=1))


def run(room: Room, name: str) -> Job:
    """A job begins and ends within one turn."""
    worker, _ = room.worker("worker")
    job = room.core.submit(JobSpec(b"q", name.encode(), name.encode(), BACKGROUND), None)
    room.core.finish(room.take(worker), b"")
    assert job.state == DONE
    return job


def create(room: Room, name: str, *parents: ParentRef) -> Job:
    return room.core.submit(JobSpec(b"q", name.encode(), name.encode(), BACKGROUND, 0, parents), None)


def answer(room: Room, trouble: str = "") -> None:
    """Inside a turn: the store has looked up what was asked first."""
    refs = room.desk.parents.pop(0)
    room.engine.parents_looked_up([] if trouble else room.store.latest_ends(refs), trouble)


def ended_jobs(room: Room) -> None:
    """Setup and two more have ended, and are in the ledger only."""
    for name in ("setup", "a", "b"):
        run(room, name)


def linger(room: Room) -> None:
    with room.turn(after_us=LINGER_US):
        pass


def test_the_history_is_asked_once_every_end_is_on_its_way_there(room: Room) -> None:
    with room.turn():
        ended_jobs(room)
        child = create(room, "child", SETUP)
    assert room.desk.parents == [], "the end of setup is not on its way to the store yet"
    linger(room)
    assert room.under_way() is not None
    assert room.desk.parents == [[SETUP]]
    room.turn_that_commits()
    with room.turn():
        answer(room)
    assert child.state == QUEUED


def test_an_answer_after_a_failed_commit_is_asked_for_again(room: Room) -> None:
    """What the commit should have brought may have been what was asked for."""
    with room.turn():
        child = room.core.submit(JobSpec(b"other", b"child", b"child", BACKGROUND), None)
        for name in ("setup", "a", "b"):
            create(room, name)
    linger(room)
    room.turn_that_commits()
    worker, _ = room.worker("worker")
    with room.turn():
        for _ in range(3):
            room.core.finish(room.take(worker), b"")
        room.core.dependencies.depend(child, (SETUP,))
    linger(room)
    assert room.desk.parents == [[SETUP]]
    room.turn_that_fails()
    with room.turn():
        answer(room)
    assert child.state == HELD
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    room.turn_that_commits()
    assert room.desk.parents == [[SETUP]]
    with room.turn():
        answer(room)
    assert child.state == QUEUED


def test_trouble_with_the_history_is_followed_by_another_try(room: Room) -> None:
    with room.turn():
        ended_jobs(room)
    linger(room)
    room.turn_that_commits()
    with room.turn():
        child = create(room, "child", SETUP)
    linger(room)
    room.turn_that_commits()
    with room.turn():
        answer(room, "the disk cannot be read")
    assert room.desk.parents == []
    assert child.state == HELD
    assert 0 < room.engine.next_deadline() <= room.now_us + RETRY_FIRST_US
    with room.turn(after_us=RETRY_FIRST_US):
        pass
    assert room.desk.parents == [[SETUP]]
    with room.turn():
        answer(room)
    assert child.state == QUEUED


def test_many_parents_are_asked_for_by_the_handful(room: Room) -> None:
    count = PARENTS_ASKED_MAX + 5
    with room.turn():
        ended_jobs(room)
        for number in range(count):
            create(room, f"child {number}", (b"q", b"parent %d" % number))
    linger(room)
    room.turn_that_commits()
    assert [len(refs) for refs in room.desk.parents] == [PARENTS_ASKED_MAX], "one look-up at a time"
    with room.turn():
        answer(room)
    assert [len(refs) for refs in room.desk.parents] == [5]
    assert room.engine.asking
    with room.turn():
        answer(room)
    assert not room.engine.asking
