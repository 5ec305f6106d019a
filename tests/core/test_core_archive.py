"""Ended jobs that are still known: found, named as parents, retried; and how few of them are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, FOREGROUND, Hall, Person, refused

from hiringhall.core.errors import STORE_DOWN, WRONG_STATE
from hiringhall.core.limits import Limits
from hiringhall.core.states import DONE, FAILED, QUEUED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job


def fail(hall: Hall, worker: Person, name: str) -> None:
    hall.core.fail(worker.takes(name), 5, b"broken")
    hall.turn()


def dead_letter(hall: Hall, name: str = "a", key: str = "k") -> Job:
    job = hall.submit(name, key=key, terms=BACKGROUND)
    fail(hall, hall.worker("bob"), name)
    return job


# --- retry


@pytest.mark.parametrize("committed", [True, False])
def test_a_dead_letter_gets_another_life(hall: Hall, committed: bool) -> None:
    job = dead_letter(hall)
    if committed:
        hall.commit()
    hall.core.retry(job)
    hall.turn()
    assert (job.state, job.failures, job.losses, job.code, job.result) == (QUEUED, 0, 0, 0, b"")
    assert hall.core.find_key(b"q", b"k") is job
    assert hall.core.jobs == {job.id: job}
    carl = hall.worker("carl")
    carl.sleeps()
    hall.turn()
    carl.hears("woken")
    hall.core.finish(carl.takes("a"), b"at last")
    hall.turn()
    assert job.state == DONE
    with refused(WRONG_STATE):
        hall.core.retry(job)


def test_a_retried_job_stands_behind_those_who_wait(hall: Hall) -> None:
    job = dead_letter(hall)
    hall.submit("b")
    hall.core.retry(job)
    bob = hall.worker("bob")
    bob.takes("b")
    bob.takes("a")


def test_a_retried_job_may_fail_as_often_as_a_new_one(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=Terms(durable=True, detached=True, failures_max=1, backoff_us=1))
    for _ in range(2):
        for _ in range(2):
            fail(hall, bob, "a")
            hall.after(1)
        assert job.state == FAILED
        hall.core.retry(job)
    assert job.attempts == 4


def test_a_dead_letter_nobody_watches_can_be_retried_whatever_its_terms(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, terms=Terms(durable=True))
    fail(hall, bob, "a")
    ann.hears("failed a 5 broken")
    hall.commit()
    hall.core.retry(job)
    hall.turn()
    # It runs because somebody asked for it: a lost worker must not make it vanish.
    bob.takes("a")
    bob.leaves()
    assert job.state == QUEUED


def test_a_foreground_job_that_failed_is_no_dead_letter(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, terms=FOREGROUND)
    fail(hall, bob, "a")
    ann.hears("failed a 5 broken")
    assert hall.core.find(job.id) is None
    with refused(WRONG_STATE):
        hall.core.retry(job)


def test_the_live_job_with_its_key_stands_for_a_dead_letter(hall: Hall) -> None:
    job = dead_letter(hall)
    other = hall.submit("again", key="k", terms=BACKGROUND)
    with refused(WRONG_STATE):
        hall.core.retry(job)
    assert job.state == FAILED
    hall.core.cancel(other)
    hall.core.retry(job)
    hall.turn()


def test_no_retry_while_the_store_is_in_trouble(hall: Hall) -> None:
    job = dead_letter(hall)
    hall.core.table.store_trouble = "disk full"
    with refused(STORE_DOWN):
        hall.core.retry(job)
    assert job.state == FAILED


def test_a_dead_letter_outlives_its_queue(hall: Hall) -> None:
    job = dead_letter(hall)
    for person in hall.people:
        person.leaves()
    hall.core.length_limits.drop(hall.core.queue(b"q"))
    hall.core.retry(job)
    hall.turn()
    assert job.queue is hall.core.queue(b"q")
    hall.worker("carl").takes("a")


# --- bounds


def ended(hall: Hall, count: int, size: int = 1) -> list[Job]:
    jobs = [hall.submit("x" * size, terms=BACKGROUND) for _ in range(count)]
    for job in jobs:
        hall.core.cancel(job)
    return jobs


def failed(hall: Hall, count: int, size: int) -> list[Job]:
    bob = hall.worker("bob")
    jobs = [hall.submit("x" * size, terms=BACKGROUND) for _ in range(count)]
    for _ in jobs:
        hall.core.fail(bob.takes("x" * size))
    return jobs


def test_the_latest_are_kept_and_the_oldest_go_first() -> None:
    hall = Hall(Limits(ended_max=10))
    jobs = ended(hall, 25)
    assert [hall.core.find(job.id) is job for job in jobs] == [False] * 15 + [True] * 10
    assert len(hall.core.archive) == 10
    hall.turn()


def test_of_many_some_go_at_once_and_still_the_oldest_first() -> None:
    hall = Hall(Limits(ended_max=640))
    jobs = ended(hall, 2000)
    kept = len(hall.core.archive)
    assert 630 <= kept <= 640
    assert [hall.core.find(job.id) is job for job in jobs] == [False] * (2000 - kept) + [True] * kept
    hall.turn()


def test_payloads_are_bounded_in_bytes() -> None:
    hall = Hall(Limits(ended_bytes_max=1000))
    jobs = failed(hall, 25, size=100)
    assert [hall.core.find(job.id) is job for job in jobs] == [False] * 15 + [True] * 10
    hall.turn()


def test_only_what_can_be_retried_counts_with_its_bytes() -> None:
    hall = Hall(Limits(ended_bytes_max=1000))
    jobs = ended(hall, 25, size=100)
    assert all(hall.core.find(job.id) is job for job in jobs)
    hall.commit()
    assert all(job.payload == b"" for job in jobs), "it is gone as soon as the end is on disk"


@pytest.mark.parametrize(
    ("key", "detached", "known"),
    [("k", True, True), ("", True, False), ("k", False, False)],
)
def test_a_job_in_memory_that_can_be_asked_for_is_known_when_it_has_ended(
    hall: Hall, key: str, detached: bool, known: bool
) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, key=key, terms=Terms(detached=detached))
    hall.core.finish(bob.takes("a"), b"")
    assert job.state == DONE
    assert len(ann.heard) == 1
    ann.heard.clear()
    assert (hall.core.find(job.id) is job) == known
    child = hall.submit("child", parents=((b"q", b"k"),))
    hall.turn()
    assert (child.state == QUEUED) == known
    assert (job.payload == b"") == known, "what cannot be retried is not kept"


def test_one_job_larger_than_all_is_not_kept() -> None:
    hall = Hall(Limits(ended_bytes_max=1000))
    (job,) = failed(hall, 1, size=1001)
    assert hall.core.find(job.id) is None
    hall.turn()


def test_results_are_bounded_too() -> None:
    hall = Hall(Limits(ended_bytes_max=1000))
    bob = hall.worker("bob")
    parents = [hall.submit("p", terms=Terms(detached=True)) for _ in range(50)]
    hall.submit("child", parents=tuple(parent.id for parent in parents))
    for _ in parents:
        hall.core.finish(bob.takes("p"), b"r" * 100)
    hall.turn()
    kept = [job for job in parents if hall.core.find(job.id) is not None]
    assert sum(len(job.payload) + len(job.result) for job in kept) <= 1000


def test_a_dead_letter_that_fails_again_is_the_newest_of_all() -> None:
    hall = Hall(Limits(ended_max=2))
    bob = hall.worker("bob")
    first = hall.submit("first", terms=BACKGROUND)
    fail(hall, bob, "first")
    hall.core.retry(first)
    second = hall.submit("second", terms=BACKGROUND)
    fail(hall, bob, "first")
    fail(hall, bob, "second")
    hall.core.retry(second)
    fail(hall, bob, "second")
    assert hall.core.find(second.id) is second
    assert hall.core.find(first.id) is first, "there is room for two"


def test_an_ended_job_without_its_payload_keeps_its_dead_letter_whole(hall: Hall) -> None:
    job = dead_letter(hall)
    other = hall.submit("b", terms=BACKGROUND)
    hall.core.finish(hall.people[0].takes("b"), b"long result")
    hall.commit()
    assert job.payload == b"a", "it takes the payload to run it again"
    assert (other.payload, other.result) == (b"", b""), "the history has it"


def test_the_name_of_an_ended_job_finds_the_latest(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in ("old", "new"):
        latest = hall.submit(name, key="k", terms=BACKGROUND)
        hall.core.finish(bob.takes(name), b"")
    assert hall.core.archive.find_key(b"q", b"k") is latest
    assert hall.core.find_key(b"q", b"k") is None
