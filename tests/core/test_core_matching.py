"""Who gets which job: priority first, then first come, across all of a worker's queues."""

from __future__ import annotations

import pytest
from hall_recorder import Hall, refused

from hiringhall.core.errors import WRONG_STATE
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms

PRIORITY = {"h": HIGH, "n": NORMAL, "l": LOW}


def submit_all(hall: Hall, words: str) -> None:
    """`q:h1` is job h1 in queue q: h, n or l by its first letter."""
    for word in words.split():
        queue, name = word.split(":")
        hall.submit(name, queue, terms=Terms(priority=PRIORITY[name[0]], detached=True))


TABLE = {
    "first in, first out": ("q", "q:n1 q:n2 q:n3", "n1 n2 n3"),
    "priority first": ("q", "q:l1 q:n1 q:h1 q:h2 q:l2", "h1 h2 n1 l1 l2"),
    "the oldest of all queues": ("p q", "q:n1 p:n2 q:n3 p:n4", "n1 n2 n3 n4"),
    "priority holds across queues": ("p q r", "p:l1 q:n1 r:h1 p:h2 q:l2", "h1 h2 n1 l1 l2"),
    "the order of abilities does not matter": ("r q p", "p:n1 q:n2 r:n3", "n1 n2 n3"),
    "only what it can do": ("q", "p:h1 q:l1", "l1"),
}


@pytest.mark.parametrize("story", TABLE)
def test_what_one_worker_takes(hall: Hall, story: str) -> None:
    abilities, submitted, taken = TABLE[story]
    submit_all(hall, submitted)
    bob = hall.worker("bob", *abilities.split())
    hall.turn()
    for name in taken.split():
        bob.takes(name)
        hall.turn()
    bob.takes_nothing()


@pytest.mark.parametrize("story", TABLE)
def test_what_one_worker_is_given(hall: Hall, story: str) -> None:
    abilities, submitted, taken = TABLE[story]
    submit_all(hall, submitted)
    bob = hall.worker("bob", *abilities.split())
    bob.offers(100)
    hall.turn()
    bob.hears(*[f"assigned {name}" for name in taken.split()])


ROTATING = {
    "queues in turn, the one named last first": ("p q", "p:n1 p:n2 p:n3 q:n4 q:n5 q:n6", "n4 n1 n5 n2 n6 n3"),
    "an empty queue is passed over": ("p q r", "p:n1 p:n2 r:n3", "n3 n1 n2"),
    "priority counts within a queue": ("p q", "p:n1 p:h2 q:n3 q:n4", "n3 h2 n4 n1"),
}


@pytest.mark.parametrize("story", ROTATING)
def test_what_a_rotating_worker_takes(hall: Hall, story: str) -> None:
    abilities, submitted, taken = ROTATING[story]
    submit_all(hall, submitted)
    bob = hall.worker("bob", *abilities.split())
    hall.core.take_turns(bob.me)
    for name in taken.split():
        bob.takes(name)
        hall.turn()
    bob.takes_nothing()


def test_a_rotating_worker_keeps_its_run_limits(hall: Hall) -> None:
    bob = hall.person("bob").can("p", run_us=11).can("q")
    hall.core.take_turns(bob.me)
    submit_all(hall, "p:n1 p:n2")
    for name in ("n1", "n2"):
        assert bob.takes(name).run_until_us == hall.core.now_us + 11


def test_a_rotating_worker_serves_what_it_served_longest_ago(hall: Hall) -> None:
    bob = hall.person("bob")
    hall.core.take_turns(bob.me)
    bob.can("p").can("q").can("r")
    submit_all(hall, "p:n1 r:n2")
    bob.takes("n2")
    bob.takes("n1")
    hall.core.cant_do(bob.me, b"r")
    submit_all(hall, "p:n3 q:n4 r:n5")
    bob.takes("n4")
    bob.takes("n3")
    bob.takes_nothing()


def test_workers_share_a_queue_in_order(hall: Hall) -> None:
    submit_all(hall, "q:n1 q:n2 q:n3 q:n4")
    bob, carl = hall.worker("bob"), hall.worker("carl")
    bob.takes("n1")
    carl.takes("n2")
    bob.takes("n3")
    carl.takes("n4")


def test_a_job_that_comes_back_goes_first(hall: Hall) -> None:
    submit_all(hall, "q:n1 q:n2 q:n3")
    bob = hall.worker("bob")
    hall.core.release(bob.takes("n1"))
    bob.takes("n1")
    hall.core.release(bob.takes("n2"))
    bob.takes("n2")


def test_a_job_that_comes_back_keeps_its_priority(hall: Hall) -> None:
    submit_all(hall, "q:n1 q:n2")
    bob = hall.worker("bob")
    lease = bob.takes("n1")
    submit_all(hall, "q:h1")
    hall.core.release(lease)
    bob.takes("h1")
    bob.takes("n1")


def test_several_jobs_of_one_lost_worker_come_back_in_their_order(hall: Hall) -> None:
    submit_all(hall, "q:n1 q:n2 q:n3 q:n4")
    bob, carl = hall.worker("bob"), hall.worker("carl")
    for name in ("n1", "n2", "n3"):
        bob.takes(name)
    bob.leaves()
    for name in ("n1", "n2", "n3", "n4"):
        carl.takes(name)


def test_abilities_can_be_taken_back(hall: Hall) -> None:
    submit_all(hall, "p:n1 q:n2")
    bob = hall.worker("bob", "p", "q")
    hall.core.cant_do(bob.me, b"p")
    hall.core.cant_do(bob.me, b"p")
    hall.core.cant_do(bob.me, b"never heard of")
    hall.turn()
    bob.takes("n2")
    bob.takes_nothing()
    bob.can("p")
    bob.takes("n1")


def test_all_abilities_can_be_taken_back_and_the_work_in_hand_stays(hall: Hall) -> None:
    submit_all(hall, "p:n1 q:n2")
    bob = hall.worker("bob", "p", "q")
    lease = bob.takes("n1")
    hall.core.cant_do_any(bob.me)
    hall.turn()
    bob.takes_nothing()
    hall.core.finish(lease, b"")
    hall.turn()
    assert bob.me.abilities == {}


def test_a_queue_counts_its_people_and_jobs(hall: Hall) -> None:
    submit_all(hall, "q:n1 q:n2 q:h1")
    bob = hall.worker("bob")
    hall.worker("carl")
    bob.takes("h1")
    assert hall.core.queue(b"q").counts() == (3, 1, 2)


def test_a_queue_is_dropped_only_when_nobody_needs_it(hall: Hall) -> None:
    bob = hall.worker("bob")
    queue = hall.core.queue(b"q")
    job = hall.submit("a")
    with refused(WRONG_STATE):
        hall.core.length_limits.drop(queue)
    bob.leaves()
    with refused(WRONG_STATE):
        hall.core.length_limits.drop(queue)
    hall.core.cancel(job)
    hall.core.length_limits.drop(queue)
    assert b"q" not in hall.core.queues
    hall.turn()
    hall.worker("carl").takes_nothing()
    hall.submit("b")
    hall.turn()


def test_saying_an_ability_again_changes_its_run_limit(hall: Hall) -> None:
    bob = hall.person("bob").can("q", run_us=5).can("q", run_us=7)
    hall.submit("a")
    assert bob.takes("a").run_until_us == hall.core.now_us + 7
    assert len(bob.me.abilities) == 1


# --- from one queue that the worker names

NAMED = {
    "only from that queue": ("p q", "q:n1 p:n2 q:n3 p:n4", "p", "n2 n4"),
    "priority still goes first": ("p q", "p:l1 p:n1 p:h1 q:h2", "p", "h1 n1 l1"),
    "an urgent job elsewhere does not count": ("p q", "q:h1 p:l1", "p", "l1"),
    "a queue that nobody has heard of": ("p q", "p:n1 q:n2", "unheard", ""),
    "a queue that the worker cannot do": ("p", "p:n1 q:n2", "q", ""),
    "a queue without work": ("p q r", "p:n1 q:n2", "r", ""),
}


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("story", NAMED)
def test_what_one_worker_takes_from_a_queue_it_names(hall: Hall, story: str, rotate: bool) -> None:
    abilities, submitted, queue, taken = NAMED[story]
    submit_all(hall, submitted)
    bob = hall.worker("bob", *abilities.split())
    if rotate:
        hall.core.take_turns(bob.me)
    for name in taken.split():
        assert bob.takes_from(queue) == name
        hall.turn()
    assert bob.takes_from(queue) == ""
    assert b"unheard" not in hall.core.queues, "asking makes no queue"
    hall.turn()


def test_a_queue_that_was_unlearned_cannot_be_named(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    submit_all(hall, "p:n1 q:n2")
    hall.core.cant_do(bob.me, b"p")
    assert bob.takes_from("p") == ""
    assert bob.takes_from("q") == "n2"


def test_a_queue_that_was_dropped_and_came_again_must_be_learned_again(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    hall.core.cant_do(bob.me, b"p")
    hall.core.length_limits.drop(hall.core.queue(b"p"))
    submit_all(hall, "p:n1")
    assert bob.takes_from("p") == ""
    bob.can("p")
    assert bob.takes_from("p") == "n1"


def test_the_run_limit_of_the_named_queue_holds(hall: Hall) -> None:
    bob = hall.person("bob").can("p", run_us=5).can("q", run_us=7)
    submit_all(hall, "p:n1 q:n2")
    lease = hall.core.take(bob.me, b"q")
    assert lease is not None
    assert lease.run_until_us == hall.core.now_us + 7


def test_a_closing_hall_gives_nothing_from_a_named_queue_either(hall: Hall) -> None:
    bob = hall.worker("bob")
    submit_all(hall, "q:n1")
    hall.core.close()
    assert bob.takes_from("q") == ""


ELSEWHERE = ("q", "r", "unheard")


@pytest.mark.parametrize("queue", ELSEWHERE)
def test_who_asks_one_queue_sleeps_no_more(hall: Hall, queue: str) -> None:
    bob = hall.worker("bob", "p", "q")
    bob.sleeps()
    hall.turn()
    assert bob.takes_from(queue) == ""
    submit_all(hall, "p:n1 q:n2")
    hall.turn()
    bob.hears()
    assert bob.takes_from("p") == "n1"


@pytest.mark.parametrize("queue", ["p", *ELSEWHERE])
def test_a_woken_worker_that_asks_another_queue_leaves_the_work_to_the_next(hall: Hall, queue: str) -> None:
    carl, bob = hall.worker("carl", "p"), hall.worker("bob", "p", "q")
    carl.sleeps()
    bob.sleeps()
    hall.turn()
    submit_all(hall, "p:n1")
    hall.turn()
    bob.hears("woken")
    assert bob.takes_from(queue) == ("n1" if queue == "p" else "")
    hall.turn()
    carl.hears(*([] if queue == "p" else ["woken"]))
