"""Sleepers are woken one for one job; offered slots are filled; nobody idles beside a ready job."""

from __future__ import annotations

import pytest
from hall_recorder import DETACHED, SECOND_US, Hall, Person

from hiringhall.core.limits import Limits
from hiringhall.core.terms import HIGH, Terms

WAKE_US = Limits().wake_us


def sleepers(hall: Hall, *names: str) -> list[Person]:
    people = [hall.worker(name) for name in names]
    for person in people:
        person.sleeps()
    hall.turn()
    return people


def test_one_job_wakes_one_sleeper_the_latest(hall: Hall) -> None:
    bob, carl, dora = sleepers(hall, "bob", "carl", "dora")
    hall.submit("a")
    hall.turn()
    dora.hears("woken")
    hall.turn()
    dora.takes("a")
    hall.turn()
    for person in (bob, carl, dora):
        person.hears()
    assert hall.core.counters.woken == 1


def test_two_jobs_wake_two(hall: Hall) -> None:
    bob, carl, dora = sleepers(hall, "bob", "carl", "dora")
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    dora.hears("woken")
    carl.hears("woken")
    bob.hears()


def test_work_that_waits_already_wakes_at_the_end_of_the_turn(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a")
    bob.sleeps()
    bob.hears()
    hall.turn()
    bob.hears("woken")


def test_a_job_submitted_and_taken_in_one_turn_wakes_nobody(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    hall.submit("a")
    hall.worker("carl").takes("a")
    hall.turn()
    bob.hears()


def test_of_ten_thousand_sleepers_one_is_woken_for_one_job() -> None:
    hall = Hall()
    crowd = sleepers(hall, *map(str, range(10_000)))
    for count in range(1, 6):
        hall.submit("a", terms=DETACHED)
        hall.turn()
        woken = [person for person in crowd if person.heard]
        assert len(woken) == 1
        woken[0].hears("woken")
        hall.core.finish(woken[0].takes("a"), b"")
        woken[0].sleeps()
        hall.turn()
        assert hall.core.counters.woken == count
    assert not any(person.heard for person in crowd)


def test_a_woken_worker_that_does_not_come_is_passed_over(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    hall.after(WAKE_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("woken")
    bob.takes("a")
    hall.turn()
    carl.takes_nothing()


def test_a_passed_over_worker_is_not_woken_again_until_it_sleeps(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    hall.after(10 * WAKE_US)
    bob.hears()
    bob.sleeps()
    hall.turn()
    bob.hears("woken")


def test_a_woken_worker_that_sleeps_again_instead_is_woken_again(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    bob.sleeps()
    hall.turn()
    bob.hears("woken")


def test_a_woken_worker_that_takes_another_queues_job_leaves_the_first_to_the_next(hall: Hall) -> None:
    (carl,) = sleepers(hall, "carl")
    bob = hall.worker("bob", "p", "q")
    bob.sleeps()
    hall.turn()
    hall.submit("normal", "q")
    hall.turn()
    bob.hears("woken")
    hall.submit("urgent", "p", terms=Terms(priority=HIGH, detached=True))
    hall.turn()
    bob.takes("urgent")
    hall.turn()
    carl.hears("woken")
    carl.takes("normal")


def test_a_worker_of_two_queues_is_woken_once_for_two_jobs(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    bob.sleeps()
    hall.submit("a", "p")
    hall.submit("b", "q")
    hall.turn()
    bob.hears("woken")
    bob.takes("a")
    bob.takes("b")


def test_asking_for_work_ends_the_sleep(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    bob.takes_nothing()
    hall.submit("a")
    hall.turn()
    bob.hears()
    bob.takes("a")


def test_learning_while_asleep(hall: Hall) -> None:
    hall.submit("a", "p")
    (bob,) = sleepers(hall, "bob")
    bob.can("p")
    hall.turn()
    bob.hears("woken")
    bob.takes("a")


def test_learning_something_without_work_while_asleep(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    bob.can("p")
    hall.turn()
    bob.hears()
    hall.submit("a", "p")
    hall.turn()
    bob.hears("woken")


def test_unlearning_while_asleep(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    hall.core.cant_do(carl.me, b"q")
    hall.submit("a")
    hall.turn()
    carl.hears()
    bob.hears("woken")


def test_unlearning_what_one_was_woken_for(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    hall.core.cant_do(carl.me, b"q")
    hall.turn()
    bob.hears("woken")
    carl.takes_nothing()


def test_one_who_sleeps_without_abilities_can_still_learn(hall: Hall) -> None:
    bob = hall.person("bob")
    bob.sleeps()
    hall.turn()
    bob.can("q")
    hall.submit("a")
    hall.turn()
    bob.hears("woken")


def test_a_woken_worker_that_leaves_passes_the_wake_on(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    carl.leaves()
    bob.hears("woken")


def test_a_sleeper_that_leaves_is_not_woken(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    carl.leaves()
    hall.submit("a")
    hall.turn()
    carl.hears()
    bob.hears("woken")


def test_a_job_cancelled_before_its_worker_comes(hall: Hall) -> None:
    bob, carl = sleepers(hall, "bob", "carl")
    job = hall.submit("a")
    hall.turn()
    carl.hears("woken")
    hall.core.cancel(job)
    hall.turn()
    hall.submit("b")
    hall.turn()
    bob.hears()
    carl.takes("b")


@pytest.mark.parametrize("how", ["release", "leave", "due", "retry"])
def test_a_job_that_comes_back_wakes_a_sleeper(hall: Hall, how: str) -> None:
    bob = hall.worker("bob")
    due_us = hall.core.now_us + SECOND_US if how == "due" else 0
    hall.submit("a", terms=Terms(detached=True, failures_max=1, backoff_us=SECOND_US), due_us=due_us)
    if how == "due":
        pass
    else:
        lease = bob.takes("a")
    carl = hall.worker("carl")
    carl.sleeps()
    hall.turn()
    if how == "release":
        hall.core.release(lease)
        hall.turn()
    elif how == "leave":
        bob.leaves()
    else:
        if how == "retry":
            hall.core.fail(lease)
        hall.after(SECOND_US)
    carl.hears("woken")


# --- push


def test_offered_slots_are_filled_and_no_more(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(2)
    for name in "abc":
        hall.submit(name)
    hall.turn()
    bob.hears("assigned a", "assigned b")
    assert bob.me.credit == 0
    hall.core.finish(bob.me.leases[next(iter(bob.me.leases))], b"")
    hall.turn()
    bob.hears()
    bob.offers(1)
    hall.turn()
    bob.hears("assigned c")


def test_slots_offered_before_there_is_work(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(2)
    hall.turn()
    hall.submit("a")
    hall.turn()
    bob.hears("assigned a")
    hall.submit("b")
    hall.turn()
    bob.hears("assigned b")
    hall.submit("c")
    hall.turn()
    bob.hears()


def test_those_who_offer_get_jobs_in_turn(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    bob.offers(2)
    carl.offers(2)
    for name in "abcd":
        hall.submit(name)
    hall.turn()
    bob.hears("assigned a", "assigned c")
    carl.hears("assigned b", "assigned d")


def test_a_new_offer_replaces_the_one_before(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(5)
    bob.offers(1)
    for name in "ab":
        hall.submit(name)
    hall.turn()
    bob.hears("assigned a")


def test_an_offer_taken_back(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(5)
    hall.turn()
    bob.offers(0)
    hall.submit("a")
    hall.turn()
    bob.hears()


def test_an_offer_holds_for_what_is_learned_later(hall: Hall) -> None:
    bob = hall.worker("bob", "p")
    bob.offers(1)
    hall.submit("a", "q")
    hall.turn()
    bob.can("q")
    hall.turn()
    bob.hears("assigned a")


def test_an_offer_does_not_hold_for_what_was_unlearned(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    bob.offers(2)
    hall.core.cant_do(bob.me, b"p")
    hall.submit("a", "p")
    hall.submit("b", "q")
    hall.turn()
    bob.hears("assigned b")


def test_an_offering_worker_goes_before_a_sleeper(hall: Hall) -> None:
    (bob,) = sleepers(hall, "bob")
    carl = hall.worker("carl")
    carl.offers(1)
    hall.submit("a")
    hall.turn()
    carl.hears("assigned a")
    bob.hears()


def test_the_best_job_is_pushed_whichever_queue_was_touched(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    bob.offers(1)
    hall.submit("normal", "p")
    hall.submit("urgent", "q", terms=Terms(priority=HIGH, detached=True))
    hall.turn()
    bob.hears("assigned urgent")


def test_an_offering_worker_that_leaves_before_the_end_of_the_turn(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.offers(1)
    hall.submit("a")
    hall.core.leave(bob)
    hall.turn()
    bob.hears()
