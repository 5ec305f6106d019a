"""Verbs for a worker that needs more time, gives a job back for later, or takes one that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Hall, refused

from hiringhall.core.errors import CLOSING, STALE_LEASE, STORE_DOWN, WRONG_STATE
from hiringhall.core.states import DELAYED, FAILED, LEASED, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

LIMITED = Terms(detached=True, losses_max=0, run_us=10 * SECOND_US)

# --- renew


@pytest.mark.parametrize(
    ("terms_s", "worker_s", "expected_s"), [(10, 0, 10), (0, 10, 10), (10, 4, 4), (4, 10, 4)]
)
def test_a_renewed_lease_has_its_whole_run_limit_again(
    hall: Hall, terms_s: int, worker_s: int, expected_s: int
) -> None:
    bob = hall.worker("bob").can("q", run_us=worker_s * SECOND_US)
    hall.core.requeue_overruns(bob.me)
    job = hall.submit("a", terms=Terms(detached=True, run_us=terms_s * SECOND_US))
    lease = bob.takes("a")
    for _ in range(5):
        hall.after((expected_s - 1) * SECOND_US)
        hall.core.renew(lease)
        hall.turn()
    hall.after(expected_s * SECOND_US - 1)
    assert job.lease is lease
    hall.after(1)
    assert job.state == QUEUED
    bob.hears("revoked a")
    with refused(STALE_LEASE):
        hall.core.renew(lease)


def test_a_lease_without_a_run_limit_is_renewed_as_well(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=Terms(detached=True, lease_us=10 * SECOND_US))
    hall.submit("b")
    leases = [bob.takes("a"), bob.takes("b")]
    hall.after(9 * SECOND_US)
    for lease in leases:
        hall.core.renew(lease)
    hall.after(9 * SECOND_US)
    assert all(lease.job.lease is lease for lease in leases)
    hall.after(SECOND_US)
    assert [lease.job.state for lease in leases] == [QUEUED, LEASED]
    bob.hears("revoked a")


def test_renewing_on_other_terms_moves_a_job_to_another_lane(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = {name: hall.submit(name, terms=LIMITED) for name in "abc"}
    lease = bob.takes("a")
    hall.core.renew(lease, LIMITED.replace(priority=LOW))
    hall.core.release(lease)
    hall.turn()
    assert jobs["a"].terms.priority == LOW
    lease = bob.takes("b")
    hall.core.renew(lease, LIMITED.replace(priority=HIGH))
    hall.core.release(lease)
    hall.turn()
    for name in "bca":
        bob.takes(name)


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW])
def test_a_job_that_was_taken_from_the_middle_of_a_lane_comes_back_once(hall: Hall, priority: int) -> None:
    bob = hall.worker("bob")
    jobs = {name: hall.submit(name, terms=LIMITED) for name in "abc"}
    lease = hall.core.take_job(bob.me, jobs["b"])
    hall.turn()
    hall.core.renew(lease, LIMITED.replace(priority=priority))
    hall.core.release(lease, front=False)
    hall.turn()
    for name in {HIGH: "bac", NORMAL: "acb", LOW: "acb"}[priority]:
        bob.takes(name)
    bob.takes_nothing()


def test_terms_with_other_limits_count_from_now(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=LIMITED)
    lease = bob.takes("a")
    hall.core.renew(lease, LIMITED.replace(run_us=0))
    hall.after(100 * SECOND_US)
    assert job.lease is lease
    hall.core.renew(lease, LIMITED.replace(run_us=0, lease_us=SECOND_US))
    hall.after(SECOND_US)
    assert job.state == QUEUED
    bob.hears("revoked a")


def test_a_job_that_becomes_durable_is_stored(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=LIMITED)
    lease = bob.takes("a")
    hall.core.renew(lease, LIMITED.replace(durable=True))
    assert [row.id for row in hall.commit().inserts] == [job.id]
    hall.core.fail(lease)
    assert [row.id for row in hall.commit().ends] == [job.id]
    assert hall.core.archive.dead_letters(b"q", 1) == [job]


def test_a_job_that_cannot_become_durable_is_as_it_was(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=LIMITED)
    lease = bob.takes("a")
    hall.core.renew(lease, LIMITED.replace(durable=True))
    assert hall.commit_fails() == ["a"]
    assert (job.terms, job.lease) == (LIMITED, lease)
    with refused(STORE_DOWN):
        hall.core.renew(lease, LIMITED.replace(durable=True))
    assert job.terms is LIMITED


# --- release with a delay


def test_a_job_that_is_released_with_a_delay_is_ready_after_it(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.commit()
    hall.core.release(bob.takes("a"), delay_us=5 * SECOND_US)
    (update,) = hall.commit().updates
    assert (update.state, update.due_us, update.losses) == (DELAYED, hall.core.now_us + 5 * SECOND_US, 0)
    bob.takes_nothing()
    bob.sleeps()
    hall.after(5 * SECOND_US - 1)
    hall.after(1)
    bob.hears("woken")
    bob.takes("a")
    assert job.attempts == 2


# --- taking a job by name


def test_a_job_is_taken_wherever_it_stands(hall: Hall) -> None:
    anna = hall.person("anna")
    ready, delayed = hall.submit("a"), hall.submit("b", due_us=hall.core.now_us + 100)
    first, second = (hall.core.take_job(anna.me, job) for job in (ready, delayed))
    hall.after(1000)
    assert (ready.lease, delayed.lease, ready.attempts) == (first, second, 1)
    anna.leaves()
    hall.worker("bob").takes("a")
    assert delayed.state == QUEUED


def test_a_job_that_cannot_be_taken_is_refused(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.need(b"hard", 5, 0)
    hard, held = hall.submit("hard", "hard"), hall.submit("held", parents=((b"q", b"later"),))
    ended = hall.submit("done")
    hall.core.finish(bob.takes("done"), b"")
    leased = hall.submit("leased")
    bob.takes("leased")
    for job in (hard, held, ended, leased):
        with refused(WRONG_STATE):
            hall.core.take_job(bob.me, job)
    hall.core.close()
    with refused(CLOSING):
        hall.core.take_job(bob.me, hall.submit("late", terms=BACKGROUND))


# --- dead letters of a queue


def test_dead_letters_are_listed_by_queue_the_oldest_failure_first(hall: Hall) -> None:
    bob = hall.worker("bob", "q", "other")
    jobs: dict[str, Job] = {}
    for name, queue in (("a", "q"), ("b", "other"), ("c", "q"), ("d", "q")):
        jobs[name] = hall.submit(name, queue, terms=BACKGROUND)
    memory = hall.submit("m", key="m", terms=Terms(detached=True))
    leases = [bob.takes(name) for name in "abcdm"]
    for lease in reversed(leases):
        hall.core.fail(lease)
    assert memory.state == FAILED
    letters = hall.core.archive.dead_letters
    assert letters(b"q", 9) == [jobs["d"], jobs["c"], jobs["a"]]
    assert letters(b"q", 2) == [jobs["d"], jobs["c"]]
    assert (letters(b"other", 9), letters(b"none", 9), letters(b"q", 0)) == ([jobs["b"]], [], [])
    hall.core.retry(jobs["d"])
    assert letters(b"q", 1) == [jobs["c"]]
    assert hall.core.archive.failed(b"q") == 3
