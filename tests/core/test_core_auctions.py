"""A job that nobody takes is announced; those who can do it bid; when the window is over one is hired."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, Hall, refused
from hiring_stories import MS, PAUSE_US, WINDOW_US, bids, crier, engagement_of, hire, listing_of

from hiringhall.core.errors import WRONG_STATE
from hiringhall.core.leases import HIRED
from hiringhall.core.states import CANCELLED, DELAYED, HELD, LEASED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.bidding.markets import Ask, Offer


def test_announced_bid_hired(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    assert job.state == QUEUED
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(bob, job, 3 * SECOND_US)
    bids(carl, job, 2 * SECOND_US)
    hall.after(WINDOW_US - 1)
    bob.hears()
    carl.hears()
    hall.after(1)
    carl.hears("hired a")
    engagement = engagement_of(job)
    assert (job.state, engagement.worker, engagement.stage) == (LEASED, carl.me, HIRED)
    assert engagement.promised_us == hall.core.now_us - WINDOW_US + 2 * SECOND_US
    assert (job.attempts, job.losses, job.started_us) == (0, 0, 0)
    assert (hall.core.counters.announced, hall.core.counters.hired) == (1, 1)
    assert not hall.core.auctions.by_job


def test_the_way_counts_to_the_time_that_a_worker_names(hall: Hall) -> None:
    market = crier(hall, travel_us=SECOND_US)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    promised_us = hall.core.now_us + 3 * SECOND_US
    assert hire(hall, bob, job, 2 * SECOND_US).promised_us == promised_us


def test_with_nobody_to_hear_it_nothing_is_announced(hall: Hall) -> None:
    market = crier(hall, audience=0)
    job = hall.submit("a")
    hall.after(HOUR_US)
    market.hears()
    assert not hall.core.auctions.by_job
    market.attended_by(1)
    hall.turn()
    market.hears("announced a")
    assert hire(hall, hall.person("bob"), job).job is job


def test_a_market_for_some_queues_hears_of_no_others(hall: Hall) -> None:
    market = crier(hall, "smithy")
    hall.submit("a", "mill")
    hall.turn()
    market.hears()
    hall.submit("b", "smithy")
    hall.turn()
    market.hears("announced b")


def test_jobs_that_were_there_before_the_market(hall: Hall) -> None:
    hall.submit("a", "mill")
    hall.submit("b", "smithy")
    hall.turn()
    market = crier(hall, "mill")
    hall.turn()
    market.hears("announced a")


def test_two_markets_hear_of_it_and_it_is_given_away_once(hall: Hall) -> None:
    square, bus = crier(hall), crier(hall)
    job = hall.submit("a")
    hall.turn()
    square.hears("announced a")
    bus.hears("announced a")
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(bob, job, 2)
    bids(carl, job, 1)
    hall.after(WINDOW_US)
    carl.hears("hired a")
    bob.hears()


def test_a_job_that_a_puller_is_woken_for_is_not_announced(hall: Hall) -> None:
    market = crier(hall)
    bob = hall.worker("bob")
    bob.sleeps()
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    market.hears()
    hall.after(hall.limits.wake_us)  # bob does not come
    market.hears("announced a")


def test_a_job_that_is_pushed_is_not_announced(hall: Hall) -> None:
    market = crier(hall)
    bob = hall.worker("bob")
    bob.offers(1)
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    bob.hears("assigned a")
    market.hears("announced b")


def test_who_pulls_first_has_it(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    carl = hall.person("carl")
    bids(carl, job)
    bob = hall.worker("bob")
    lease = bob.takes("a")
    hall.turn()
    with refused(WRONG_STATE):
        bids(hall.person("dora"), job)
    hall.after(WINDOW_US)
    carl.hears()
    hall.core.finish(lease, b"")
    hall.turn()
    assert not hall.core.auctions.by_job


def test_pulled_and_given_back_it_is_announced_anew(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    early = hall.person("early")
    bids(early, job)
    bob = hall.worker("bob")
    hall.core.release(bob.takes("a"))
    hall.turn()
    market.hears("announced a")
    hire(hall, hall.person("carl"), job)
    early.hears()


def test_pulled_and_failed_nobody_is_hired_before_the_pause_is_over(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, failures_max=1, backoff_us=HOUR_US))
    hall.turn()
    market.hears("announced a")
    early = hall.person("early")
    bids(early, job)
    hall.core.fail(hall.worker("bob").takes("a"))
    assert job.state == DELAYED
    hall.after(HOUR_US - 1)
    early.hears()
    market.hears()
    hall.after(1)
    market.hears("announced a")


# --- nobody bids


def test_announced_again_after_a_pause_that_doubles(hall: Hall) -> None:
    market = crier(hall, pause_max_us=4 * PAUSE_US)
    hall.submit("a")
    hall.turn()
    market.hears("announced a")
    for pause_us in (PAUSE_US, 2 * PAUSE_US, 4 * PAUSE_US, 4 * PAUSE_US):
        hall.after(WINDOW_US)
        hall.after(pause_us - 1)
        market.hears()
        hall.after(1)
        market.hears("announced a")


def test_a_late_bid_is_the_only_one(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    hall.after(WINDOW_US + PAUSE_US // 2)
    bob = hall.person("bob")
    bids(bob, job)
    hall.turn()
    assert hall.core.next_deadline() > hall.core.now_us, "a turn that is over leaves nothing due at once"
    hall.after(1)
    bob.hears("hired a")


def test_a_late_bid_that_is_not_good_enough_holds_nothing_up(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, skill=5))
    hall.turn()
    market.hears("announced a")
    hall.after(WINDOW_US)
    bob = hall.person("bob")
    for _ in range(PAUSE_US // (50 * MS) - 1):
        with refused(WRONG_STATE):
            bids(bob, job, 0, 4)
        hall.after(50 * MS)
    market.hears()
    hall.after(50 * MS)
    market.hears("announced a")
    hire(hall, bob, job, 0, 5)


def test_a_policy_that_wants_none_of_them(hall: Hall) -> None:
    seen: list[tuple[list[Offer], Ask]] = []

    def nobody(offers: list[Offer], ask: Ask) -> None:
        seen.append((offers, ask))

    market = crier(hall, policy=nobody)
    job = hall.submit("a", terms=Terms(detached=True, skill=2))
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job, SECOND_US, 3)
    hall.after(WINDOW_US)
    (offers, ask) = seen.pop()
    now_us = hall.core.now_us
    (offer,) = offers
    assert (offer.worker, offer.skill, offer.arrives_us) == (bob.me, 3, now_us - WINDOW_US + SECOND_US)
    assert ask == (2, now_us, now_us)
    hall.after(PAUSE_US)
    market.hears("announced a")
    hall.after(WINDOW_US)
    assert not seen, "with no offers there is nothing to choose"


def test_one_who_comes_has_a_rested_job_announced_at_once(hall: Hall) -> None:
    market = crier(hall)
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    market.hears("announced a", "announced b")
    hall.after(WINDOW_US)
    market.attended_by(2)
    hall.turn()
    assert hall.core.next_deadline() > hall.core.now_us
    hall.after(1)
    market.hears("announced a")
    market.attended_by(1)
    hall.after(1)
    market.hears()


def test_two_who_come_at_once_have_two_jobs_announced(hall: Hall) -> None:
    market = crier(hall)
    for name in "abc":
        hall.submit(name)
    hall.turn()
    market.hears("announced a", "announced b", "announced c")
    hall.after(WINDOW_US)
    market.attended_by(2)
    market.attended_by(3)
    hall.after(MS)
    hall.after(1)
    market.hears("announced a", "announced b")


# --- who bids


def test_the_later_bid_of_a_worker_counts(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(bob, job, 1)
    bids(carl, job, 2)
    bids(bob, job, 3)
    hall.after(WINDOW_US)
    carl.hears("hired a")


def test_of_two_that_are_as_good_the_first_to_bid(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(carl, job)
    bids(bob, job)
    hall.after(WINDOW_US)
    carl.hears("hired a")


def test_who_left_is_not_hired(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(bob, job, 1)
    bids(carl, job, 2)
    bob.leaves()
    bob.can("q")  # it is back, as another worker that has not bid
    hall.after(WINDOW_US)
    carl.hears("hired a")


def test_nobody_bids_for_what_is_not_announced(hall: Hall) -> None:
    market = crier(hall, "smithy")
    other = hall.submit("a", "mill")
    hall.turn()
    bob = hall.person("bob")
    with refused(WRONG_STATE):
        bids(bob, other)
    with refused(WRONG_STATE):
        hall.core.auctions.bid(bob.me, 4711, 0, 0)
    market.hears()


def test_too_little_skill_is_refused(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, skill=5))
    hall.turn()
    market.hears("announced a")
    with refused(WRONG_STATE):
        bids(hall.person("bob"), job, 0, 4)
    hire(hall, hall.person("carl"), job, SECOND_US, 5)


def test_who_has_too_little_time_left_is_not_hired(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, takes_us=60 * SECOND_US))
    hall.turn()
    market.hears("announced a")
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(carl, job, 5 * SECOND_US)
    hall.core.needs.stay(carl.me, 66 * SECOND_US)
    bids(bob, job)
    hall.core.needs.stay(bob.me, 59 * SECOND_US)
    hall.after(WINDOW_US)
    carl.hears("hired a")


# --- what else happens to an announced job


@pytest.mark.parametrize("rested", [False, True], ids=["announced", "rested"])
def test_cancelled(hall: Hall, rested: bool) -> None:
    market = crier(hall)
    ann = hall.person("ann")
    job = hall.submit("a", by=ann)
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    if rested:
        hall.after(WINDOW_US)
    else:
        bids(bob, job)
    hall.core.cancel(job, b"no more")
    ann.hears("cancelled a no more")
    hall.turn()
    assert (hall.core.auctions.by_job, listing_of(job).resting) == ({}, {})
    hall.after(HOUR_US)


def test_expired(hall: Hall) -> None:
    market = crier(hall)
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, terms=Terms(expire_us=WINDOW_US // 2))
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(WINDOW_US // 2)
    ann.hears("cancelled a no worker took it in time")
    hall.after(WINDOW_US)


def test_hired_it_does_not_expire(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, expire_us=WINDOW_US + 1))
    hall.turn()
    market.hears("announced a")
    hire(hall, hall.person("bob"), job)
    hall.after(WINDOW_US)
    assert job.state == LEASED


def test_it_has_to_wait_for_another(hall: Hall) -> None:
    market = crier(hall, "q")
    hall.submit("parent", "p", key="parent")
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.core.dependencies.depend(job, ((b"p", b"parent"),))
    hall.after(WINDOW_US)
    assert job.state == HELD
    with refused(WRONG_STATE):
        bids(bob, job)
    hall.core.finish(hall.worker("carl", "p").takes("parent"), b"")
    hall.turn()
    market.hears("announced a")
    hire(hall, bob, job)


def test_a_child_waits_for_a_job_in_an_auction(hall: Hall) -> None:
    market = crier(hall)
    parent = hall.submit("parent", key="parent")
    child = hall.submit("child", parents=((b"q", b"parent"),))
    hall.turn()
    market.hears("announced parent")
    engagement = hire(hall, hall.person("bob"), parent)
    assert hall.core.hiring.arrive(engagement)
    hall.core.hiring.perform(engagement)
    hall.after(engagement.perform_us)
    hall.people[-1].hears("revoked ")  # a job that is kept for its children keeps no payload
    assert child.state == QUEUED
    market.hears("announced child")


def test_its_watcher_leaves(hall: Hall) -> None:
    market = crier(hall)
    ann = hall.person("ann")
    job = hall.submit("a", by=ann)
    hall.turn()
    market.hears("announced a")
    bids(hall.person("bob"), job)
    ann.leaves()
    assert job.state == CANCELLED
    hall.after(WINDOW_US)


def test_nobody_is_hired_while_the_hall_closes(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=BACKGROUND)
    hall.commit()
    market.hears("announced a")
    bids(hall.person("bob"), job)
    hall.core.close()
    hall.after(HOUR_US)
    assert job.state == QUEUED
    market.hears()


# --- bounds
