"""So many jobs are announced at once, and no more; those that nobody can do leave room for others."""

from __future__ import annotations

from hall_recorder import HOUR_US, Hall
from hiring_stories import WINDOW_US, bids, crier, hire

from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import HIGH, LOW, Terms


def test_so_many_are_announced_at_once_and_the_next_when_there_is_room(hall: Hall) -> None:
    market = crier(hall, auctions_max=2)
    first, second, third, fourth = (hall.submit(name) for name in "abcd")
    hall.turn()
    market.hears("announced a", "announced b")
    bob = hall.person("bob")
    bids(bob, first)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    market.hears("announced c")
    hall.worker("carl").takes("b")
    hall.turn()
    market.hears("announced d")
    assert (second.state, third.state, fourth.state) == (LEASED, QUEUED, QUEUED)


def test_jobs_that_nobody_can_do_leave_room_for_others(hall: Hall) -> None:
    market = crier(hall, auctions_max=2)
    hard = Terms(detached=True, skill=9)
    for name in "ab":
        hall.submit(name, terms=hard)
    hall.turn()
    market.hears("announced a", "announced b")
    easy = hall.submit("c")
    hall.turn()
    hall.after(WINDOW_US)
    hall.turn()
    market.hears("announced c")
    hire(hall, hall.person("bob"), easy)
    market.heard.clear()


def test_the_urgent_first(hall: Hall) -> None:
    market = crier(hall, auctions_max=2)
    for number in range(3):
        hall.submit(f"low {number}", terms=Terms(detached=True, priority=LOW))
    hall.turn()
    market.hears("announced low 0", "announced low 1")
    for number in range(3):
        hall.submit(f"high {number}", terms=Terms(detached=True, priority=HIGH))
    hall.turn()
    market.hears("announced high 0", "announced high 1")


def test_many_hired_jobs_do_not_slow_the_rest_down(hall: Hall) -> None:
    """Jobs that were given away from the front of a long queue are not walked over again and again."""
    market = crier(hall, auctions_max=1, buffer_us=HOUR_US)
    jobs = [hall.submit("a") for _ in range(200)]
    hall.turn()
    lane = jobs[0].queue.lanes[1]
    for job in jobs[:100]:
        bob = hall.person("bob")
        hire(hall, bob, job)
        assert lane.entries - lane.ready <= 1
    assert len(market.heard) == 101
    market.heard.clear()
