"""Where needs come from and what is known of workers: by queue, by name, and with a bid."""

from __future__ import annotations

import pytest
from hall_recorder import SECOND_US, Disk, Hall, refused

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, TOO_LARGE, WRONG_STATE
from hiringhall.core.limits import Limits
from hiringhall.core.needs import SKILL_MAX, TIME_US_MAX
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.core.reasons import why
from hiringhall.core.scheduler import Scheduler
from hiringhall.core.states import QUEUED
from hiringhall.core.terms import Terms

MINUTE_US = 60 * SECOND_US
LONG = Terms(detached=True, takes_us=MINUTE_US)
FINE = Terms(detached=True, skill=5)


# --- what a queue needs


def test_what_a_queue_needs_holds_for_jobs_that_do_not_say(hall: Hall) -> None:
    early = hall.submit("early")
    hall.core.needs.need(b"q", 3, MINUTE_US)
    late = hall.submit("late", key="k")
    own = hall.submit("own", terms=Terms(detached=True, skill=1))
    assert (early.terms.requirement, late.terms.requirement, own.terms.requirement) == (
        None,
        (3, MINUTE_US, ()),
        (1, 0, ()),
    )
    assert hall.submit("elsewhere", "r").terms.requirement is None
    # Jobs submitted alike share their terms, and a joined one keeps its own.
    assert hall.submit("later").terms is late.terms
    hall.core.needs.need(b"q", 0, 0)
    assert hall.core.needs.by_queue == {}
    assert hall.submit("late", key="k") is late
    assert late.terms.requirement == (3, MINUTE_US, ())
    assert hall.submit("free").terms.requirement is None


def test_needs_have_bounds() -> None:
    hall = Hall(Limits(queues_max=2, queue_name_bytes_max=3))
    for skill, takes_us in ((-1, 0), (SKILL_MAX + 1, 0), (0, -1), (0, TIME_US_MAX + 1)):
        with refused(BAD_REQUEST):
            hall.core.needs.need(b"q", skill, takes_us)
    for name in (b"", b"four"):
        with refused(TOO_LARGE):
            hall.core.needs.need(name, 1, 0)
    hall.core.needs.need(b"q", 1, 0)
    hall.core.needs.need(b"r", 1, 0)
    with refused(HALL_FULL):
        hall.core.needs.need(b"s", 1, 0)
    hall.core.needs.need(b"r", 2, 0)
    hall.core.needs.need(b"s", 0, 0)


def test_a_job_keeps_its_needs_over_a_restart(hall: Hall) -> None:
    hall.core.needs.need(b"q", 5, MINUTE_US)
    hall.submit("fine", terms=Terms(durable=True, detached=True))
    disk = Disk()
    disk.apply(hall.commit())
    again = Hall()
    again.core.restore(disk.load())
    bob = again.worker("bob")
    bob.takes_nothing()
    again.core.needs.rate(bob.me, b"q", 5)
    again.core.needs.stay(bob.me, MINUTE_US - 1)
    bob.takes_nothing()
    again.core.needs.stay(bob.me, MINUTE_US)
    bob.takes("fine")


# --- known by name

RATINGS = Ratings(
    [
        (b"*", Rating({b"r": 1}, 0)),
        (b"gpu-*", Rating({b"q": 5, b"r": 2}, 0)),
        (b"gpu-?-spot", Rating({}, 30 * SECOND_US)),
    ]
)


@pytest.mark.parametrize(
    ("name", "skills", "stays_s"),
    [
        (b"", {b"r": 1}, 0),
        (b"bob", {b"r": 1}, 0),
        (b"gpu-1", {b"q": 5, b"r": 2}, 0),
        (b"GPU-1", {b"r": 1}, 0),
        (b"gpu-1-spot", {b"q": 5, b"r": 2}, 30),
        (b"gpu-\xff-spot", {b"q": 5, b"r": 2}, 30),
        (b"gpu-12-spot", {b"q": 5, b"r": 2}, 0),
        (b"a gpu-1", {b"r": 1}, 0),
        (b"gpu-\n", {b"q": 5, b"r": 2}, 0),
    ],
)
def test_all_patterns_that_fit_count_and_the_later_before_the_earlier(
    name: bytes, skills: dict[bytes, int], stays_s: int
) -> None:
    assert RATINGS.of(name) == Rating(skills, stays_s * SECOND_US)


def test_a_worker_is_what_is_known_of_its_name(hall: Hall) -> None:
    hall.core.needs.set_ratings(RATINGS)
    bob = hall.worker("bob")
    assert bob.me.skills == {b"r": 1}
    bob.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    hall.core.introduce(bob.me, b"gpu-7")
    hall.turn()
    bob.hears("woken")
    bob.takes("fine")
    # What is said beside it counts until it takes another name.
    hall.core.needs.rate(bob.me, b"q", 9)
    hall.core.introduce(bob.me, b"gpu-7")
    assert bob.me.skill(b"q") == 9
    hall.core.needs.rate_anew(bob.me)
    assert bob.me.skill(b"q") == 5
    hall.core.introduce(bob.me, b"gpu-7-spot")
    assert bob.me.until_us == hall.core.now_us + 30 * SECOND_US
    hall.core.introduce(bob.me, b"lathe")
    assert (bob.me.skills, bob.me.until_us) == ({b"r": 1}, 0)


def test_who_says_less_than_its_name_does_is_woken_when_that_is_forgotten(hall: Hall) -> None:
    hall.core.needs.set_ratings(RATINGS)
    bob = hall.worker("bob")
    hall.core.introduce(bob.me, b"gpu-1")
    hall.core.needs.rate(bob.me, b"q", 1)
    bob.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    bob.hears()
    hall.core.needs.rate_anew(bob.me)
    hall.turn()
    bob.hears("woken")


def test_residents_are_known_by_their_names_before_and_after_a_restart(hall: Hall) -> None:
    hall.core.needs.set_ratings(RATINGS)
    resident = hall.core.residents.get(b"q", b"gpu-1")
    hall.submit("fine", terms=Terms(durable=True, detached=True, skill=5))
    lease = hall.core.take(resident, b"q")
    assert lease is not None
    disk = Disk()
    disk.apply(hall.commit())
    again = Scheduler(Limits(), 1, hall.core.now_us)
    again.restore(disk.load())
    found = again.residents.find(b"q", b"gpu-1")
    assert found is not None
    assert found.skills is None
    again.needs.set_ratings(RATINGS)
    assert found.skills == {b"q": 5, b"r": 2}


def test_without_ratings_another_name_is_another_worker(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.rate(bob.me, b"q", 9)
    hall.core.needs.stay(bob.me, SECOND_US)
    hall.core.introduce(bob.me, b"bob")
    assert (bob.me.skills, bob.me.until_us) == (None, 0)


# --- bidding


def test_a_bid_of_somebody_without_the_time_does_not_stand(hall: Hall) -> None:
    hall.core.needs.set_ratings(Ratings([(b"spot-*", Rating({}, 30 * SECOND_US))]))
    crier = hall.person("crier")
    market = hall.core.auctions.open_market(crier, Rules(soonest), None)
    hall.core.auctions.set_audience(market, 2)
    job = hall.submit("long", terms=LONG)
    hall.turn()
    bob, carl = hall.person("bob"), hall.person("carl")
    hall.core.introduce(bob.me, b"spot-1")
    with refused(WRONG_STATE):
        hall.core.auctions.bid(bob.me, job.id, 0, 9)
    hall.core.needs.stay(bob.me, -1)
    hall.core.auctions.bid(bob.me, job.id, 0, 9)
    # He is called away while the window is open.
    hall.core.needs.stay(bob.me, 30 * SECOND_US)
    hall.after(SECOND_US)
    assert job.state == QUEUED
    assert why(hall.core, job) == "it takes 60 s, and none of 1 workers has that much time left"
    hall.core.auctions.bid(carl.me, job.id, 0, 0)
    hall.after(SECOND_US)
    crier.hears("announced long")
    bob.hears()
    carl.hears("hired long")
