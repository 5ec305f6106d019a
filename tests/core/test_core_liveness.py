"""Workers that fall silent, and workers that leave."""

from __future__ import annotations

import pytest
from hall_recorder import HOUR_US, SECOND_US, Hall, Person, refused

from hiringhall.core.errors import STALE_LEASE
from hiringhall.core.states import QUEUED
from hiringhall.core.terms import Terms


def test_a_silent_worker_is_lost_with_all_it_had(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    jobs = [hall.submit("a"), hall.submit("b")]
    old = bob.takes("a")
    bob.takes("b")
    hall.core.expect(bob.me, 10 * SECOND_US)
    carl.sleeps()
    hall.after(10 * SECOND_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("revoked a", "revoked b", "lost")
    carl.hears("woken")
    assert [(job.state, job.losses) for job in jobs] == [(QUEUED, 1), (QUEUED, 1)]
    assert bob.worker is None
    assert len(hall.core.workers) == 1
    with refused(STALE_LEASE):
        hall.core.finish(old, b"too late")


@pytest.mark.parametrize("state", ["asleep", "offering", "woken"])
def test_a_lost_worker_gets_no_more_work(hall: Hall, state: str) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 100)
    if state == "offering":
        bob.offers(1)
    else:
        bob.sleeps()
    if state == "woken":
        hall.submit("first")
        hall.turn()
        bob.hears("woken")
    hall.after(100)
    bob.hears("lost")
    hall.submit("a")
    hall.turn()
    bob.hears()


def test_a_lost_worker_may_come_back_as_a_new_one(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = bob.me
    hall.core.expect(bob.me, 5)
    hall.after(5)
    bob.hears("lost")
    bob.can("q")
    assert bob.me is not first
    assert bob.me.number > first.number
    hall.submit("a")
    bob.takes("a")
    hall.after(HOUR_US)
    bob.hears()


def test_beats_keep_a_worker(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 10)
    for _ in range(50):
        hall.after(9)
        hall.core.beat(bob.me)
    bob.hears()
    hall.after(9)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_a_new_expectation_replaces_the_old(hall: Hall) -> None:
    bob, carl, dora = hall.worker("bob"), hall.worker("carl"), hall.worker("dora")
    for person, silence_us in ((bob, 20), (carl, 5), (dora, 0)):
        hall.core.expect(person.me, 10)
        hall.core.expect(person.me, silence_us)
    hall.after(5)
    carl.hears("lost")
    hall.after(14)
    bob.hears()
    hall.after(1)
    bob.hears("lost")
    hall.after(HOUR_US)
    dora.hears()


def test_a_wake_up_does_not_move_the_silence(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 2 * hall.limits.wake_us)
    bob.sleeps()
    hall.submit("a")
    hall.after(1)
    bob.hears("woken")
    hall.after(2 * hall.limits.wake_us - 2)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_silence_shorter_than_the_wake_guard(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    carl.sleeps()
    bob.sleeps()
    hall.core.expect(bob.me, 10)
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    hall.after(10)
    bob.hears("lost")
    carl.hears("woken")


def test_leaving_frees_leases_at_once(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    job = hall.submit("a")
    bob.takes("a")
    carl.sleeps()
    bob.leaves()
    carl.hears("woken")
    assert job.losses == 1
    assert hall.core.counters.lost == 1
    bob.hears()


def test_leaving_with_nothing_is_nothing(hall: Hall) -> None:
    ann = hall.person("ann")
    ann.leaves()
    ann.leaves()
    bob = hall.worker("bob")
    bob.leaves()
    assert hall.core.workers == {}
    assert hall.core.queue(b"q").workers == {}


def test_who_leaves_hears_nothing_of_it(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("a", by=ann)
    bob.takes("a")
    ann.leaves()
    bob.leaves()
    bob.hears()
    ann.hears()
    assert hall.core.jobs == {}


def test_the_timer_of_a_worker_who_left_calls_nobody(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 10)
    bob.leaves()
    hall.after(10)
    bob.hears()


def test_a_job_with_a_lease_and_a_worker_with_silence_end_in_one_turn(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10))
    bob.takes("a")
    hall.core.expect(bob.me, 10)
    hall.after(10)
    bob.hears("revoked a", "lost")
    assert (job.state, job.losses) == (QUEUED, 1)


# --- workers that say nothing while they work


def quiet(hall: Hall, name: str, silence_us: int) -> Person:
    """A worker whose silence does not count while it has a job."""
    person = hall.worker(name)
    person.me.quiet_at_work = True
    hall.core.expect(person.me, silence_us)
    return person


def test_a_quiet_worker_is_not_lost_while_it_works(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    job = hall.submit("a")
    bob.takes("a")
    for passed_us in (9, 1, 1, 10, 100, HOUR_US):
        hall.after(passed_us)
        bob.hears()
        assert job.lease is not None
    hall.core.finish(bob.holds(job), b"")
    hall.core.beat(bob.me)
    hall.after(9)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_a_quiet_worker_without_a_job_is_lost_as_any_other(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    hall.after(9)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_a_worker_that_is_quiet_no_more_is_lost_with_what_it_has(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    hall.submit("a")
    bob.takes("a")
    hall.after(25)
    bob.me.quiet_at_work = False
    hall.after(10)
    bob.hears("revoked a", "lost")


def test_a_quiet_worker_with_two_jobs_is_at_work_until_the_last_has_ended(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    jobs = [hall.submit(name) for name in "ab"]
    for name in "ab":
        bob.takes(name)
    hall.after(15)
    hall.core.finish(bob.holds(jobs[0]), b"")
    hall.after(100)
    bob.hears()
    hall.core.beat(bob.me)
    hall.core.finish(bob.holds(jobs[1]), b"")
    hall.after(10)
    bob.hears("lost")


@pytest.mark.parametrize("worked_us", [1, 9, 10, 11, 14, 19, 20, 25, 99])
@pytest.mark.parametrize("how", ["cancelled", "run limit", "released"])
def test_the_silence_of_a_quiet_worker_counts_from_the_end_of_its_work(
    hall: Hall, how: str, worked_us: int
) -> None:
    """What was not counted while it worked is not counted afterwards either."""
    bob = quiet(hall, "bob", 10)
    job = hall.submit("a", terms=Terms(detached=True, run_us=worked_us if how == "run limit" else 0))
    lease = bob.takes("a")
    for _ in range(worked_us):
        hall.after(1)
    if how == "cancelled":
        hall.core.cancel(job)
    elif how == "released":
        hall.core.release(lease)
    hall.turn()
    bob.hears(*([] if how == "released" else ["revoked a"]))
    hall.after(9)
    bob.hears()
    assert bob.worker is not None
    hall.after(1)
    bob.hears("lost")


def test_the_lease_of_a_quiet_worker_lapses_all_the_same(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    job = hall.submit("a", terms=Terms(detached=True, lease_us=25))
    bob.takes("a")
    hall.after(24)
    bob.hears()
    hall.after(1)
    bob.hears("revoked a")
    assert (job.state, job.losses) == (QUEUED, 1)
    hall.after(10)
    bob.hears("lost")


def test_beats_keep_the_lease_of_a_quiet_worker(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    job = hall.submit("a", terms=Terms(detached=True, lease_us=25))
    bob.takes("a")
    for _ in range(20):
        hall.after(24)
        hall.core.beat(bob.me)
    bob.hears()
    assert bob.holds(job).worker is bob.me
    hall.after(25)
    assert bob.heard[0] == "revoked a"
    bob.heard = []


@pytest.mark.parametrize("silence_us", [10, SECOND_US // 2, SECOND_US // 2 + 1, SECOND_US, HOUR_US])
@pytest.mark.parametrize("before_us", [0, 1, 5, 10])
def test_a_quiet_worker_that_does_not_answer_its_wake_up_is_passed_over_in_time(
    hall: Hall, silence_us: int, before_us: int
) -> None:
    """It has one job and sleeps for another: however its silence falls, the wake-up is guarded."""
    carl, bob = hall.worker("carl"), quiet(hall, "bob", silence_us)
    hall.submit("a")
    bob.takes("a")
    carl.sleeps()
    bob.sleeps()
    hall.after(silence_us - before_us)
    hall.submit("b")
    hall.turn()
    bob.hears("woken")
    for _ in range(4):
        hall.after((hall.limits.wake_us - 1) // 4)
    hall.after((hall.limits.wake_us - 1) % 4)
    carl.hears()
    hall.after(1)
    carl.hears("woken")
    bob.hears()
    carl.takes("b")


def test_a_quiet_worker_is_woken_although_its_silence_has_passed(hall: Hall) -> None:
    bob = quiet(hall, "bob", 10)
    hall.submit("a")
    bob.takes("a")
    bob.sleeps()
    hall.after(35)
    hall.submit("b")
    hall.turn()
    bob.hears("woken")
    bob.takes("b")
