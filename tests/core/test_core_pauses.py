"""The hall was paused: what it could not hear meanwhile is held against nobody, and due dates stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import HOUR_US, SECOND_US, START_US
from hiring_stories import crier, hire

from hiringhall.core.states import DELAYED, LEASED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hall_recorder import Hall


def pause(hall: Hall, paused_us: int) -> None:
    """The hall stands still for so long, and then looks at its deadlines."""
    hall.core.set_time(hall.core.now_us + paused_us)
    hall.core.resume(paused_us)
    hall.after(0)


def test_a_silent_worker_has_as_much_time_left_as_before_the_pause(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 10 * SECOND_US)
    hall.after(4 * SECOND_US)
    pause(hall, HOUR_US)
    hall.after(6 * SECOND_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_a_lease_has_as_much_time_left_as_before_the_pause(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10 * SECOND_US))
    lease = bob.takes("a")
    hall.after(4 * SECOND_US)
    pause(hall, HOUR_US)
    hall.after(6 * SECOND_US - 1)
    assert job.lease is lease
    hall.after(1)
    bob.hears("revoked a")
    assert (job.state, job.losses) == (QUEUED, 1)


def test_silence_at_work_counts_from_the_start_of_the_job_if_that_is_later(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(1)
    hall.after(8 * SECOND_US)
    job = hall.submit("a", terms=Terms(detached=True, lease_us=10 * SECOND_US))
    hall.turn()
    bob.hears("assigned a")
    pause(hall, 2 * SECOND_US)
    hall.after(10 * SECOND_US - 1)
    assert job.state == LEASED
    hall.after(1)
    bob.hears("revoked a")


def test_an_attempt_may_run_as_long_as_it_could_before_the_pause(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(detached=True, run_us=10 * SECOND_US, failures_max=1))
    bob.takes("a")
    hall.after(4 * SECOND_US)
    pause(hall, HOUR_US)
    hall.after(6 * SECOND_US - 1)
    assert job.state == LEASED
    hall.after(1)
    bob.hears("revoked a")
    assert (job.state, job.failures) == (DELAYED, 1)


def test_a_ready_job_expires_no_sooner_for_the_pause(hall: Hall) -> None:
    ann = hall.person("ann")
    hall.submit("a", by=ann, terms=Terms(expire_us=10 * SECOND_US))
    hall.after(4 * SECOND_US)
    pause(hall, HOUR_US)
    hall.after(6 * SECOND_US - 1)
    ann.hears()
    hall.after(1)
    ann.hears("cancelled a no worker took it in time")


def test_a_worker_that_was_woken_has_its_time_to_answer(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    carl.sleeps()
    bob.sleeps()
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    pause(hall, HOUR_US)
    carl.hears()
    hall.after(hall.limits.wake_us)
    carl.hears("woken")


def test_a_due_date_that_passed_during_the_pause_acts_at_once(hall: Hall) -> None:
    job = hall.submit("a", due_us=START_US + 10 * SECOND_US)
    later = hall.submit("b", due_us=START_US + HOUR_US + SECOND_US)
    pause(hall, HOUR_US)
    assert (job.state, later.state) == (QUEUED, DELAYED)
    hall.after(SECOND_US)
    assert later.state == QUEUED, "the pause has not moved it"


def test_a_bid_that_is_read_after_the_pause_is_in_time(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    pause(hall, HOUR_US)
    hire(hall, hall.person("bob"), job)


def test_who_is_hired_may_come_as_late_as_before_the_pause(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    engagement = hire(hall, bob, job)
    pause(hall, HOUR_US)
    hall.core.hiring.arrive(engagement)
    assert job.lease is engagement
    bob.hears()


def test_what_was_heard_after_the_pause_counts_from_then_on(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.expect(bob.me, 10 * SECOND_US)
    pause(hall, HOUR_US)
    hall.after(9 * SECOND_US)
    hall.core.beat(bob.me)
    hall.after(10 * SECOND_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("lost")


def test_pauses_add_up_and_are_missing_from_the_time_awake(hall: Hall) -> None:
    for _ in range(3):
        pause(hall, HOUR_US)
        hall.after(SECOND_US)
    assert hall.core.table.paused_us == 3 * HOUR_US
    assert hall.core.awake_us == START_US + 3 * SECOND_US
    assert hall.core.now_us == START_US + 3 * (HOUR_US + SECOND_US)
