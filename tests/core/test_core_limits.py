"""Every bound of the hall is kept, and says so to the one who meets it."""

from __future__ import annotations

import dataclasses

import pytest
from hall_recorder import BACKGROUND, Hall, refused

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, QUEUE_FULL, TOO_LARGE, Refusal
from hiringhall.core.limits import Limits
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms


def test_limits_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Limits().jobs_max = 1  # type: ignore[misc]


def test_jobs_max() -> None:
    hall = Hall(Limits(jobs_max=3))
    jobs = [hall.submit(name, key=name) for name in "abc"]
    with refused(HALL_FULL):
        hall.submit("d")
    assert hall.submit("a", key="a") is jobs[0], "joining takes no room"
    hall.core.cancel(jobs[0])
    hall.submit("d")
    hall.turn()


def test_payload_bytes_max() -> None:
    hall = Hall(Limits(payload_bytes_max=10))
    hall.submit("x" * 10)
    with refused(TOO_LARGE):
        hall.submit("x" * 11)
    hall.turn()


def test_key_bytes_max() -> None:
    hall = Hall(Limits(key_bytes_max=10))
    hall.submit("a", key="k" * 10)
    with refused(TOO_LARGE):
        hall.submit("a", key="k" * 11)
    hall.turn()


@pytest.mark.parametrize(("name", "reason"), [("", BAD_REQUEST), ("n" * 11, TOO_LARGE)])
def test_queue_name_bytes_max(name: str, reason: str) -> None:
    hall = Hall(Limits(queue_name_bytes_max=10))
    hall.submit("a", "n" * 10)
    with refused(reason):
        hall.submit("a", name)
    with refused(reason):
        hall.person("bob").can(name)
    hall.turn()


def test_queues_max_counts_only_those_in_use() -> None:
    hall = Hall(Limits(queues_max=3))
    hall.submit("a", "p")
    hall.worker("bob", "q")
    hall.core.queue(b"r")
    hall.submit("a", "s")
    assert list(hall.core.queues) == [b"p", b"q", b"s"], "an idle one made room"
    with refused(HALL_FULL):
        hall.submit("a", "t")
    with refused(HALL_FULL):
        hall.person("carl").can("t")
    hall.turn()


def test_a_queue_with_a_maximum_of_its_own_is_in_use() -> None:
    hall = Hall(Limits(queues_max=1))
    hall.core.queue(b"q").maxima[NORMAL] = 5
    with refused(HALL_FULL):
        hall.core.queue(b"p")


@pytest.mark.parametrize("priority", [HIGH, NORMAL, LOW])
def test_a_queue_may_have_a_maximum_for_each_priority(hall: Hall, priority: int) -> None:
    hall.core.queue(b"q").maxima[priority] = 2
    terms = Terms(priority=priority, detached=True)
    for _ in range(2):
        job = hall.submit("a", terms=terms)
    with refused(QUEUE_FULL):
        hall.submit("b", terms=terms)
    other = Terms(priority=(priority + 1) % 3, detached=True)
    extra = hall.submit("c", terms=other)
    hall.core.cancel(extra)
    hall.core.cancel(job)
    hall.submit("b", terms=terms)


def test_a_maximum_of_nought_closes_the_queue(hall: Hall) -> None:
    hall.core.queue(b"q").maxima[NORMAL] = 0
    with refused(QUEUE_FULL):
        hall.submit("a")


def test_a_full_queue_can_still_be_joined(hall: Hall) -> None:
    job = hall.submit("a", key="k")
    hall.core.queue(b"q").maxima[NORMAL] = 1
    assert hall.submit("b", key="k") is job


def test_watchers_max() -> None:
    hall = Hall(Limits(watchers_max=2))
    ann, eve, eva = (hall.person(name) for name in ("ann", "eve", "eva"))
    job = hall.submit("a", by=ann, key="k")
    hall.submit("a", by=eve, key="k")
    with refused(HALL_FULL):
        hall.submit("a", by=eva, key="k", terms=BACKGROUND)
    with refused(HALL_FULL):
        hall.core.watch(job, eva)
    assert not job.terms.durable, "a refused join changes nothing"
    assert hall.core.counters.joined == 1
    hall.turn()


def test_abilities_max() -> None:
    hall = Hall(Limits(abilities_max=2))
    bob = hall.worker("bob", "p", "q")
    with refused(HALL_FULL):
        bob.can("r")
    bob.can("q", run_us=5)
    hall.core.cant_do(bob.me, b"p")
    bob.can("r")
    hall.turn()


def test_a_refusal_says_what_and_why() -> None:
    refusal = Refusal(HALL_FULL, "come back later")
    assert (refusal.reason, refusal.text) == ("hall_full", "come back later")
    assert str(refusal) == "hall_full: come back later"


def test_refused_submits_leave_nothing_behind() -> None:
    hall = Hall(Limits(jobs_max=1, payload_bytes_max=5, key_bytes_max=5, parents_max=1))
    hall.submit("a")
    ann = hall.person("ann")
    for name, key, parents in (
        ("too long", "", 0),
        ("b", "too long", 0),
        ("b", "k", 0),
        ("b", "k", 2),
    ):
        with pytest.raises(Refusal):
            hall.submit(name, "other", by=ann, key=key, parents=((b"q", b"x"),) * parents)
    assert len(hall.core.jobs) == 1
    assert ann.watching == {}
    assert hall.core.graph.expected == {}
    assert hall.core.queue(b"other").counts() == (0, 0, 0)
    assert hall.core.counters.submitted == 1
    hall.turn()
