"""That a job has begun is written down if it takes a while, and how long its worker thinks it will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, DETACHED, SECOND_US, START_US, Disk, Hall, Person, refused
from resident_stories import take

from hiringhall.core.errors import STALE_LEASE
from hiringhall.core.states import LEASED, QUEUED

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job


def named(hall: Hall, name: str) -> Person:
    worker = hall.worker(name)
    worker.me.name = name.encode()
    return worker


def stored(hall: Hall, *names: str) -> list[Job]:
    jobs = [hall.submit(name, terms=BACKGROUND) for name in names]
    hall.commit()
    return jobs


def begun_unnoted(hall: Hall) -> bool:
    return hall.core.ledger.has_started


def test_a_job_that_takes_a_while_is_a_row_that_says_who_has_it(hall: Hall) -> None:
    (job,) = stored(hall, "a")
    hall.after(5)
    named(hall, "bob").takes("a")
    assert begun_unnoted(hall)
    assert hall.commit().empty, "there is no hurry"
    hall.core.ledger.flush_started()
    assert not begun_unnoted(hall)
    (update,) = hall.commit().updates
    assert (update.id, update.state, update.worker, update.holder) == (job.id, LEASED, b"bob", b"")
    assert (update.attempts, update.started_us) == (1, START_US + 5)
    hall.core.ledger.flush_started()
    assert hall.commit().empty


def test_what_is_over_in_a_moment_costs_no_row(hall: Hall) -> None:
    jobs = stored(hall, *"abcd")
    bob = named(hall, "bob")
    leases = [bob.takes(name) for name in "abcd"]
    hall.core.finish(leases[0], b"")
    hall.core.fail(leases[1])
    hall.core.cancel(jobs[2])
    bob.hears("revoked c")
    hall.core.ledger.flush_started()
    batch = hall.commit()
    assert sorted(batch.deletes) == [job.id for job in jobs[:3]]
    assert [(update.id, update.state) for update in batch.updates] == [(jobs[3].id, LEASED)]


def test_a_job_given_back_is_ready_on_disk(hall: Hall) -> None:
    disk = Disk()
    job = hall.submit("a", terms=BACKGROUND)
    bob = named(hall, "bob")
    disk.apply(hall.commit())
    lease = bob.takes("a")
    hall.core.ledger.flush_started()
    disk.apply(hall.commit())
    assert disk.live[job.id].state == LEASED
    hall.core.release(lease)
    hall.core.ledger.flush_started()
    disk.apply(hall.commit())
    assert disk.live[job.id].state == QUEUED
    disk.compare(hall.core)


def test_jobs_in_memory_are_not_noted(hall: Hall) -> None:
    ann = hall.person("ann")
    bob = named(hall, "bob")
    hall.submit("a", by=ann)
    hall.submit("b", terms=DETACHED)
    bob.takes("a")
    bob.takes("b")
    assert not begun_unnoted(hall)
    hall.core.ledger.flush_started()
    assert hall.commit().empty


def test_a_resident_is_noted_soon_and_not_twice(hall: Hall) -> None:
    stored(hall, "a")
    take(hall, "bob", "a")
    assert hall.core.ledger.has_deferred
    assert not begun_unnoted(hall)
    assert [(update.state, update.holder) for update in hall.commit().updates] == [(LEASED, b"bob")]
    hall.core.ledger.flush_started()
    assert hall.commit().empty


def test_a_job_taken_back_is_not_noted(hall: Hall) -> None:
    bob = named(hall, "bob")
    hall.submit("a", terms=BACKGROUND)
    bob.takes("a")
    assert hall.commit_fails() == ["a"]
    bob.hears("revoked a")
    assert not begun_unnoted(hall)
    hall.core.ledger.flush_started()
    assert hall.commit().empty


def test_a_job_taken_back_that_lives_on_in_memory_is_not_noted(hall: Hall) -> None:
    ann, bob = hall.person("ann"), named(hall, "bob")
    hall.submit("a", by=ann, terms=BACKGROUND)
    lease = bob.takes("a")
    assert hall.commit_fails() == ["a"]
    hall.core.ledger.flush_started()
    assert hall.commit().empty
    hall.core.finish(lease, b"")
    ann.hears("done a")


def test_a_start_that_could_not_be_written_is_written_later(hall: Hall) -> None:
    (job,) = stored(hall, "a")
    named(hall, "bob").takes("a")
    hall.core.ledger.flush_started()
    assert hall.commit_fails() == []
    assert [(update.id, update.state) for update in hall.commit().updates] == [(job.id, LEASED)]


def test_a_job_that_becomes_durable_in_work_is_stored_as_begun(hall: Hall) -> None:
    ann, bob = hall.person("ann"), named(hall, "bob")
    hall.submit("a", by=ann, key="k")
    bob.takes("a")
    hall.submit("a", key="k", terms=BACKGROUND)
    assert [(row.state, row.worker, row.attempts) for row in hall.commit().inserts] == [(LEASED, b"bob", 1)]


# --- the time that is left


def test_a_worker_says_how_long_it_will_still_take(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("a", by=ann)
    lease = bob.takes("a")
    assert lease.expected_us == 0, "it has not said"
    hall.core.progress(lease, 1, 4, 30 * SECOND_US)
    assert lease.expected_us == START_US + 30 * SECOND_US
    hall.after(10 * SECOND_US)
    hall.core.progress(lease, 2, 4, 15 * SECOND_US)
    assert lease.expected_us == START_US + 25 * SECOND_US
    ann.hears("progressed a 1/4", "progressed a 2/4")


def test_a_worker_that_does_not_know_any_more(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a")
    lease = bob.takes("a")
    hall.core.progress(lease, 1, 4, SECOND_US)
    hall.core.progress(lease, 1, 5)
    assert lease.expected_us == 0
    hall.core.progress(lease, 2, 5, SECOND_US)
    hall.core.progress(lease, 2, 5, -1)
    assert lease.expected_us == 0


def test_the_next_worker_has_not_said_it(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a")
    lease = bob.takes("a")
    hall.core.progress(lease, 1, 4, SECOND_US)
    hall.core.release(lease)
    again = bob.takes("a")
    assert again.expected_us == 0
    with refused(STALE_LEASE):
        hall.core.progress(lease, 1, 4, SECOND_US)
    assert (again.expected_us, again.job.numerator) == (0, 0)


def test_a_guess_is_no_deadline(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a")
    hall.core.progress(bob.takes("a"), 1, 4, SECOND_US)
    hall.after(1000 * SECOND_US)
    assert job.state == LEASED
