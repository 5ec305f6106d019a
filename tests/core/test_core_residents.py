"""Residents: workers of one queue that are known by their name and not by a connection.

They come when they are named first, and go when they say so; nobody else can end what they hold.
"""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Hall, name_of, refused
from resident_stories import WATCHED_OVER, resident, submit_all, take

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STALE_LEASE, TOO_LARGE, WRONG_STATE
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DONE, FAILED, LOST, QUEUED
from hiringhall.core.terms import HIGH, LOW, NORMAL, Terms


def waiting(hall: Hall, queue: str = "q") -> list[str]:
    return [name_of(job) for lane in hall.core.queue(queue.encode()).lanes for job in lane.waiting()]


# --- who they are


def test_a_resident_is_made_once_and_found_by_queue_and_name(hall: Hall) -> None:
    assert hall.core.residents.find(b"q", b"bob") is None
    bob = resident(hall, "bob")
    assert resident(hall, "bob") is bob
    assert hall.core.residents.find(b"q", b"bob") is bob
    assert (bob.name, bob.resident, list(bob.abilities)) == (
        b"bob",
        hall.core.queue(b"q"),
        [hall.core.queue(b"q")],
    )
    others = [resident(hall, "carl"), resident(hall, "bob", "p")]
    assert len({id(worker) for worker in (bob, *others)}) == 3
    assert hall.core.residents.find(b"p", b"carl") is None
    assert hall.core.queue(b"q").counts() == (0, 0, 2)
    hall.turn()


def test_looking_for_a_resident_makes_neither_queue_nor_worker(hall: Hall) -> None:
    hall.core.residents.find(b"nowhere", b"bob")
    assert hall.core.queues == {}
    assert hall.core.workers == {}


@pytest.mark.parametrize(
    ("queue", "name", "reason"),
    [
        (b"q", b"", BAD_REQUEST),
        (b"q", b"n" * 11, BAD_REQUEST),
        (b"", b"bob", BAD_REQUEST),
        (b"n" * 11, b"bob", TOO_LARGE),
    ],
)
def test_a_resident_without_a_proper_name_or_queue_is_refused(queue: bytes, name: bytes, reason: str) -> None:
    hall = Hall(Limits(key_bytes_max=10, queue_name_bytes_max=10))
    with refused(reason):
        hall.core.residents.get(queue, name)
    assert (hall.core.table.residents, hall.core.workers, hall.core.queues) == ({}, {}, {})
    hall.core.residents.get(b"n" * 10, b"n" * 10)
    hall.turn()


def test_a_resident_takes_only_from_its_queue(hall: Hall) -> None:
    hall.submit("elsewhere", "p")
    hall.submit("here")
    take(hall, "bob", "here")
    assert hall.core.take(resident(hall, "bob")) is None
    assert hall.core.take(resident(hall, "bob"), b"p") is None
    hall.turn()


def test_a_resident_has_many_jobs_and_ends_them_in_any_order(hall: Hall) -> None:
    jobs = submit_all(hall, "abc")
    for name in "abc":
        take(hall, "bob", name)
    bob = resident(hall, "bob")
    for job in (jobs[1], jobs[0], jobs[2]):
        hall.core.finish(hall.core.find_lease(bob, job.id), b"")
    assert [(job.state, job.worker_name) for job in jobs] == [(DONE, b"bob")] * 3
    with refused(STALE_LEASE):
        hall.core.find_lease(bob, jobs[0].id)
    hall.turn()


def test_one_resident_cannot_end_what_another_has(hall: Hall) -> None:
    (job,) = submit_all(hall, "a")
    take(hall, "bob", "a")
    with refused(STALE_LEASE):
        hall.core.find_lease(resident(hall, "carl"), job.id)


# --- going


@pytest.mark.parametrize("terms", [BACKGROUND, Terms(detached=True)], ids=["durable", "in memory"])
def test_who_retires_gives_everything_back_in_order_and_without_blame(hall: Hall, terms: Terms) -> None:
    jobs = submit_all(hall, "abcde", terms)
    for name in "abc":
        take(hall, "bob", name)
    take(hall, "carl", "d")
    bob = resident(hall, "bob")
    hall.core.residents.retire(bob)
    hall.turn()
    assert waiting(hall) == ["a", "b", "c", "e"]
    assert [(job.state, job.losses) for job in jobs[:3]] == [(QUEUED, 0)] * 3
    assert (hall.core.counters.lost, hall.core.counters.released) == (0, 3)
    assert hall.core.residents.find(b"q", b"bob") is None
    assert list(hall.core.table.residents) == [(b"q", b"carl")]
    assert hall.core.queue(b"q").counts() == (5, 1, 1)
    assert resident(hall, "bob") is not bob
    take(hall, "bob", "a")


def test_who_retires_keeps_the_priorities(hall: Hall) -> None:
    for priority, name in ((LOW, "l"), (HIGH, "h"), (NORMAL, "n")):
        hall.submit(name, terms=Terms(priority=priority, detached=True))
        hall.submit(name + "2", terms=Terms(priority=priority, detached=True))
    for name in ("h", "h2", "n", "n2", "l"):
        take(hall, "bob", name)
    hall.core.residents.retire(resident(hall, "bob"))
    hall.turn()
    assert waiting(hall) == ["h", "h2", "n", "n2", "l", "l2"]


def test_what_is_given_back_wakes_a_sleeper(hall: Hall) -> None:
    carl = hall.worker("carl")
    submit_all(hall, "a")
    take(hall, "bob", "a")
    carl.sleeps()
    hall.core.residents.retire(resident(hall, "bob"))
    hall.turn()
    carl.hears("woken")
    carl.takes("a")


def test_a_foreground_job_that_nobody_waits_for_ends_with_its_resident(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann)
    take(hall, "bob", "a")
    ann.leaves()
    hall.core.residents.retire(resident(hall, "bob"))
    hall.turn()
    assert job.state == CANCELLED


def test_a_worker_with_a_connection_may_retire_too(hall: Hall) -> None:
    bob = hall.worker("bob", "p", "q")
    jobs = [hall.submit("a", "p"), hall.submit("b", "q")]
    bob.takes("a")
    bob.takes("b")
    bob.sleeps()
    hall.core.residents.retire(bob.me)
    hall.turn()
    bob.hears()
    assert bob.worker is None
    assert [(job.state, job.losses) for job in jobs] == [(QUEUED, 0)] * 2
    bob.can("p", "q").takes("a")


def test_who_retires_twice_is_gone_once(hall: Hall) -> None:
    bob, carl = resident(hall, "bob"), resident(hall, "carl")
    hall.core.residents.retire(bob)
    hall.core.residents.retire(bob)
    hall.turn()
    assert list(hall.core.table.residents.values()) == [carl]


# --- losses


def test_a_silent_resident_loses_its_job_and_stays(hall: Hall) -> None:
    (job,) = submit_all(hall, "a", WATCHED_OVER)
    for losses in (1, 2):
        take(hall, "bob", "a")
        hall.after(10 * SECOND_US)
        assert (job.state, job.losses) == (QUEUED, losses)
    take(hall, "carl", "a")
    hall.after(10 * SECOND_US)
    assert (job.state, job.code, job.losses) == (FAILED, LOST, 3)
    assert len(hall.core.table.residents) == 2


def test_a_resident_that_is_expected_to_speak_is_lost_with_all_it_has(hall: Hall) -> None:
    jobs = submit_all(hall, "ab")
    take(hall, "bob", "a")
    take(hall, "bob", "b")
    hall.core.expect(resident(hall, "bob"), 100)
    hall.after(100)
    assert hall.core.table.residents == {}
    assert [(job.state, job.losses) for job in jobs] == [(QUEUED, 1)] * 2
    assert waiting(hall) == ["a", "b"]


# --- how many there may be


def test_residents_max_makes_room_for_a_newcomer_by_forgetting_the_idle() -> None:
    hall = Hall(Limits(residents_max=3))
    submit_all(hall, "ab")
    take(hall, "bob", "a")
    idle = [resident(hall, name) for name in ("idle", "idler")]
    hall.turn()
    resident(hall, "dora")
    hall.turn()
    assert list(hall.core.table.residents) == [(b"q", b"bob"), (b"q", b"dora")]
    assert all(worker not in hall.core.workers for worker in idle)
    assert hall.core.queue(b"q").counts()[2] == 2
    assert hall.core.take(idle[0]) is None, "it is nobody until it says its name again"
    assert resident(hall, "idle") is not idle[0]
    take(hall, "idle", "b")
    hall.turn()


def test_residents_max_refuses_when_all_have_something() -> None:
    hall = Hall(Limits(residents_max=2))
    jobs = submit_all(hall, "abc")
    take(hall, "bob", "a")
    take(hall, "carl", "b")
    with refused(HALL_FULL):
        hall.core.residents.get(b"new queue", b"dora")
    assert b"new queue" not in hall.core.queues
    assert len(hall.core.table.residents) == 2
    assert resident(hall, "bob").leases, "who is known is still served"
    hall.core.finish(hall.core.find_lease(resident(hall, "bob"), jobs[0].id), b"")
    hall.after(SECOND_US)
    take(hall, "dora", "c")
    hall.turn()
    assert list(hall.core.table.residents) == [(b"q", b"carl"), (b"q", b"dora")]


def test_the_idle_are_not_looked_for_over_and_over() -> None:
    hall = Hall(Limits(residents_max=1))
    (job,) = submit_all(hall, "a")
    lease = take(hall, "bob", "a")
    with refused(HALL_FULL):
        resident(hall, "carl")
    hall.core.finish(lease, b"")
    assert job.state == DONE
    with refused(HALL_FULL):
        resident(hall, "carl")
    hall.after(SECOND_US)
    assert resident(hall, "carl").name == b"carl"
    hall.turn()


def test_a_queue_with_a_resident_is_in_use() -> None:
    hall = Hall(Limits(queues_max=2))
    bob = resident(hall, "bob")
    with refused(WRONG_STATE):
        hall.core.length_limits.drop(hall.core.queue(b"q"))
    hall.core.queue(b"idle")
    hall.core.queue(b"p")
    assert list(hall.core.queues) == [b"q", b"p"], "the idle one made room"
    hall.turn()
    hall.core.residents.retire(bob)
    hall.core.length_limits.drop(hall.core.queue(b"q"))
    hall.turn()
    assert resident(hall, "bob").resident is hall.core.queue(b"q")
    hall.turn()
