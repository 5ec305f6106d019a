"""Jobs that become ready soon after others were announced are announced together."""

from __future__ import annotations

from typing import Any

from hall_recorder import HOUR_US, Hall
from hiring_stories import MS, PAUSE_US, WINDOW_US, Crier, bids, crier, hire

from hiringhall.core.states import LEASED
from hiringhall.core.terms import Terms

COALESCE_US = 20 * MS


def busy_market(hall: Hall, **changed: Any) -> Crier:
    """A market where a job was announced a moment ago."""
    market = crier(hall, coalesce_us=COALESCE_US, **changed)
    hall.submit("first")
    hall.turn()
    market.hears("announced first")
    hall.after(MS)
    return market


def test_in_a_quiet_hall_each_job_is_announced_at_once(hall: Hall) -> None:
    market = busy_market(hall)
    hall.after(COALESCE_US)
    hall.submit("second")
    hall.turn()
    market.hears("announced second")


def test_jobs_of_one_turn_are_announced_together(hall: Hall) -> None:
    market = crier(hall, coalesce_us=COALESCE_US)
    hall.submit("a", "mill")
    hall.submit("b", "smithy")
    hall.turn()
    market.hears("announced a", "announced b")


def test_after_others_jobs_wait_and_are_announced_together(hall: Hall) -> None:
    market = busy_market(hall)
    hall.submit("a", "mill")
    hall.turn()
    hall.after(COALESCE_US - 1)
    hall.submit("b", "smithy")
    hall.submit("c", "mill")
    hall.turn()
    market.hears()
    hall.after(1)
    market.hears("announced a", "announced c", "announced b")


def test_without_a_time_to_coalesce_no_job_waits(hall: Hall) -> None:
    market = crier(hall)
    for name in "abc":
        hall.submit(name)
        hall.turn()
        market.hears(f"announced {name}")
        hall.after(1)


def test_the_window_begins_with_the_announcement(hall: Hall) -> None:
    market = busy_market(hall)
    job = hall.submit("a")
    hall.after(COALESCE_US)
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(WINDOW_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("hired a")


def test_a_job_that_is_pulled_while_it_waits_is_not_announced(hall: Hall) -> None:
    market = busy_market(hall)
    job = hall.submit("a", "mill")
    hall.turn()
    hall.worker("bob", "mill").takes("a")
    hall.after(COALESCE_US)
    market.hears()
    assert job.state == LEASED


def test_a_job_that_is_cancelled_while_it_waits_is_not_announced(hall: Hall) -> None:
    market = busy_market(hall)
    job = hall.submit("a", "mill")
    hall.turn()
    hall.core.cancel(job, b"no more")
    hall.after(COALESCE_US)
    market.hears()


def test_a_job_of_a_queue_that_is_paused_while_it_waits_is_announced_when_the_queue_resumes(hall: Hall) -> None:
    market = busy_market(hall)
    hall.submit("a", "mill")
    hall.turn()
    hall.core.paused_queues.pause(b"mill")
    hall.after(COALESCE_US)
    market.hears()
    hall.core.paused_queues.resume(b"mill")
    hall.after(COALESCE_US)
    market.hears("announced a")


def test_a_job_is_announced_again_together_with_others(hall: Hall) -> None:
    market = busy_market(hall)
    hall.after(WINDOW_US - MS)
    hall.after(PAUSE_US - MS)
    hall.submit("second")
    hall.turn()
    market.hears("announced second")
    hall.after(MS)  # the first one would be announced again
    market.hears()
    hall.submit("third")
    hall.after(COALESCE_US - 1)
    market.hears()
    hall.after(1)
    market.hears("announced first", "announced third")


def test_a_late_bid_for_a_job_that_waits_to_be_announced_again_is_the_only_one(hall: Hall) -> None:
    market = crier(hall, coalesce_us=COALESCE_US)
    job = hall.submit("a")
    hall.turn()
    hall.after(WINDOW_US)
    hall.after(PAUSE_US - MS)
    hall.submit("b", "mill")
    hall.turn()
    market.hears("announced a", "announced b")
    hall.after(MS)
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(1)
    bob.hears("hired a")
    hall.after(COALESCE_US)
    market.hears()


def test_one_who_comes_hears_of_a_rested_job_with_the_others(hall: Hall) -> None:
    market = crier(hall, coalesce_us=COALESCE_US, pause_us=HOUR_US, pause_max_us=HOUR_US)
    hall.submit("a")
    hall.turn()
    hall.after(WINDOW_US)
    hall.submit("b", "mill")
    hall.turn()
    market.hears("announced a", "announced b")
    hall.after(MS)
    market.attended_by(2)
    hall.after(MS)
    market.hears()
    hall.after(COALESCE_US)
    market.hears("announced a")


def test_if_all_who_listened_have_gone_what_waited_is_announced_to_the_next(hall: Hall) -> None:
    market = busy_market(hall)
    hall.submit("a", "mill")
    hall.turn()
    market.attended_by(0)
    hall.after(COALESCE_US)
    market.hears()
    hall.after(WINDOW_US + PAUSE_US)
    market.attended_by(1)
    hall.turn()
    market.hears("announced a")
    hall.after(COALESCE_US + 1)
    market.hears("announced first")


def test_a_job_that_is_announced_before_it_is_due_waits_too(hall: Hall) -> None:
    market = crier(hall, coalesce_us=COALESCE_US, ahead_us=WINDOW_US)
    later = hall.submit("later", due_us=hall.core.now_us + 2 * WINDOW_US, terms=Terms(detached=True))
    hall.after(WINDOW_US - MS)
    hall.submit("now", "mill")
    hall.turn()
    market.hears("announced now")
    hall.after(MS)
    market.hears()
    hall.after(COALESCE_US)
    market.hears("announced later")
    hire(hall, hall.person("bob"), later)


def test_a_market_that_is_told_tells_only_of_jobs_that_can_be_bid_for(hall: Hall) -> None:
    market = crier(hall)
    hall.submit("a")
    hall.turn()
    market.hears("announced a")
    hall.core.advance(hall.core.now_us + WINDOW_US)
    hall.core.advance(hall.core.now_us + PAUSE_US)  # announced again, and pulled in the same turn
    hall.worker("bob").takes("a")
    hall.turn()
    market.hears()
