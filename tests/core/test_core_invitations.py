"""Whom announcements are for: those who hear them, are free, and are good for the job; the urgent first."""

from __future__ import annotations

from hall_recorder import HOUR_US, SECOND_US, Hall, Person, refused
from hiring_stories import MS, PAUSE_US, WINDOW_US, Crier, bids, bring_to, crier, hire

from hiringhall.core.bidding.auctions import CALLS_MAX
from hiringhall.core.bidding.markets import BIDS_MAX
from hiringhall.core.errors import HALL_FULL, WRONG_STATE
from hiringhall.core.leases import PERFORMING, Engagement
from hiringhall.core.states import DELAYED, QUEUED
from hiringhall.core.terms import HIGH, LOW, Terms

HARD = Terms(detached=True, skill=9)
URGENT = Terms(detached=True, priority=HIGH)
LEISURELY = Terms(detached=True, priority=LOW)
LONG_US = 100 * PAUSE_US


def booked_market(hall: Hall) -> tuple[Crier, Person, Engagement]:
    """A market with long pauses, and bob, who is hired for his next place."""
    market = crier(hall, pause_us=LONG_US, pause_max_us=LONG_US)
    first = hall.submit("first")
    hall.turn()
    bob = hall.person("bob")
    return market, bob, hire(hall, bob, first)


def test_one_who_is_free_again_is_not_asked_for_what_it_cannot_do(hall: Hall) -> None:
    market = crier(hall, pause_us=LONG_US, pause_max_us=LONG_US)
    for _ in range(3):
        hall.submit("hard", terms=HARD)
    first = hall.submit("first")
    hall.turn()
    bob = hall.person("bob")
    engagement = hire(hall, bob, first)
    hall.submit("second")
    hall.turn()
    hall.after(WINDOW_US)
    market.heard.clear()
    bring_to(hall, engagement, PERFORMING)
    hall.after(1)
    market.hears("announced second")


def test_one_who_is_free_again_hears_of_the_urgent_first(hall: Hall) -> None:
    market, _, engagement = booked_market(hall)
    hall.submit("later", terms=LEISURELY)
    hall.turn()
    hall.submit("now", terms=URGENT)
    hall.turn()
    hall.after(WINDOW_US)
    market.heard.clear()
    bring_to(hall, engagement, PERFORMING)
    hall.after(1)
    market.hears("announced now")


def test_one_who_is_free_again_while_all_are_announced_need_not_wait_for_the_pause(hall: Hall) -> None:
    market, bob, engagement = booked_market(hall)
    second = hall.submit("second")
    hall.turn()
    hall.after(WINDOW_US // 2)
    bring_to(hall, engagement, PERFORMING)
    market.heard.clear()
    hall.after(WINDOW_US - WINDOW_US // 2)
    market.hears("announced second")
    hire(hall, bob, second)


def test_an_invitation_to_what_is_given_away_is_one_to_the_rest(hall: Hall) -> None:
    market, _, engagement = booked_market(hall)
    hall.submit("later", terms=LEISURELY)
    hall.turn()
    hall.after(WINDOW_US)
    hall.submit("now", terms=URGENT)
    hall.turn()
    market.heard.clear()
    bring_to(hall, engagement, PERFORMING)  # all that is urgent is announced just now
    hall.after(1)
    market.hears()
    hall.worker("carl").takes("now")
    hall.turn()
    hall.after(1)
    market.hears("announced later")


def test_one_who_comes_while_all_are_announced_need_not_wait_for_the_pause(hall: Hall) -> None:
    market = crier(hall, pause_us=LONG_US, pause_max_us=LONG_US)
    job = hall.submit("a")
    hall.turn()
    hall.after(WINDOW_US // 2)
    market.attended_by(2)
    market.hears("announced a")
    hall.after(WINDOW_US - WINDOW_US // 2)
    market.hears("announced a")
    hire(hall, hall.person("bob"), job)


def test_what_nobody_hears_is_not_announced(hall: Hall) -> None:
    market = crier(hall, ahead_us=HOUR_US)
    hall.submit("now")
    later = hall.submit("later", due_us=hall.core.now_us + HOUR_US // 2)
    hall.turn()
    market.attended_by(0)
    announced = hall.core.counters.announced
    hall.after(HOUR_US // 4)
    assert hall.core.counters.announced <= announced + 1, "the timer of the later one may have been due already"
    market.heard.clear()
    announced = hall.core.counters.announced
    hall.after(HOUR_US // 4 - SECOND_US)
    assert (hall.core.counters.announced, later.state) == (announced, DELAYED)
    assert [job.payload for job in hall.core.jobs.values() if job.id in hall.core.auctions.by_job] == [b"later"]
    market.attended_by(1)
    hall.turn()
    market.hears("announced now")
    hall.after(SECOND_US)
    assert later.state == QUEUED
    assert "announced later" in market.heard
    market.heard.clear()


def test_those_who_come_and_go_do_not_keep_the_hall_busy(hall: Hall) -> None:
    market = crier(hall, pause_us=HOUR_US, pause_max_us=HOUR_US)
    for number in range(300):
        hall.submit("a", f"queue {number}")
    hall.turn()
    hall.after(WINDOW_US)
    market.heard.clear()
    for _ in range(10):
        market.attended_by(2)
        market.attended_by(1)
    hall.turn()
    hall.after(1)
    assert len(market.heard) == CALLS_MAX, "the first is called out to at once, up to a bound"
    hall.after(20 * MS)
    hall.after(1)
    assert len(market.heard) == 2 * CALLS_MAX, "and all others together, soon"
    hall.after(20 * MS)
    hall.after(1)
    assert len(market.heard) == 2 * CALLS_MAX
    market.heard.clear()


def test_of_those_that_are_not_due_so_many_are_announced_at_once(hall: Hall) -> None:
    market = crier(hall, auctions_max=2, ahead_us=HOUR_US, pause_us=LONG_US, pause_max_us=LONG_US)
    due_us = hall.core.now_us + HOUR_US
    jobs = [hall.submit(f"later {number}", due_us=due_us) for number in range(4)]
    hall.after(1)
    market.hears("announced later 0", "announced later 1")
    ready = hall.submit("now")
    hall.turn()
    market.hears("announced now")
    hall.core.cancel(ready)
    hall.core.cancel(jobs[0])
    hall.after(WINDOW_US)
    hall.after(LONG_US)
    assert sorted(market.heard) == ["announced later 1", "announced later 2"]
    hall.after(due_us - hall.core.now_us - 1)
    market.heard.clear()
    hall.after(1)
    assert all(job.state == QUEUED for job in jobs[1:])
    assert len(hall.core.auctions.by_job) == 2
    market.heard.clear()


def test_so_many_may_bid_and_those_who_left_do_not_count(hall: Hall) -> None:
    market = crier(hall, window_us=HOUR_US)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    crowd = [hall.person(f"bidder {number}") for number in range(BIDS_MAX)]
    for person in crowd:
        bids(person, job)
    late = hall.person("late")
    with refused(HALL_FULL):
        bids(late, job)
    bids(crowd[0], job, SECOND_US)
    for person in crowd[1:]:
        person.leaves()
    bids(late, job)
    assert len(hall.core.auctions.by_job[job.id].bids) == 2


def test_a_bid_that_is_refused_changes_nothing(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=HARD)
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    hall.core.needs.rate(bob.me, b"q", 3)
    with refused(WRONG_STATE):
        bids(bob, job, skill=1)
    assert (bob.me.skill(b"q"), bob.me.bids, bob.me.abilities) == (3, False, {})


def test_a_bid_that_is_taken_back_does_not_count(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    assert hall.core.auctions.unbid(bob.me, job.id)
    assert not hall.core.auctions.unbid(bob.me, job.id)
    hall.after(WINDOW_US)
    bob.hears()
    assert job.state == QUEUED
