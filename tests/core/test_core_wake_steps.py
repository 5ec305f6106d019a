"""Workers that may leave a wake-up unanswered: others are woken too, soon and in growing circles."""

from __future__ import annotations

from hall_recorder import DETACHED, Hall, Person

from hiringhall.core.limits import Limits
from hiringhall.core.terms import Terms

WAKE_US = Limits().wake_us
STEP_US = 5_000
SKILLED = Terms(detached=True, skill=5)


def sleepers(hall: Hall, count: int, step_us: int = STEP_US) -> list[Person]:
    """So many sleep; the last of them is woken first."""
    people = [hall.worker(f"p{number}") for number in range(count)]
    for person in people:
        person.me.wake_step_us = step_us
        person.sleeps()
    hall.turn()
    return people


def woken(people: list[Person]) -> int:
    """How many have been woken since the last time."""
    count = 0
    for person in people:
        count += person.heard.count("woken")
        person.heard.clear()
    return count


def test_a_free_worker_behind_nineteen_who_do_not_answer_is_woken_within_100_ms(hall: Hall) -> None:
    free, *busy = sleepers(hall, 20)
    hall.submit("a")
    hall.turn()
    circles = [woken(busy)]
    while not free.heard:
        hall.after(STEP_US)
        circles.append(woken(busy))
    assert circles == [1, 2, 4, 8, 4]
    free.hears("woken")
    free.takes("a")
    hall.turn()


def test_a_thousand_who_do_not_answer_are_all_woken_within_100_ms(hall: Hall) -> None:
    people = sleepers(hall, 1000)
    hall.submit("a")
    hall.turn()
    for _ in range(9):
        hall.after(STEP_US)
    assert woken(people) == 1000
    assert 9 * STEP_US < 100_000


def test_an_answer_in_time_leaves_the_others_asleep(hall: Hall) -> None:
    *rest, last = sleepers(hall, 10)
    hall.submit("a")
    hall.turn()
    last.hears("woken")
    hall.after(STEP_US - 1)
    last.takes("a")
    hall.after(WAKE_US)
    assert woken(rest) == 0
    assert hall.core.counters.woken == 1


def test_circles_grow_no_further_once_somebody_has_the_job(hall: Hall) -> None:
    people = sleepers(hall, 30)
    hall.submit("a")
    hall.turn()
    hall.after(STEP_US)
    assert woken(people) == 3
    people[-2].takes("a")
    for _ in range(5):
        hall.after(STEP_US)
    assert woken(people) == 0


def test_one_who_is_late_may_still_answer(hall: Hall) -> None:
    (bob,) = sleepers(hall, 1)
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    hall.after(STEP_US)
    assert bob.me.overdue
    bob.takes("a")
    hall.turn()
    assert not bob.me.overdue


def test_one_who_sleeps_again_late_is_woken_at_once(hall: Hall) -> None:
    (bob,) = sleepers(hall, 1)
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    hall.after(STEP_US)
    bob.sleeps()
    hall.turn()
    bob.hears("woken")


def test_one_who_leaves_late_counts_for_nothing(hall: Hall) -> None:
    people = sleepers(hall, 4)
    hall.submit("a")
    hall.turn()
    hall.after(STEP_US)
    assert woken(people) == 3
    hall.core.leave(people[3])
    hall.core.leave(people[2])
    hall.turn()
    assert woken(people) == 0, "one still stands for the job"
    hall.core.leave(people[1])
    hall.turn()
    people[0].hears("woken")


def test_a_wake_up_that_is_never_answered_ends_after_the_wake_time(hall: Hall) -> None:
    (bob,) = sleepers(hall, 1)
    hall.submit("a")
    hall.turn()
    bob.hears("woken")
    hall.after(STEP_US)
    hall.after(WAKE_US - STEP_US - 1)
    assert bob.me.overdue
    hall.after(1)
    assert (bob.me.waking, bob.me.overdue) == (None, False)
    hall.after(10 * WAKE_US)
    bob.hears()


def test_a_worker_that_always_answers_keeps_the_others_asleep_for_the_wake_time(hall: Hall) -> None:
    bob, carl = sleepers(hall, 2, step_us=0)
    hall.submit("a")
    hall.turn()
    carl.hears("woken")
    hall.after(WAKE_US - 1)
    bob.hears()
    hall.after(1)
    bob.hears("woken")


def test_jobs_that_need_a_skill_wake_only_those_who_have_it(hall: Hall) -> None:
    people = sleepers(hall, 8)
    for person in people[:5]:
        hall.core.needs.rate(person.me, b"q", 7)
    hall.submit("a", terms=SKILLED)
    hall.turn()
    circles = [woken(people[:5])]
    for _ in range(3):
        hall.after(STEP_US)
        circles.append(woken(people[:5]))
    assert circles == [1, 2, 2, 0]
    assert woken(people) == 0
    hall.submit("b", terms=DETACHED)
    hall.turn()
    assert woken(people[5:]) == 1
    people[0].takes("a")
    hall.turn()
