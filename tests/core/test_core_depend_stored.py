"""Further parents of a job that is on disk: what the store is told, and what a new hall makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, START_US, Disk, Hall, Person

from hiringhall.core.states import DELAYED, DONE, HELD, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch
    from hiringhall.core.jobs import Job, ParentRef

UNBORN: ParentRef = (b"q", b"unborn")


def submit(hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND, due_us: int = 0) -> Job:
    """Each job's key is its name."""
    return hall.submit(name, key=name, parents=parents, terms=terms, due_us=due_us)


def finish(hall: Hall, worker: Person, name: str) -> None:
    hall.core.finish(worker.takes(name), b"")
    hall.turn()


def reboot(hall: Hall, disk: Disk, down_us: int = 0) -> Hall:
    """Everything commits, the hall dies, and a new one opens `down_us` later."""
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us + down_us
    again.core.restore(loaded)
    again.turn()
    return again


def found(hall: Hall, job: Job) -> Job:
    again = hall.core.find(job.id)
    assert again is not None
    return again


def rows(batch: Batch) -> list[tuple[int, int, tuple[ParentRef, ...], int]]:
    """Id, state, parents and due time of all that was written of live jobs."""
    inserts = [(row.id, row.state, row.parents, row.due_us) for row in batch.inserts]
    return inserts + [(row.id, row.state, row.parents, row.due_us) for row in batch.updates]


def test_a_stored_job_that_depends_is_an_update(hall: Hall) -> None:
    job, parent, nameless = submit(hall, "job"), submit(hall, "parent"), hall.submit("no key", "p")
    hall.commit()
    hall.core.dependencies.depend(job, (parent.id, UNBORN, nameless.id))
    batch = hall.commit()
    assert not batch.inserts
    assert rows(batch) == [(job.id, HELD, ((b"q", b"parent"), UNBORN, nameless.id), 0)]
    hall.core.dependencies.depend(job, ((b"q", b"second"),))
    assert rows(hall.commit()) == [
        (job.id, HELD, ((b"q", b"parent"), UNBORN, nameless.id, (b"q", b"second")), 0)
    ]


def test_a_job_that_came_and_depends_within_one_commit_is_one_row(hall: Hall) -> None:
    job = submit(hall, "job", due_us=START_US + 5)
    hall.core.dependencies.depend(job, (UNBORN,))
    batch = hall.commit()
    assert not batch.updates
    assert rows(batch) == [(job.id, HELD, (UNBORN,), START_US + 5)]


def test_a_parent_that_is_met_is_written_out(hall: Hall) -> None:
    bob = hall.worker("bob")
    job, parent = submit(hall, "job"), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id, UNBORN))
    submit(hall, "unborn")
    hall.commit()
    finish(hall, bob, "parent")
    assert rows(hall.commit()) == [(job.id, HELD, (UNBORN,), 0)]
    hall.after(7)
    finish(hall, bob, "unborn")
    batch = hall.commit()
    assert rows(batch) == [(job.id, QUEUED, (), 0)]
    assert [update.ready_us for update in batch.updates] == [START_US + 7]
    hall.after(1)
    finish(hall, bob, "job")
    assert [(end.ready_us, end.started_us) for end in hall.commit().ends] == [(START_US + 7, START_US + 8)]


def test_a_delayed_job_that_depends_keeps_its_due_time_on_disk(hall: Hall) -> None:
    bob = hall.worker("bob")
    job, parent = submit(hall, "job", due_us=START_US + 10), submit(hall, "parent")
    hall.commit()
    hall.core.dependencies.depend(job, (parent.id,))
    assert rows(hall.commit()) == [(job.id, HELD, ((b"q", b"parent"),), START_US + 10)]
    finish(hall, bob, "parent")
    assert rows(hall.commit()) == [(job.id, DELAYED, (), START_US + 10)]


def test_a_job_in_memory_that_depends_is_no_business_of_the_stores(hall: Hall) -> None:
    job = hall.submit("job")
    hall.core.dependencies.depend(job, (UNBORN,))
    assert hall.commit().empty
    assert job.state == HELD


def test_a_join_makes_a_job_that_depends_durable(hall: Hall) -> None:
    job = hall.submit("job", key="job")
    hall.core.dependencies.depend(job, (UNBORN,))
    submit(hall, "job")
    assert rows(hall.commit()) == [(job.id, HELD, (UNBORN,), 0)]


# --- a new hall


@pytest.mark.parametrize("by", ["id", "key", "unborn"])
def test_a_job_that_depends_still_does_after_a_restart(hall: Hall, by: str) -> None:
    disk = Disk()
    job = submit(hall, "job")
    disk.apply(hall.commit())
    if by == "unborn":
        hall.core.dependencies.depend(job, ((b"q", b"parent"),))
    parent = submit(hall, "parent")
    if by != "unborn":
        hall.core.dependencies.depend(job, (parent.id if by == "id" else (b"q", b"parent"),))
    again = reboot(hall, disk)
    assert found(again, job).state == HELD
    bob = again.worker("bob")
    again.after(3)
    finish(again, bob, "parent")
    assert found(again, job).ready_us == again.core.now_us
    finish(again, bob, "job")


@pytest.mark.parametrize("down_us", [0, 9, 10, 11, SECOND_US])
def test_the_due_time_of_a_job_that_depends_survives_a_restart(hall: Hall, down_us: int) -> None:
    job, parent = submit(hall, "job", due_us=START_US + 10), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    again = reboot(hall, Disk(), down_us)
    assert found(again, job).state == HELD
    finish(again, again.worker("bob"), "parent")
    assert found(again, job).state == (DELAYED if down_us < 10 else QUEUED)
    again.after(10)
    assert (found(again, job).state, found(again, job).due_us) == (QUEUED, 0)


def test_a_due_time_that_passed_while_it_waited_does_not_come_back(hall: Hall) -> None:
    disk = Disk()
    job, parent = submit(hall, "job", due_us=START_US + 10), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    disk.apply(hall.commit())
    hall.after(10)
    again = reboot(hall, disk)
    finish(again, again.worker("bob"), "parent")
    assert found(again, job).state == QUEUED
    again.after(HOUR_US)
    assert found(again, job).state == QUEUED


def test_when_it_was_ready_survives_a_restart(hall: Hall) -> None:
    disk = Disk()
    job, parent = submit(hall, "job"), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.after(4)
    finish(hall, hall.worker("bob"), "parent")
    again = reboot(hall, disk, 100)
    assert (found(again, job).state, found(again, job).ready_us) == (QUEUED, START_US + 4)
    finish(again, again.worker("bob"), "job")
    last = reboot(again, disk, 100)
    assert (found(last, job).state, found(last, job).ready_us) == (DONE, START_US + 4)


def test_a_dead_letter_that_was_due_later_is_retried_at_once(hall: Hall) -> None:
    job, parent = submit(hall, "job", due_us=START_US + 10), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.core.cancel(parent)
    hall.commit()
    hall.core.retry(job)
    assert rows(hall.commit()) == [(job.id, QUEUED, (), 0)]
    hall.after(10)
    hall.worker("bob").takes("job")


# --- the commit fails


def test_a_dependency_that_could_not_be_written_is_written_later(hall: Hall) -> None:
    disk = Disk()
    job, parent = submit(hall, "job"), submit(hall, "parent")
    disk.apply(hall.commit())
    hall.core.dependencies.depend(job, (parent.id,))
    assert hall.commit_fails() == []
    assert job.state == HELD
    again = reboot(hall, disk)
    assert found(again, job).state == HELD


@pytest.mark.parametrize("policy", [FAIL_WITH_PARENT, RUN_ANYWAY, HOLD], ids=["fail", "run", "hold"])
@pytest.mark.parametrize("key", ["parent", ""], ids=["with a key", "without"])
@pytest.mark.parametrize("when", ["with the batch", "during the commit"])
def test_a_stored_job_does_not_die_of_a_parent_that_was_taken_back(
    hall: Hall, policy: int, key: str, when: str
) -> None:
    """The parent was never acknowledged, nor was the wait for it; the job itself was, long ago."""
    job = submit(hall, "job", terms=Terms(durable=True, detached=True, on_parent_failure=policy))
    hall.commit()
    if when == "during the commit":
        batch = hall.core.seal()
    parent = hall.submit("parent", key=key, terms=BACKGROUND)
    hall.core.dependencies.depend(job, (parent.id,))
    if when == "during the commit":
        assert hall.fail_commit(batch) == ["parent"]
    else:
        assert hall.commit_fails() == ["parent"]
    assert job.state in (HELD, QUEUED)
    hall.commit()


def test_a_dead_letter_that_runs_again_does_not_die_of_a_parent_that_was_taken_back(hall: Hall) -> None:
    job = submit(hall, "job")
    hall.core.fail(hall.worker("bob").takes("job"))
    hall.commit()
    hall.core.retry(job)
    parent = hall.submit("parent", terms=BACKGROUND)
    hall.core.dependencies.depend(job, (parent.id,))
    assert hall.commit_fails() == ["parent"]
    assert job.state in (HELD, QUEUED)
    hall.commit()


def test_a_newcomer_that_depends_is_taken_back_whole(hall: Hall) -> None:
    parent = submit(hall, "parent")
    hall.commit()
    job = submit(hall, "job")
    hall.core.dependencies.depend(job, (parent.id, UNBORN))
    assert hall.commit_fails() == ["job"]
    assert (parent.children, hall.core.graph.expected) == (None, {})
    assert hall.commit().empty
