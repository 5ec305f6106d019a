"""One attempt at a job: how it ends, by whose doing, and what becomes of the job."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, Hall, refused

from hiringhall.core.errors import STALE_LEASE
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, LEASED, LOST, QUEUED, TIMED_OUT
from hiringhall.core.terms import Terms

VERBS = ("progress", "chunk", "finish", "fail", "release", "renew")
ENDS = ("finish", "fail", "release", "cancel", "leave", "silence", "run limit")


def test_a_worker_knows_its_leases(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    job, other = hall.submit("a"), hall.submit("b")
    lease = bob.takes("a")
    assert bob.holds(job) is lease
    assert job.lease is lease
    carl.takes("b")
    for person, job_id in ((carl, job.id), (bob, other.id), (bob, 12345)):
        with refused(STALE_LEASE):
            hall.core.find_lease(person.me, job_id)
    assert hall.core.counters.stale == 3


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("end", ENDS)
def test_whatever_a_worker_says_of_a_lease_that_ended_is_refused(end: str, verb: str) -> None:
    hall = Hall()
    bob, carl = hall.worker("bob"), hall.worker("carl")
    terms = Terms(detached=True, failures_max=5, lease_us=10, run_us=20)
    job = hall.submit("a", terms=terms)
    lease = bob.takes("a")
    if end == "finish":
        hall.core.finish(lease, b"")
    elif end == "fail":
        hall.core.fail(lease)
    elif end == "release":
        hall.core.release(lease)
    elif end == "cancel":
        hall.core.cancel(job)
    elif end == "leave":
        hall.core.leave(bob)
    elif end == "silence":
        hall.after(10)
    else:
        for _ in range(20):
            hall.core.beat(bob.me)
            hall.after(1)
    hall.turn()
    assert job.lease is None
    # It may be with somebody else by now: their work must not be touched.
    again = hall.core.take(carl.me)
    before = (job.state, job.numerator, job.failures, job.losses, job.lease)
    with refused(STALE_LEASE):
        if verb == "progress":
            hall.core.progress(lease, 1, 2)
        elif verb == "chunk":
            hall.core.chunk(lease, b"x")
        elif verb == "finish":
            hall.core.finish(lease, b"x")
        elif verb == "fail":
            hall.core.fail(lease)
        elif verb == "renew":
            hall.core.renew(lease, job.terms.replace(priority=0))
        else:
            hall.core.release(lease)
    assert (job.state, job.numerator, job.failures, job.losses, job.lease) == before
    assert hall.core.counters.stale == 1
    if again is not None:
        hall.core.finish(again, b"")
        assert job.state == DONE
    hall.turn()


def test_the_same_worker_with_the_same_job_again_has_another_lease(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a")
    first = bob.takes("a")
    hall.core.release(first)
    second = bob.takes("a")
    assert second.number > first.number
    with refused(STALE_LEASE):
        hall.core.finish(first, b"")
    assert bob.holds(job) is second


def test_released_is_nobodys_fault(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a")
    for _ in range(10):
        hall.core.release(bob.takes("a"))
        hall.turn()
    assert (job.losses, job.failures, job.attempts) == (0, 0, 10)
    assert hall.core.counters.released == 10


# --- losses


@pytest.mark.parametrize("losses_max", [1, 2, 3])
def test_a_job_that_costs_too_many_workers_has_failed(hall: Hall, losses_max: int) -> None:
    ann = hall.person("ann")
    job = hall.submit("poison", by=ann, terms=Terms(losses_max=losses_max))
    hall.submit("next")
    for count in range(losses_max):
        assert job.losses == count
        victim = hall.worker(f"victim {count}")
        victim.takes("poison")
        victim.leaves()
    assert (job.state, job.code, job.losses) == (FAILED, LOST, losses_max)
    ann.hears(f"failed poison 125 its workers were lost {losses_max} times")
    assert hall.core.counters.lost == losses_max
    hall.worker("bob").takes("next")


def test_losses_max_of_nought_is_no_bound(hall: Hall) -> None:
    job = hall.submit("a", terms=Terms(detached=True, losses_max=0))
    for count in range(20):
        victim = hall.worker(f"victim {count}")
        victim.takes("a")
        victim.leaves()
    assert (job.state, job.losses) == (QUEUED, 20)


def test_a_lost_job_is_the_next_to_be_taken(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.submit("a")
    hall.submit("b")
    bob.takes("a")
    carl.sleeps()
    hall.turn()
    carl.hears("woken")
    bob.leaves()
    carl.takes("a")


# --- silence and run limits


def test_a_silent_worker_loses_its_job_in_time(hall: Hall) -> None:
    ann, bob, carl = hall.person("ann"), hall.worker("bob"), hall.worker("carl")
    job = hall.submit("a", by=ann, terms=Terms(lease_us=30 * SECOND_US))
    lease = bob.takes("a")
    carl.sleeps()
    hall.after(30 * SECOND_US - 1)
    assert job.lease is lease
    hall.after(1)
    bob.hears("revoked a")
    carl.hears("woken")
    assert (job.state, job.losses) == (QUEUED, 1)
    assert (hall.core.counters.expired, hall.core.counters.lost) == (1, 1)
    again = carl.takes("a")
    with refused(STALE_LEASE):
        hall.core.find_lease(bob.me, job.id)
    hall.core.finish(again, b"r")
    ann.hears("done a r")


@pytest.mark.parametrize("sign", ["beat", "progress", "chunk"])
def test_a_long_job_that_shows_life_is_never_run_twice(hall: Hall, sign: str) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.submit("a", terms=Terms(detached=True, lease_us=10))
    lease = bob.takes("a")
    carl.sleeps()
    for _ in range(100):
        hall.after(9)
        if sign == "beat":
            hall.core.beat(bob.me)
        elif sign == "progress":
            hall.core.progress(lease, 1, 2)
        else:
            hall.core.chunk(lease, b"x")
    hall.core.finish(lease, b"")
    hall.turn()
    assert lease.job.attempts == 1


def test_one_beat_serves_all_leases_of_a_worker(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [
        hall.submit(name, terms=Terms(detached=True, lease_us=limit)) for name, limit in (("a", 10), ("b", 30))
    ]
    bob.takes("a")
    bob.takes("b")
    hall.after(9)
    hall.core.beat(bob.me)
    hall.after(9)
    assert [job.state for job in jobs] == [LEASED, LEASED]
    hall.after(1)
    bob.hears("revoked a")
    hall.after(20)
    bob.hears("revoked b")
    assert [job.losses for job in jobs] == [1, 1]


def test_taking_is_a_sign_of_life_for_the_lease_taken(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.after(HOUR_US)
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10))
    bob.takes("a")
    hall.after(9)
    assert job.state == LEASED


RUN_LIMITS = {
    "the worker's": (10, 0, 10),
    "the job's": (0, 10, 10),
    "the shorter one, the worker's": (10, 20, 10),
    "the shorter one, the job's": (20, 10, 10),
}


@pytest.mark.parametrize("story", RUN_LIMITS)
def test_a_job_that_runs_too_long_has_failed_signs_of_life_or_not(hall: Hall, story: str) -> None:
    worker_us, job_us, limit_us = RUN_LIMITS[story]
    ann, bob = hall.person("ann"), hall.person("bob").can("q", run_us=worker_us)
    job = hall.submit("slow", by=ann, terms=Terms(run_us=job_us))
    quick = hall.submit("quick", by=ann)
    bob.takes("slow")
    hall.after(limit_us - 1)
    hall.core.beat(bob.me)
    # Exactly the job that overran fails, never the one its worker took later.
    lease = bob.takes("quick")
    hall.after(1)
    bob.hears("revoked slow")
    ann.hears("failed slow 124 it exceeded its run limit")
    assert (job.state, job.code) == (FAILED, TIMED_OUT)
    assert quick.state == LEASED
    hall.core.finish(lease, b"")
    ann.hears("done quick")
    assert (hall.core.counters.expired, hall.core.counters.lost) == (1, 0)


def test_an_overrun_follows_the_retry_policy(hall: Hall) -> None:
    bob = hall.person("bob").can("q", run_us=10)
    job = hall.submit("slow", terms=Terms(detached=True, failures_max=1, backoff_us=5))
    bob.takes("slow")
    hall.after(10)
    bob.hears("revoked slow")
    assert (job.state, job.failures, job.losses) == (DELAYED, 1, 0)
    hall.after(5)
    bob.takes("slow")
    hall.after(10)
    bob.hears("revoked slow")
    assert (job.state, job.code) == (FAILED, TIMED_OUT)


def test_silence_before_the_run_limit_is_a_loss(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10, run_us=50))
    bob.takes("a")
    hall.after(10)
    bob.hears("revoked a")
    assert (job.state, job.losses, job.failures) == (QUEUED, 1, 0)


def test_the_run_limit_holds_although_the_silence_was_moved(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10, run_us=35))
    bob.takes("a")
    for _ in range(7):
        hall.core.beat(bob.me)
        hall.after(5)
    bob.hears("revoked a")
    assert (job.state, job.losses, job.failures) == (FAILED, 0, 1)


def test_a_lease_without_limits_never_ends_by_time(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a")
    bob.takes("a")
    assert hall.core.next_deadline() == 0
    hall.after(1000 * HOUR_US)
    assert job.state == LEASED


def test_an_expired_job_that_nobody_waits_for_ends_and_its_worker_hears_so_once(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, terms=Terms(lease_us=10))
    bob.takes("a")
    ann.leaves()
    hall.after(10)
    assert job.state == CANCELLED
    assert hall.core.jobs == {}
    bob.hears("revoked a")


# --- failures and backoff


def test_without_a_policy_the_first_failure_is_the_end(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann)
    hall.core.fail(bob.takes("a"), 42, b"division by zero")
    assert (job.state, job.code, job.failures) == (FAILED, 42, 1)
    ann.hears("failed a 42 division by zero")


def test_retries_wait_twice_as_long_each_time_up_to_a_bound(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    terms = Terms(failures_max=6, backoff_us=10, backoff_max_us=50)
    job = hall.submit("a", by=ann, terms=terms)
    for pause_us in (10, 20, 40, 50, 50, 50):
        hall.core.fail(bob.takes("a"))
        hall.turn()
        assert (job.state, job.due_us) == (DELAYED, hall.core.now_us + pause_us)
        hall.after(pause_us - 1)
        bob.takes_nothing()
        hall.after(1)
    ann.hears()
    hall.core.fail(bob.takes("a"), 3)
    ann.hears("failed a 3")
    assert (job.failures, job.attempts, hall.core.counters.retried) == (7, 7, 6)


def test_very_many_retries_do_not_overflow_the_pause(hall: Hall) -> None:
    bob = hall.worker("bob")
    terms = Terms(detached=True, failures_max=200, backoff_us=1_000_000, backoff_max_us=HOUR_US)
    job = hall.submit("a", terms=terms)
    for _ in range(150):
        hall.core.fail(bob.takes("a"))
        hall.after(HOUR_US)
    assert job.state == QUEUED


def test_a_backoff_of_nought_is_still_a_turn(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=Terms(detached=True, failures_max=1, backoff_us=0))
    hall.core.fail(bob.takes("a"))
    bob.takes_nothing()
    hall.after(1)
    bob.takes("a")


def test_a_retry_stands_behind_those_who_came_meanwhile(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=Terms(detached=True, failures_max=1, backoff_us=10))
    hall.core.fail(bob.takes("a"))
    hall.submit("b")
    hall.after(10)
    bob.takes("b")
    bob.takes("a")


def test_a_failure_that_nobody_waits_for_is_not_retried(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, terms=Terms(failures_max=5))
    lease = bob.takes("a")
    ann.leaves()
    hall.core.fail(lease)
    assert job.state == FAILED
    hall.turn()


def test_failures_and_losses_are_counted_apart(hall: Hall) -> None:
    terms = Terms(durable=True, detached=True, failures_max=2, losses_max=2, backoff_us=1)
    job = hall.submit("a", terms=terms)
    bob = hall.worker("bob")
    hall.core.fail(bob.takes("a"))
    hall.after(1)
    bob.takes("a")
    bob.leaves()
    hall.core.fail(hall.worker("carl").takes("a"))
    assert (job.state, job.failures, job.losses, job.attempts) == (DELAYED, 2, 1, 3)
    batch = hall.commit()
    assert [(row.failures, row.losses, row.attempts) for row in batch.inserts] == [(2, 1, 3)]


def test_a_worker_name_is_who_had_the_latest_attempt(hall: Hall) -> None:
    job = hall.submit("a", terms=BACKGROUND)
    for name in ("bob", "carl"):
        worker = hall.worker(name)
        worker.me.name = name.encode()
        worker.takes("a")
        assert job.worker_name == name.encode()
        worker.leaves()
