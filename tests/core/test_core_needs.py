"""Jobs that need a skill or a time: who is given them, who is not, and who is woken for them."""

from __future__ import annotations

import pytest
from hall_recorder import SECOND_US, Hall, refused

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL
from hiringhall.core.limits import Limits
from hiringhall.core.needs import SKILL_MAX
from hiringhall.core.queues import REQUIREMENTS_SWEEP_MIN
from hiringhall.core.reasons import why
from hiringhall.core.terms import HIGH, Terms

MINUTE_US = 60 * SECOND_US
LONG = Terms(detached=True, takes_us=MINUTE_US)
FINE = Terms(detached=True, skill=5)


# --- time


def test_a_job_of_a_minute_waits_for_somebody_who_has_one(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.core.needs.stay(bob.me, 30 * SECOND_US)
    job = hall.submit("long", terms=LONG)
    bob.takes_nothing()
    assert bob.takes_from("q") == ""
    bob.sleeps()
    hall.turn()
    bob.hears()
    hall.core.needs.stay(carl.me, MINUTE_US - 1)
    assert why(hall.core, job) == "it takes 60 s, and none of 2 workers has that much time left"
    hall.core.needs.stay(carl.me, MINUTE_US)
    carl.takes("long")
    bob.hears()


def test_time_passes_while_a_worker_sleeps(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.stay(bob.me, 2 * MINUTE_US)
    bob.sleeps()
    hall.after(MINUTE_US + 1)
    hall.submit("long", terms=LONG)
    hall.turn()
    bob.hears()
    hall.submit("short")
    hall.turn()
    bob.hears("woken")
    bob.takes("short")


def test_who_no_longer_has_the_time_when_he_asks_is_passed_over(hall: Hall) -> None:
    carl, bob = hall.worker("carl"), hall.worker("bob")
    for person in (carl, bob):
        person.sleeps()
    hall.core.needs.stay(bob.me, MINUTE_US)
    hall.submit("long", terms=LONG)
    hall.turn()
    bob.hears("woken")
    hall.after(SECOND_US // 4)
    bob.takes_nothing()
    hall.turn()
    carl.hears("woken")
    carl.takes("long")


def test_when_his_time_is_up_he_gets_nothing_at_all(hall: Hall) -> None:
    carl, bob = hall.worker("carl"), hall.worker("bob")
    for person in (carl, bob):
        person.sleeps()
    hall.core.needs.stay(bob.me, SECOND_US)
    hall.after(SECOND_US)
    hall.submit("short")
    hall.turn()
    bob.hears()
    carl.hears("woken")
    bob.takes_nothing()
    hall.core.needs.stay(bob.me, -1)
    bob.takes("short")


def test_a_slot_is_not_filled_with_what_cannot_be_finished(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.core.needs.stay(bob.me, 30 * SECOND_US)
    for person in (bob, carl):
        person.offers(2)
    hall.submit("long", terms=LONG)
    hall.turn()
    bob.hears()
    carl.hears("assigned long")
    hall.submit("longer", terms=LONG)
    hall.submit("short")
    hall.turn()
    bob.hears("assigned short")
    carl.hears("assigned longer")


def test_a_worker_who_stays_after_all_is_woken_for_what_waits(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.stay(bob.me, SECOND_US)
    bob.sleeps()
    hall.submit("long", terms=LONG)
    hall.turn()
    bob.hears()
    hall.core.needs.stay(bob.me, -1)
    hall.turn()
    bob.hears("woken")
    bob.takes("long")


# --- skill


def test_a_skill_is_needed_in_that_queue(hall: Hall) -> None:
    bob, carl = hall.worker("bob", "q", "r"), hall.worker("carl")
    hall.core.needs.rate(bob.me, b"r", 9)
    hall.core.needs.rate(carl.me, b"q", 4)
    job = hall.submit("fine", terms=FINE)
    bob.takes_nothing()
    carl.takes_nothing()
    assert why(hall.core, job) == "it needs skill 5, which none of 2 workers has"
    hall.core.needs.rate(carl.me, b"q", 5)
    carl.takes("fine")


def test_who_is_rated_while_asleep_is_woken(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    bob.hears()
    hall.core.needs.rate(bob.me, b"q", 5)
    hall.turn()
    bob.hears("woken")
    bob.takes("fine")


@pytest.mark.parametrize("skill", [-1, SKILL_MAX + 1])
def test_a_skill_has_bounds(hall: Hall, skill: int) -> None:
    bob = hall.worker("bob")
    with refused(BAD_REQUEST):
        hall.core.needs.rate(bob.me, b"q", skill)


def test_a_worker_is_rated_in_so_many_queues_and_no_more() -> None:
    hall = Hall(Limits(abilities_max=2))
    bob = hall.worker("bob")
    hall.core.needs.rate(bob.me, b"q", 1)
    hall.core.needs.rate(bob.me, b"r", 1)
    with refused(HALL_FULL):
        hall.core.needs.rate(bob.me, b"s", 1)
    hall.core.needs.rate(bob.me, b"r", 2)


# --- order


def test_jobs_that_need_nothing_pass_by_those_that_wait(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in ("fine 1", "fine 2"):
        hall.submit(name, terms=FINE)
    for name in ("plain 1", "plain 2"):
        hall.submit(name)
    bob.takes("plain 1")
    bob.takes("plain 2")
    bob.takes_nothing()


def test_the_oldest_that_fits_is_first_and_priority_before_all(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.rate(bob.me, b"q", 5)
    hall.submit("fine 1", terms=FINE)
    hall.submit("plain 1")
    hall.submit("fine 2", terms=FINE)
    hall.submit("urgent", terms=Terms(detached=True, skill=5, priority=HIGH))
    hall.submit("too fine", terms=Terms(detached=True, skill=6, priority=HIGH))
    for name in ("urgent", "fine 1", "plain 1", "fine 2"):
        bob.takes(name)
    bob.takes_nothing()


def test_what_is_given_back_is_first_among_its_like_again(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    for person in (bob, carl):
        hall.core.needs.rate(person.me, b"q", 5)
    hall.submit("fine 1", terms=FINE)
    hall.submit("fine 2", terms=FINE)
    lease = bob.takes("fine 1")
    hall.core.release(lease)
    carl.takes("fine 1")
    carl.leaves()
    bob.takes("fine 1")
    bob.takes("fine 2")


def test_queues_in_turn_and_only_what_fits(hall: Hall) -> None:
    bob = hall.worker("bob", "q", "r")
    hall.core.take_turns(bob.me)
    hall.submit("fine", "q", terms=FINE)
    hall.submit("r 1", "r")
    hall.submit("q 1", "q")
    hall.submit("r 2", "r")
    bob.takes("r 1")
    bob.takes("q 1")
    bob.takes("r 2")
    bob.takes_nothing()


# --- waking


def test_jobs_that_nobody_can_be_given_wake_no_herd(hall: Hall) -> None:
    people = [hall.worker(f"w{number}") for number in range(10)]
    for person in people:
        person.sleeps()
    for number in range(10):
        hall.submit(f"fine {number}", terms=FINE)
    hall.turn()
    hall.submit("plain")
    hall.turn()
    people[-1].hears("woken")
    assert hall.core.counters.woken == 1


def test_who_was_woken_for_something_else_holds_nothing_up(hall: Hall) -> None:
    bob, carl, dora = hall.worker("bob"), hall.worker("carl"), hall.worker("dora")
    hall.core.needs.rate(bob.me, b"q", 5)
    for person in (bob, carl, dora):
        person.sleeps()
    one = hall.submit("plain 1")
    two = hall.submit("plain 2")
    hall.turn()
    dora.hears("woken")
    carl.hears("woken")
    # What they were woken for is gone; what comes now is not theirs to take.
    for job in (one, two):
        hall.core.cancel(job)
    hall.submit("fine", terms=FINE)
    hall.turn()
    bob.hears("woken")
    bob.takes("fine")


def test_one_is_woken_for_one_job_of_each_kind(hall: Hall) -> None:
    bob, carl, dora = hall.worker("bob"), hall.worker("carl"), hall.worker("dora")
    for person in (bob, carl, dora):
        hall.core.needs.rate(person.me, b"q", 5)
        person.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    dora.hears("woken")
    hall.turn()
    hall.submit("plain")
    hall.turn()
    carl.hears("woken")
    dora.takes("fine")
    carl.takes("plain")
    hall.turn()


def test_who_comes_later_does_not_wait_for_those_who_were_woken_for_nothing(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    hall.core.needs.rate(bob.me, b"q", 5)
    carl.sleeps()
    job = hall.submit("plain")
    hall.turn()
    carl.hears("woken")
    hall.core.cancel(job)
    hall.submit("fine", terms=FINE)
    hall.turn()
    bob.sleeps()
    hall.turn()
    bob.hears("woken")


def test_who_took_another_job_is_replaced_whoever_else_was_woken(hall: Hall) -> None:
    bob, carl, dora = hall.worker("bob"), hall.worker("carl", "q", "r"), hall.worker("dora")
    for person in (bob, carl):
        hall.core.needs.rate(person.me, b"q", 5)
    for person in (bob, carl, dora):
        person.sleeps()
    job = hall.submit("plain")
    hall.turn()
    dora.hears("woken")
    hall.submit("fine", terms=FINE)
    hall.turn()
    carl.hears("woken")
    hall.core.cancel(job)
    hall.submit("urgent", "r", terms=Terms(detached=True, priority=HIGH))
    carl.takes("urgent")
    hall.turn()
    bob.hears("woken")


def test_what_was_looked_for_in_vain_is_found_when_somebody_comes_or_changes(hall: Hall) -> None:
    bob, carl = hall.worker("bob"), hall.worker("carl")
    bob.sleeps()
    carl.offers(1)
    hall.submit("fine 1", terms=FINE)
    hall.submit("fine 2", terms=FINE)
    hall.submit("fine 3", terms=FINE)
    hall.turn()
    assert list(hall.core.queues[b"q"].unmatched) == [FINE.requirement]
    dora = hall.person("dora")
    hall.core.needs.rate(dora.me, b"q", 5)
    dora.sleeps()
    dora.can("q")
    hall.turn()
    dora.hears("woken")
    dora.takes("fine 1")
    hall.turn()
    hall.core.needs.rate(carl.me, b"q", 5)
    hall.turn()
    carl.hears("assigned fine 2")
    hall.core.needs.rate(bob.me, b"q", 4)
    hall.turn()
    carl.offers(1)
    hall.turn()
    carl.hears("assigned fine 3")


def test_who_falls_asleep_is_looked_at_for_what_was_looked_for_in_vain(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.core.needs.rate(bob.me, b"q", 5)
    hall.submit("fine", terms=FINE)
    hall.turn()
    assert list(hall.core.queues[b"q"].unmatched) == [FINE.requirement]
    bob.sleeps()
    hall.turn()
    bob.hears("woken")


def test_so_is_who_offers_slots_behind_others(hall: Hall) -> None:
    ann, bob = hall.worker("ann"), hall.worker("bob")
    hall.core.needs.rate(bob.me, b"q", 5)
    ann.offers(1)
    hall.submit("fine", terms=FINE)
    hall.turn()
    assert list(hall.core.queues[b"q"].unmatched) == [FINE.requirement]
    bob.offers(1)
    hall.turn()
    bob.hears("assigned fine")


def test_a_job_that_nobody_can_be_given_is_not_looked_for_over_and_over(hall: Hall) -> None:
    people = [hall.worker(f"w{number}") for number in range(5)]
    for person in people:
        person.offers(100)
    hall.submit("fine", terms=FINE)
    hall.turn()
    assert hall.core.queues[b"q"].candidates() == []
    for number in range(5):
        hall.submit(f"plain {number}")
        hall.turn()
        assert hall.core.queues[b"q"].candidates() == []
        people[number].hears(f"assigned plain {number}")


def test_who_stood_for_a_job_and_took_another_is_replaced(hall: Hall) -> None:
    bob, carl = hall.worker("bob", "q", "r"), hall.worker("carl")
    for person in (carl, bob):
        hall.core.needs.rate(person.me, b"q", 5)
        person.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    bob.hears("woken")
    hall.submit("urgent", "r", terms=Terms(detached=True, priority=HIGH))
    bob.takes("urgent")
    hall.turn()
    carl.hears("woken")
    carl.takes("fine")


def test_a_wake_up_that_is_not_answered_goes_to_the_next_who_is_good_for_it(hall: Hall) -> None:
    bob, carl, dora = hall.worker("bob"), hall.worker("carl"), hall.worker("dora")
    for person in (bob, dora):
        hall.core.needs.rate(person.me, b"q", 5)
    for person in (bob, carl, dora):
        person.sleeps()
    hall.submit("fine", terms=FINE)
    hall.turn()
    dora.hears("woken")
    hall.after(hall.limits.wake_us)
    bob.hears("woken")
    carl.hears()


# --- shapes


def test_jobs_of_about_one_length_are_of_one_shape() -> None:
    by_requirement = {Terms(takes_us=seconds * SECOND_US).requirement for seconds in range(1, 100_001)}
    assert len(by_requirement) < 16 * 17
    for seconds in (1, 59, 60, 61, 100, 3600, 86_399):
        terms = Terms(takes_us=seconds * SECOND_US)
        assert terms.requirement is not None
        assert seconds * SECOND_US <= terms.requirement[1] <= seconds * SECOND_US * 17 // 16 + SECOND_US
    assert LONG.requirement == (0, MINUTE_US, ())
    assert Terms(takes_us=1).requirement == (0, SECOND_US, ())


def test_shapes_of_which_no_job_is_left_are_forgotten(hall: Hall) -> None:
    ghost = hall.submit("ghost", terms=Terms(detached=True, skill=1))
    parent = hall.submit("parent", "r", key="p")
    child = hall.submit("child", terms=Terms(detached=True, skill=2))
    hall.core.cancel(ghost)
    hall.core.dependencies.depend(child, ((b"r", b"p"),))
    for number in range(REQUIREMENTS_SWEEP_MIN):
        hall.submit(f"job {number}", terms=Terms(detached=True, skill=number + 3))
    queue = hall.core.queues[b"q"]
    assert queue.by_requirement is not None
    assert (1, 0) not in queue.by_requirement
    assert (2, 0) not in queue.by_requirement
    assert len(queue.by_requirement) == REQUIREMENTS_SWEEP_MIN
    assert not ghost.in_lane
    # The one that waits for a parent finds a place again.
    bob = hall.worker("bob", "q", "r")
    hall.core.needs.rate(bob.me, b"q", 2)
    hall.core.finish(bob.takes("parent"), b"")
    assert parent.ended
    bob.takes("child")
    hall.turn()


def test_sweeping_shapes_that_are_all_in_use_is_not_done_over_and_over(hall: Hall) -> None:
    for number in range(4 * REQUIREMENTS_SWEEP_MIN):
        hall.submit(f"job {number}", terms=Terms(detached=True, skill=number + 1))
    queue = hall.core.queues[b"q"]
    assert queue.requirements_max == 4 * REQUIREMENTS_SWEEP_MIN
    hall.turn()


def test_all_skills_of_a_worker_are_set_at_once(hall: Hall) -> None:
    bob = hall.worker("bob", "q", "r")
    hall.core.needs.rate(bob.me, b"r", 9)
    job = hall.submit("hard", terms=Terms(detached=True, skill=3))
    bob.sleeps()
    hall.core.needs.rate_all(bob.me, {b"q": 3})
    hall.turn()
    bob.hears("woken")
    assert (bob.me.skill(b"q"), bob.me.skill(b"r")) == (3, 0)
    assert bob.takes("hard").job is job
    with refused(BAD_REQUEST):
        hall.core.needs.rate_all(bob.me, {b"q": SKILL_MAX + 1})
