"""Jobs that are due later are announced ahead of time, so that their workers are there when they are due."""

from __future__ import annotations

from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, Disk, Hall, refused
from hiring_stories import (
    BUFFER_US,
    PAUSE_US,
    PERFORM_US,
    WINDOW_US,
    bids,
    crier,
    engagement_of,
    hire,
    listing_of,
)

from hiringhall.core.bidding.policies import least_waiting
from hiringhall.core.errors import WRONG_STATE
from hiringhall.core.leases import ARRIVED, CALLED
from hiringhall.core.states import DELAYED, LEASED, QUEUED
from hiringhall.core.terms import Terms

AHEAD_US = 10 * SECOND_US


def test_announced_ahead_hired_early_called_when_it_is_due(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    due_us = hall.core.now_us + HOUR_US
    job = hall.submit("a", due_us=due_us)
    hall.after(HOUR_US - AHEAD_US - 1)
    market.hears()
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    engagement = hire(hall, bob, job, SECOND_US)
    assert (job.state, engagement.begin_us) == (LEASED, due_us)
    hall.after(SECOND_US)
    assert not hall.core.hiring.arrive(engagement)
    hall.turn()
    assert engagement.stage == ARRIVED
    hall.after(due_us - hall.core.now_us - 1)
    bob.hears()
    hall.after(1)
    bob.hears(f"called a {PERFORM_US}")
    assert engagement.stage == CALLED
    hall.core.hiring.perform(engagement)
    assert job.started_us == due_us


def test_without_ahead_it_is_announced_when_it_is_due(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", due_us=hall.core.now_us + HOUR_US)
    hall.after(HOUR_US - 1)
    market.hears()
    with refused(WRONG_STATE):
        bids(hall.person("bob"), job)
    hall.after(1)
    market.hears("announced a")


def test_nearly_due_it_is_announced_at_once(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    hall.submit("a", due_us=hall.core.now_us + AHEAD_US // 2)
    hall.after(1)
    market.hears("announced a")


def test_nobody_bids_for_what_is_not_yet_announced(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    job = hall.submit("a", due_us=hall.core.now_us + HOUR_US)
    hall.turn()
    with refused(WRONG_STATE):
        bids(hall.person("bob"), job)
    hall.after(1)
    market.hears()
    assert job.state == DELAYED


def test_nobody_wants_it_until_it_is_due(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US, pause_us=AHEAD_US, pause_max_us=AHEAD_US)
    job = hall.submit("a", due_us=hall.core.now_us + AHEAD_US)
    hall.after(1)
    market.hears("announced a")
    hall.after(AHEAD_US - 1)
    assert job.state == QUEUED
    market.hears("announced a")
    hire(hall, hall.person("bob"), job)


def test_due_during_its_auction(hall: Hall) -> None:
    market = crier(hall, ahead_us=WINDOW_US // 2)
    due_us = hall.core.now_us + HOUR_US
    job = hall.submit("a", due_us=due_us)
    hall.after(HOUR_US - WINDOW_US // 2)
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(WINDOW_US // 2)
    assert job.state == QUEUED
    market.hears()
    hall.after(WINDOW_US // 2)
    bob.hears("hired a")
    assert hall.core.hiring.arrive(engagement_of(job))


def test_pulled_when_it_is_due_although_it_is_announced(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    job = hall.submit("a", due_us=hall.core.now_us + AHEAD_US)
    carl = hall.worker("carl")
    carl.sleeps()
    hall.after(1)
    market.hears("announced a")
    carl.hears()
    hall.after(AHEAD_US - 1)
    carl.hears("woken")
    carl.takes("a")
    hall.turn()
    market.heard.clear()
    assert not hall.core.auctions.by_job
    assert job.state == LEASED


def test_given_back_before_it_is_due_it_waits_again(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    due_us = hall.core.now_us + AHEAD_US
    job = hall.submit("a", due_us=due_us)
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    engagement = hire(hall, bob, job)
    assert not hall.core.hiring.arrive(engagement)
    hall.core.hiring.quit(engagement)
    hall.turn()
    assert (job.state, job.due_us, job.losses) == (DELAYED, due_us, 0)
    hall.after(1)
    market.hears("announced a")
    assert hire(hall, bob, job).begin_us == due_us


def test_the_worker_leaves_before_it_is_due(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    due_us = hall.core.now_us + AHEAD_US
    job = hall.submit("a", due_us=due_us)
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    hire(hall, bob, job)
    bob.leaves()
    assert (job.state, job.due_us) == (DELAYED, due_us)
    hall.after(1)
    market.hears("announced a")


def test_hired_ahead_who_does_not_come_has_until_it_is_due(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    due_us = hall.core.now_us + AHEAD_US
    job = hall.submit("a", due_us=due_us)
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    hire(hall, bob, job)
    hall.after(due_us + BUFFER_US - hall.core.now_us - 1)
    bob.hears()
    hall.after(1)
    bob.hears("revoked a")
    market.hears("announced a")
    assert job.state == QUEUED


def test_cancelled_long_before_it_is_due_nothing_is_kept_of_it(hall: Hall) -> None:
    crier(hall, ahead_us=AHEAD_US)
    job = hall.submit("a", due_us=hall.core.now_us + 1000 * HOUR_US)
    hall.turn()
    hall.core.cancel(job)
    hall.turn()
    assert (hall.core.auctions.by_job, listing_of(job).resting) == ({}, {})


def test_jobs_due_in_a_long_time_leave_room_for_those_that_are_ready(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US, auctions_max=2)
    for name in "abc":
        hall.submit(name, due_us=hall.core.now_us + HOUR_US)
    hall.submit("ready")
    hall.turn()
    market.hears("announced ready")


def test_jobs_that_were_there_before_the_market(hall: Hall) -> None:
    """After a restart the hall knows its jobs before its doors open."""
    due_us = hall.core.now_us + HOUR_US
    hall.submit("a", due_us=due_us)
    hall.turn()
    market = crier(hall, ahead_us=AHEAD_US)
    hall.after(HOUR_US - AHEAD_US)
    market.hears("announced a")


def test_it_has_to_wait_for_a_parent_first(hall: Hall) -> None:
    market = crier(hall, "q", ahead_us=AHEAD_US)
    hall.submit("parent", "p", key="parent")
    job = hall.submit("a", due_us=hall.core.now_us + HOUR_US)
    hall.turn()
    hall.core.dependencies.depend(job, ((b"p", b"parent"),))
    hall.after(HOUR_US - AHEAD_US)
    market.hears()
    hall.core.finish(hall.worker("carl", "p").takes("parent"), b"")
    hall.after(1)
    market.hears("announced a")
    hire(hall, hall.person("bob"), job)


def test_who_leaves_before_it_could_be_done_is_not_hired(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    job = hall.submit(
        "a", due_us=hall.core.now_us + AHEAD_US, terms=Terms(detached=True, takes_us=60 * SECOND_US)
    )
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    hall.core.needs.stay(bob.me, 65 * SECOND_US)
    with refused(WRONG_STATE):
        bids(bob, job)
    hall.core.needs.stay(bob.me, 75 * SECOND_US)
    hire(hall, bob, job)


def test_least_waiting_chooses_who_comes_when_it_is_due(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US, policy=least_waiting)
    job = hall.submit("a", due_us=hall.core.now_us + AHEAD_US)
    hall.after(1)
    market.hears("announced a")
    early, right, late = (hall.person(name) for name in ("early", "right", "late"))
    bids(early, job, SECOND_US)
    bids(right, job, 9 * SECOND_US)
    bids(late, job, 12 * SECOND_US)
    hall.after(WINDOW_US)
    right.hears("hired a")


def test_a_pause_after_a_failure_is_used_to_find_the_next(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    job = hall.submit("a", terms=Terms(detached=True, failures_max=1, backoff_us=AHEAD_US))
    carl = hall.worker("carl")
    hall.core.fail(carl.takes("a"))
    due_us = job.due_us
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    engagement = hire(hall, bob, job)
    assert not hall.core.hiring.arrive(engagement)
    hall.after(due_us - hall.core.now_us)
    bob.hears(f"called a {PERFORM_US}")


def test_the_hall_is_killed_while_somebody_is_hired_ahead(hall: Hall) -> None:
    disk = Disk()
    market = crier(hall, ahead_us=AHEAD_US)
    due_us = hall.core.now_us + AHEAD_US
    job = hall.submit("a", terms=BACKGROUND, due_us=due_us)
    disk.apply(hall.commit())
    hall.after(1)
    market.hears("announced a")
    bob = hall.person("bob")
    hire(hall, bob, job)
    hall.core.ledger.note(job)  # whatever the reason
    disk.apply(hall.commit())
    after = Hall()
    after.core.table.now_us = hall.core.now_us
    after.core.restore(disk.load())
    after.turn()
    (again,) = after.core.jobs.values()
    assert (again.state, again.due_us, again.attempts, again.tries) == (DELAYED, due_us, 0, None)
    again_market = crier(after, ahead_us=AHEAD_US)
    after.after(1)
    again_market.hears("announced a")
    after.close()


def test_a_worker_hired_ahead_has_no_other_place(hall: Hall) -> None:
    market = crier(hall, ahead_us=AHEAD_US)
    ahead = hall.submit("ahead", due_us=hall.core.now_us + AHEAD_US)
    hall.after(1)
    bob = hall.person("bob")
    engagement = hire(hall, bob, ahead)
    now = hall.submit("now")
    hall.turn()
    with refused(WRONG_STATE):
        bids(bob, now)
    assert bob.me.promise is engagement
    hall.after(WINDOW_US)
    hall.after(PAUSE_US)
    market.hears("announced ahead", "announced now", "announced now")
