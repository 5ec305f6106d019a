"""Why a job waits, in words that are true: who is at work, who has bid, and whose bid did not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import HOUR_US, SECOND_US, Hall, refused
from hiring_stories import PERFORM_US, WINDOW_US, bids, bring_to, crier, hire

from hiringhall.core.errors import WRONG_STATE
from hiringhall.core.leases import PERFORMING
from hiringhall.core.reasons import SITUATIONS, situation, why
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

NOBODY = "it is announced and has no bids"
AT_WORK = "all workers that can do it are busy"


def announced(hall: Hall, terms: Terms | None = None) -> Job:
    market = crier(hall)
    job = hall.submit("a", terms=terms)
    hall.turn()
    market.hears("announced a")
    return job


def test_an_able_worker_that_does_not_bid_is_not_said_to_be_at_work(hall: Hall) -> None:
    market = crier(hall)
    hall.submit("first")
    hall.turn()
    bob = hall.person("bob")
    engagement = hire(hall, bob, next(iter(hall.core.jobs.values())))
    bring_to(hall, engagement, PERFORMING)
    job = hall.submit("a")
    hall.turn()
    assert why(hall.core, job) == AT_WORK
    hall.after(PERFORM_US)
    bob.hears("revoked first")
    assert why(hall.core, job) == NOBODY
    market.heard.clear()


def test_a_bid_below_the_skill_is_not_said_to_be_none(hall: Hall) -> None:
    job = announced(hall, Terms(detached=True, skill=5))
    assert why(hall.core, job) == NOBODY
    bob, carl = hall.person("bob"), hall.person("carl")
    for person, skill in ((carl, 3), (bob, 2)):
        with refused(WRONG_STATE):
            bids(person, job, skill=skill)
    assert why(hall.core, job) == "it is announced; it needs skill 5, and the best bid for it had skill 3"
    bids(bob, job, skill=6)
    assert why(hall.core, job) == "it is announced and has bids of 1 worker"


@pytest.mark.parametrize("lack", ["comes too late", "leaves too early"])
def test_a_bid_without_the_time_is_not_said_to_be_none(hall: Hall, lack: str) -> None:
    job = announced(hall)
    bob = hall.person("bob")
    if lack == "leaves too early":
        hall.core.needs.stay(bob.me, SECOND_US)
    with refused(WRONG_STATE):
        bids(bob, job, 2 * HOUR_US if lack == "comes too late" else 0)
    said = "it is announced; the workers that bid come too late or have too little time left"
    assert why(hall.core, job) == said


def test_a_job_is_promised_until_its_worker_begins(hall: Hall) -> None:
    job = announced(hall)
    bob = hall.person("bob")
    bids(bob, job)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    assert why(hall.core, job) == "a worker was hired for it and has not begun"
    assert situation(hall.core, job) == "promised"


def test_a_free_worker_that_does_not_ask_is_not_said_to_be_at_work(hall: Hall) -> None:
    carl = hall.worker("carl")
    job = hall.submit("a")
    hall.turn()
    assert why(hall.core, job) == "1 free worker could do it, but none has asked for work"
    carl.sleeps()
    hall.turn()
    carl.hears("woken")
    assert why(hall.core, job) == "a worker was woken for it and has not asked for it yet"
    second = hall.submit("b")
    carl.takes("a")
    assert why(hall.core, second) == AT_WORK


def test_a_situation_follows_a_job_through_its_life(hall: Hall) -> None:
    met: list[str] = []

    def note() -> None:
        hall.turn()
        met.append(situation(hall.core, job))

    terms = Terms(detached=True, durable=True, failures_max=3, backoff_us=12 * SECOND_US)
    parent = hall.submit("parent", queue="other")
    job = hall.submit("a", parents=(parent.id,), terms=terms, due_us=hall.core.now_us + SECOND_US)
    note()
    hall.core.cancel(parent)
    hall.turn()
    assert situation(hall.core, job) == "failed", "as its terms say"
    hall.core.retry(job)
    note()
    carl = hall.worker("carl")
    note()
    hall.core.pause_queue(job.queue.name)
    note()
    hall.core.resume_queue(job.queue.name)
    lease = carl.takes("a")
    note()
    hall.core.fail(lease)
    note()
    assert why(hall.core, job) == "attempt 1 of 4 failed; it is tried again in 12 s"
    hall.after(12 * SECOND_US)
    hall.core.release(carl.takes("a"), delay_us=SECOND_US)
    note()
    assert why(hall.core, job) == "it is due in 1 s"
    hall.after(SECOND_US)
    hall.core.finish(carl.takes("a"), b"")
    note()
    assert met == [
        "held",
        "no_workers",
        "ready",
        "paused",
        "running",
        "backoff",
        "delayed",
        "done",
    ]
    assert set(met) < set(SITUATIONS)


def test_an_announced_job_is_not_said_to_lack_workers(hall: Hall) -> None:
    job = announced(hall)
    assert situation(hall.core, job) == "announced"
    hall.after(WINDOW_US)
    assert situation(hall.core, job) == "announced", "it is announced again later"
    hall.core.pause_queue(job.queue.name)
    assert situation(hall.core, job) == "paused"


def test_the_oldest_ready_job_is_found_behind_one_that_came_back(hall: Hall) -> None:
    carl = hall.worker("carl")
    hall.submit("a")
    second = hall.submit("b")
    ready_us = second.queued_us
    assert second.queue.oldest_us() == ready_us
    lease = carl.takes("a")
    hall.after(SECOND_US)
    hall.core.release(lease)
    hall.turn()
    assert lease.job.queued_us == ready_us + SECOND_US
    assert second.queue.oldest_us() == ready_us
    carl.takes("a")
    carl.takes("b")
    assert second.queue.oldest_us() == 0


def test_a_queue_counts_what_waits_for_parents_apart_from_what_is_delayed(hall: Hall) -> None:
    parent = hall.submit("parent")
    child = hall.submit("child", parents=(parent.id,))
    hall.submit("later", due_us=hall.core.now_us + SECOND_US)
    queue = parent.queue
    hall.turn()
    assert (queue.held, queue.delayed, queue.ready) == (1, 1, 1)
    hall.core.cancel(child)
    hall.turn()
    assert (queue.held, queue.delayed, queue.cancelled) == (0, 1, 1)
