"""Workers that fall silent, and workers that leave."""

from __future__ import annotations

import pytest
from hall_recorder import HOUR_US, SECOND_US, Hall, refused

from hiringhall.core.errors import STALE_LEASE
from hiringhall.core.jobs import QUEUED, Terms


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
