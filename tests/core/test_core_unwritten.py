"""Between its end and the history a job can be found, whatever else has been forgotten by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, Hall, Person

from hiringhall.core.limits import Limits
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

LOGGED = Terms(logged=True, detached=True)


def finish(hall: Hall, worker: Person, name: str, result: bytes = b"") -> None:
    hall.core.finish(worker.takes(name), result)
    hall.turn()


def unwritten(hall: Hall, job: Job) -> bool:
    """The hall says that its end is still to be written, and means this very job."""
    found = hall.core.unwritten(job.id)
    assert found is None or found is job
    return found is not None


@pytest.mark.parametrize("terms", [BACKGROUND, LOGGED])
def test_from_its_end_to_its_commit(hall: Hall, terms: Terms) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=terms)
    assert not unwritten(hall, job), "it has not ended"
    hall.commit()
    assert not unwritten(hall, job)
    finish(hall, bob, "a", b"r")
    assert unwritten(hall, job)
    batch = hall.core.seal()
    assert unwritten(hall, job)
    assert job.result == b"r"
    hall.core.committed(batch)
    assert not unwritten(hall, job)


def test_a_crowd_of_later_ends_does_not_hide_it() -> None:
    hall = Hall(Limits(ended_max=2))
    bob = hall.worker("bob")
    jobs = [hall.submit(str(number), terms=BACKGROUND) for number in range(6)]
    hall.commit()
    for number in range(3):
        finish(hall, bob, str(number), b"result")
    batch = hall.core.seal()
    for number in range(3, 6):
        finish(hall, bob, str(number), b"result")
    assert hall.core.find(jobs[0].id) is None
    assert all(unwritten(hall, job) and job.result == b"result" for job in jobs)
    assert hall.fail_commit(batch) == []
    assert all(unwritten(hall, job) and job.result == b"result" for job in jobs)
    hall.commit()
    assert not any(unwritten(hall, job) or job.result for job in jobs)


def test_a_newcomer_that_was_taken_back_is_nowhere(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    finish(hall, bob, "a")
    assert hall.commit_fails() == ["a"]
    assert not unwritten(hall, job)
    assert hall.core.find(job.id) is None


def test_a_logged_end_that_was_dropped_is_not_on_its_way(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", key="k", terms=LOGGED)
    finish(hall, bob, "a", b"r")
    assert hall.commit_fails() == []
    assert not unwritten(hall, job)
    later = hall.submit("b", key="l", terms=LOGGED)
    finish(hall, bob, "b", b"r")
    assert not unwritten(hall, later), "in trouble nothing of it is kept"


def test_a_dead_letter_that_runs_again_has_not_ended(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.fail(bob.takes("a"))
    batch = hall.core.seal()
    hall.core.retry(job)
    hall.turn()
    assert not unwritten(hall, job)
    hall.core.committed(batch)
    finish(hall, bob, "a")
    assert unwritten(hall, job), "its old end is in the history, its new one is not"
    hall.commit()
    assert not unwritten(hall, job)


def test_one_that_nobody_ever_heard_of(hall: Hall) -> None:
    assert hall.core.unwritten(7) is None
