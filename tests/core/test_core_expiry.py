"""A job that nobody takes does not wait for ever, if those who asked for it said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import HOUR_US, SECOND_US, Disk, Hall, Person

from hiringhall.core.states import CALLED_OFF, CANCELLED, DELAYED, FAILED, HELD, LEASED, PARENT_FAILED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job

PATIENCE_US = 10 * SECOND_US
SHORT = Terms(detached=True, expire_us=PATIENCE_US)
STORED = Terms(durable=True, detached=True, expire_us=PATIENCE_US, failures_max=2, backoff_us=SECOND_US)


def expires_after(hall: Hall, job: Job, left_us: int) -> None:
    """It is ready until the last moment, and is cancelled in the next."""
    hall.after(left_us - 1)
    assert job.state == QUEUED
    hall.after(1)
    assert job.state == CANCELLED


def test_a_ready_job_that_nobody_takes_is_cancelled(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, terms=SHORT)
    expires_after(hall, job, PATIENCE_US)
    ann.hears("cancelled a no worker took it in time")
    assert hall.core.queue(b"q").counts() == (0, 0, 0)
    hall.worker("bob").takes_nothing()


def test_the_hall_comes_back_for_it(hall: Hall) -> None:
    assert hall.core.next_deadline() == 0
    hall.submit("a", terms=SHORT)
    assert hall.core.next_deadline() == hall.core.now_us + PATIENCE_US


def test_without_such_terms_a_job_waits_for_ever(hall: Hall) -> None:
    job = hall.submit("a")
    assert hall.core.next_deadline() == 0
    hall.after(10_000 * HOUR_US)
    assert job.state == QUEUED


def test_who_took_it_has_all_the_time_of_the_world(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=SHORT)
    hall.after(PATIENCE_US - 1)
    lease = bob.takes("a")
    hall.after(HOUR_US)
    assert job.state == LEASED
    hall.core.finish(lease, b"")
    hall.turn()


def test_the_last_moment_is_too_late(hall: Hall) -> None:
    """Time passes before anybody speaks: who asks in the turn of the expiry finds nothing."""
    bob = hall.worker("bob")
    hall.submit("a", terms=SHORT)
    hall.core.advance(hall.core.now_us + PATIENCE_US)
    bob.takes_nothing()


def give_back(hall: Hall, bob: Person) -> None:
    hall.core.release(bob.holds(next(iter(hall.core.jobs.values()))))


def lose(_: Hall, bob: Person) -> None:
    bob.leaves()


def recall(hall: Hall, bob: Person) -> None:
    hall.core.recall(bob.holds(next(iter(hall.core.jobs.values()))))
    bob.hears("revoked a")


@pytest.mark.parametrize("how", [give_back, lose, recall])
def test_a_job_that_comes_back_waits_anew(hall: Hall, how: Callable[[Hall, Person], None]) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=SHORT)
    hall.after(PATIENCE_US - 1)
    bob.takes("a")
    hall.after(HOUR_US)
    how(hall, bob)
    expires_after(hall, job, PATIENCE_US)


def test_the_pause_after_a_failure_does_not_count(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=STORED)
    hall.core.fail(bob.takes("a"))
    hall.after(SECOND_US - 1)
    assert job.state == DELAYED
    hall.after(1)
    expires_after(hall, job, PATIENCE_US)


def test_a_job_due_later_waits_from_its_due_time_on(hall: Hall) -> None:
    job = hall.submit("a", terms=SHORT, due_us=hall.core.now_us + HOUR_US)
    hall.after(HOUR_US - 1)
    assert job.state == DELAYED
    hall.after(1)
    expires_after(hall, job, PATIENCE_US)


def test_waiting_for_a_parent_does_not_count(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = hall.submit("parent")
    child = hall.submit("child", terms=SHORT, parents=(parent.id,))
    hall.after(HOUR_US)
    assert child.state == HELD
    hall.core.finish(bob.takes("parent"), b"")
    hall.turn()
    expires_after(hall, child, PATIENCE_US)


def test_a_ready_job_that_has_to_wait_for_a_parent_after_all(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = hall.submit("child", terms=SHORT)
    hall.after(PATIENCE_US - 1)
    parent = hall.submit("parent")
    hall.core.dependencies.depend(child, (parent.id,))
    hall.after(HOUR_US)
    assert child.state == HELD
    hall.core.finish(bob.takes("parent"), b"")
    hall.turn()
    expires_after(hall, child, PATIENCE_US)


def test_children_of_a_job_that_expired(hall: Hall) -> None:
    parent = hall.submit("parent", terms=SHORT)
    child = hall.submit("child", parents=(parent.id,))
    hall.after(PATIENCE_US)
    assert (child.state, child.code) == (FAILED, PARENT_FAILED)


def test_a_cancelled_job_expires_no_more(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, terms=SHORT)
    hall.core.cancel(job, b"changed my mind")
    ann.hears("cancelled a changed my mind")
    hall.after(HOUR_US)
    assert hall.core.counters.cancelled == 1


def test_a_retried_dead_letter_waits_anew(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(durable=True, detached=True, expire_us=PATIENCE_US))
    hall.core.fail(bob.takes("a"))
    hall.commit()
    hall.after(HOUR_US)
    hall.core.retry(job)
    expires_after(hall, job, PATIENCE_US)


def test_one_woken_for_a_job_that_expired_finds_nothing_and_sleeps_on(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.sleeps()
    hall.submit("a", terms=SHORT)
    hall.turn()
    bob.hears("woken")
    hall.after(PATIENCE_US)
    bob.takes_nothing()
    bob.sleeps()
    hall.turn()


def test_a_stored_job_expires_into_the_history(hall: Hall) -> None:
    disk = Disk()
    job = hall.submit("a", terms=STORED)
    disk.apply(hall.commit())
    hall.after(PATIENCE_US)
    disk.apply(hall.commit())
    assert disk.live == {}
    end = disk.history[job.id]
    assert (end.state, end.code, end.result) == (CANCELLED, CALLED_OFF, b"no worker took it in time")
    assert (end.started_us, end.ended_us) == (0, job.created_us + PATIENCE_US)


def test_after_a_restart_workers_get_their_time_to_come_in_again(hall: Hall) -> None:
    disk = Disk()
    job = hall.submit("a", terms=STORED)
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us + HOUR_US
    again.core.restore(loaded)
    again.turn()
    expires_after(again, again.core.jobs[job.id], PATIENCE_US)


def test_the_row_of_a_ready_job_says_nothing_of_a_due_time(hall: Hall) -> None:
    """When it expires is not when it is due: whoever reads the row would have it wait."""
    hall.submit("a", terms=STORED)
    assert [row.due_us for row in hall.commit().inserts] == [0]


def test_a_joined_job_keeps_its_own_patience(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, key="k", terms=Terms(expire_us=PATIENCE_US))
    assert hall.submit("a", key="k", terms=STORED) is job
    expires_after(hall, job, PATIENCE_US)
    ann.hears("cancelled a no worker took it in time")


def test_many_jobs_that_were_taken_leave_no_timers_behind(hall: Hall) -> None:
    bob = hall.worker("bob")
    for number in range(5000):
        hall.submit(str(number), terms=SHORT)
        hall.core.finish(bob.takes(str(number)), b"")
    hall.turn()
    assert len(hall.core.timers._heap) < 2100
    hall.after(PATIENCE_US)
    assert hall.core.next_deadline() == 0
