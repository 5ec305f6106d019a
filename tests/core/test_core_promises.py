"""Jobs promised to workers of other dialects: they come first, and only to those who are good for them."""

from __future__ import annotations

import pytest
from hall_recorder import FOREGROUND, SECOND_US, Hall, Person, refused
from hiring_stories import ANSWER_US, BUFFER_US, some_rules

from hiringhall.core.errors import STALE_LEASE, WRONG_STATE
from hiringhall.core.jobs import JobSpec
from hiringhall.core.leases import ARRIVED, HIRED, PERFORMING, Engagement
from hiringhall.core.states import CANCELLED, LEASED

RULES = some_rules()
GIVEN_UP = "cancelled forge its worker does not do it"


def engage(hall: Hall, worker: Person, master: Person, in_us: int = 0) -> Engagement:
    spec = JobSpec(b"q", b"forge", b"forge-1", FOREGROUND)
    return hall.core.hiring.engage(spec, worker.me, hall.core.now_us + in_us, master, RULES)


# --- it comes first


def test_a_slot_that_is_offered_is_for_what_was_promised(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    hall.submit("a")
    lease = carl.takes("a")
    engagement = engage(hall, carl, smith, SECOND_US)
    waiting = hall.submit("b")
    hall.core.finish(lease, b"of a")
    carl.offers(1)
    hall.turn()
    carl.hears("assigned forge")
    smith.hears("joined forge")
    assert (carl.me.credit, waiting.lease) == (0, None)
    hall.core.finish(engagement, b"")
    smith.hears("done forge")
    carl.offers(1)
    hall.turn()
    carl.hears("assigned b")


def test_who_falls_asleep_is_woken_for_what_was_promised(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    carl.takes_nothing()
    engage(hall, carl, smith)
    carl.sleeps()
    hall.turn()
    carl.hears("woken")
    carl.takes("forge")
    smith.hears("joined forge")


def test_who_was_woken_for_it_stands_for_no_other_job(hall: Hall) -> None:
    smith, carl, dora = hall.person("smith"), hall.worker("carl"), hall.worker("dora")
    for worker in (dora, carl):
        worker.sleeps()
    hall.turn()
    engage(hall, carl, smith)
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    dora.hears("woken")


def test_what_is_only_promised_is_no_work(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engagement = engage(hall, carl, smith)
    assert not carl.me.leases
    with refused(STALE_LEASE):
        hall.core.find_lease(carl.me, engagement.job.id)
    assert engagement.job.state == LEASED


# --- only to one who is good for it


def test_one_that_does_not_do_such_jobs_cannot_be_hired(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl", "q", "p")
    hall.core.cant_do(carl.me, b"q")
    with refused(WRONG_STATE):
        engage(hall, carl, smith)


def test_one_that_does_them_no_more_is_let_go(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl", "q", "p")
    engagement = engage(hall, carl, smith)
    hall.core.cant_do(carl.me, b"p")
    assert carl.me.promise is engagement
    hall.core.cant_do(carl.me, b"q")
    smith.hears(GIVEN_UP)
    assert (carl.me.promise, engagement.job.state) == (None, CANCELLED)
    carl.takes_nothing()


@pytest.mark.parametrize("lack", ["skill", "time", "any time"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", ["takes", "offers"])
def test_one_that_lacks_something(hall: Hall, lack: str, when: str, way: str) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    if lack == "skill":
        hall.core.needs.need(b"q", 5, 0)
        hall.core.needs.rate(carl.me, b"q", 5)
    elif lack == "time":
        hall.core.needs.need(b"q", 0, 60 * SECOND_US)

    def lose_it() -> None:
        if lack == "skill":
            hall.core.needs.rate(carl.me, b"q", 4)
        else:
            hall.core.needs.stay(carl.me, 30 * SECOND_US if lack == "time" else 0)
            hall.after(1)

    if when == "before":
        lose_it()
        with refused(WRONG_STATE):
            engage(hall, carl, smith)
        return
    engagement = engage(hall, carl, smith)
    lose_it()
    if way == "takes":
        carl.takes_nothing()
    else:
        carl.offers(1)
        hall.turn()
    smith.hears(GIVEN_UP)
    carl.hears()
    hall.turn()
    assert engagement.job.state == CANCELLED


# --- those who bid have no more time than they have


def bidder(hall: Hall) -> Person:
    bob = hall.person("bob")
    bob.me.bids = True
    return bob


def test_a_bidder_whose_time_is_up_cannot_be_hired(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    hall.core.needs.stay(bob.me, 0)
    hall.after(1)
    with refused(WRONG_STATE):
        engage(hall, bob, smith)


def test_a_bidder_is_not_told_to_perform_for_longer_than_it_stays(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    hall.core.needs.stay(bob.me, 60 * SECOND_US)
    engagement = engage(hall, bob, smith)
    hall.core.hiring.arrive(engagement)
    assert engagement.stage == ARRIVED
    assert not hall.core.hiring.call(engagement, 61 * SECOND_US)
    bob.hears("revoked forge")
    smith.hears(GIVEN_UP)
    hall.turn()
    assert bob.me.promise is None


def test_a_bidder_that_answers_too_late_to_finish_does_not_begin(hall: Hall) -> None:
    smith, bob = hall.person("smith"), bidder(hall)
    hall.core.needs.stay(bob.me, 60 * SECOND_US)
    engagement = engage(hall, bob, smith)
    hall.core.hiring.arrive(engagement)
    assert hall.core.hiring.call(engagement, 60 * SECOND_US)
    hall.after(ANSWER_US // 2)
    assert not hall.core.hiring.perform(engagement)
    bob.hears("revoked forge")
    smith.hears(GIVEN_UP)
    hall.turn()
    assert engagement.stage != PERFORMING


def test_the_deadline_of_a_promise_is_that_of_its_worker(hall: Hall) -> None:
    smith, carl = hall.person("smith"), hall.worker("carl")
    engagement = engage(hall, carl, smith, 10 * SECOND_US)
    hall.after(10 * SECOND_US + BUFFER_US - 1)
    assert engagement.stage == HIRED
    smith.hears()
    hall.after(1)
    smith.hears(GIVEN_UP)
