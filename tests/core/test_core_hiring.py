"""A hired worker comes, is told to perform, and performs; every stage has its deadline, and a loss is counted
only when somebody had begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import HOUR_US, SECOND_US, Hall, Person, refused
from hiring_stories import (
    ANSWER_US,
    BUFFER_US,
    PAUSE_US,
    PERFORM_US,
    STAGE_NAMES,
    STAGES,
    WINDOW_US,
    Crier,
    bids,
    bring_to,
    crier,
    engagement_of,
    hire,
)

from hiringhall.core.errors import STALE_LEASE, WRONG_STATE
from hiringhall.core.leases import ARRIVED, CALLED, HIRED, PERFORMING, Engagement
from hiringhall.core.states import DONE, FAILED, LEASED, LOST, QUEUED, QUIT_TOO_OFTEN
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job

EACH_STAGE = pytest.mark.parametrize("stage", STAGES, ids=STAGE_NAMES)


def hired(
    hall: Hall, in_us: int = 0, terms: Terms | None = None, by: Person | None = None
) -> tuple[Crier, Person, Job, Engagement]:
    """Bob is hired for a."""
    market = crier(hall)
    job = hall.submit("a", by=by, terms=terms)
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    return market, bob, job, hire(hall, bob, job, in_us)


def test_start_perform_performing_done(hall: Hall) -> None:
    ann = hall.person("ann")
    _, bob, job, engagement = hired(hall, by=ann)
    hall.after(SECOND_US)
    assert hall.core.hiring.arrive(engagement)
    assert (engagement.stage, engagement.perform_us) == (CALLED, PERFORM_US)
    hall.after(ANSWER_US - 1)
    hall.core.hiring.perform(engagement)
    hall.turn()
    started_us = hall.core.now_us
    assert (job.attempts, job.started_us, engagement.stage) == (1, started_us, PERFORMING)
    assert engagement.expected_us == started_us + PERFORM_US
    hall.after(PERFORM_US - 1)
    assert job.state == LEASED
    hall.after(1)
    ann.hears("done a")
    bob.hears("revoked a")
    assert (job.state, job.worker_name) == (DONE, bob.me.name)
    assert not bob.me.leases


def test_the_time_to_perform(hall: Hall) -> None:
    """What the job says; else what was seen of others of its queue; else what the door says."""
    market = crier(hall)
    bob = hall.person("bob")
    said = hall.submit("said", terms=Terms(detached=True, takes_us=7 * SECOND_US))
    hall.turn()
    engagement = hire(hall, bob, said)
    assert hall.core.hiring.arrive(engagement)
    assert engagement.perform_us == 7 * SECOND_US
    hall.core.hiring.quit(engagement)
    hall.core.cancel(said)
    unknown = hall.submit("unknown")
    hall.turn()
    engagement = hire(hall, bob, unknown)
    assert hall.core.hiring.arrive(engagement)
    assert engagement.perform_us == PERFORM_US
    hall.core.hiring.quit(engagement)
    hall.core.cancel(unknown)
    for seconds in (4, 12):
        hall.submit("pulled")
        lease = hall.worker("carl").takes("pulled")
        hall.after(seconds * SECOND_US)
        hall.core.finish(lease, b"")
    typical = hall.submit("typical")
    hall.turn()
    engagement = hire(hall, bob, typical)
    assert hall.core.hiring.arrive(engagement)
    assert engagement.perform_us == 5 * SECOND_US
    market.heard.clear()


def test_what_the_hall_ended_by_the_clock_is_no_measure(hall: Hall) -> None:
    _, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, PERFORMING)
    hall.after(PERFORM_US)
    bob.hears("revoked a")
    assert (job.state, job.queue.average_run_us) == (DONE, 0)


# --- deadlines


def test_no_start_in_time(hall: Hall) -> None:
    market, bob, job, engagement = hired(hall, 3 * SECOND_US)
    hall.after(engagement.promised_us + BUFFER_US - hall.core.now_us - 1)
    market.hears()
    hall.after(1)
    bob.hears("revoked a")
    market.hears("announced a")
    assert (job.state, job.losses, job.attempts, job.tries) == (QUEUED, 0, 0, None)
    assert hall.core.counters.dismissed == 1
    with refused(STALE_LEASE):
        hall.core.hiring.arrive(engagement)
    hire(hall, bob, job)


def test_no_performing_in_time(hall: Hall) -> None:
    market, bob, job, engagement = hired(hall)
    assert hall.core.hiring.arrive(engagement)
    hall.after(ANSWER_US - 1)
    market.hears()
    hall.after(1)
    bob.hears("revoked a")
    market.hears("announced a")
    assert (job.state, job.losses, job.attempts) == (QUEUED, 0, 0)


@EACH_STAGE
def test_every_stage_ends_by_itself(hall: Hall, stage: int) -> None:
    """Nobody says another word: within its deadlines the worker is free and the job done or announced again."""
    market, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, stage)
    until_us = hall.core.now_us + (PERFORM_US if stage == PERFORMING else BUFFER_US + ANSWER_US)
    while job.lease is engagement:
        hall.after(hall.core.next_deadline() - hall.core.now_us)
        assert hall.core.now_us <= until_us
    assert bob.me.promise is None
    assert bob.heard[-1] == "revoked a"
    bob.heard.clear()
    assert job.state == (DONE if stage == PERFORMING else QUEUED)
    market.heard.clear()


@pytest.mark.parametrize("said", STAGES, ids=["hire", "start", "perform", "performing"])
@EACH_STAGE
def test_a_word_at_the_wrong_moment_is_refused(hall: Hall, stage: int, said: int) -> None:
    market, _, _, engagement = hired(hall)
    bring_to(hall, engagement, stage)
    words: dict[int, Callable[[], object]] = {
        HIRED: lambda: hall.core.auctions.bid(engagement.worker, engagement.job.id, 0, 0),
        ARRIVED: lambda: hall.core.hiring.arrive(engagement),
        CALLED: lambda: hall.core.hiring.call(engagement, SECOND_US),
        PERFORMING: lambda: hall.core.hiring.perform(engagement),
    }
    if said == stage + 1:
        return
    with refused(WRONG_STATE if said == HIRED else STALE_LEASE):
        words[said]()
    assert engagement.stage == stage
    market.hears()
    hall.turn()


# --- QUIT, and lost workers


@EACH_STAGE
def test_quit(hall: Hall, stage: int) -> None:
    market, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, stage)
    if stage == ARRIVED:
        engagement.begin_us = hall.core.now_us
    hall.core.hiring.quit(engagement)
    hall.turn()
    begun = int(stage == PERFORMING)
    assert (job.state, job.losses, job.attempts, len(job.tries or ())) == (QUEUED, 0, begun, begun)
    assert (hall.core.counters.lost, hall.core.counters.released) == (0, 1)
    market.hears("announced a")
    bob.hears()
    with refused(STALE_LEASE):
        hall.core.hiring.quit(engagement)
    hire(hall, bob, job)


@EACH_STAGE
def test_a_lost_connection(hall: Hall, stage: int) -> None:
    market, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, stage)
    if stage == ARRIVED:
        engagement.begin_us = hall.core.now_us
    bob.leaves()
    begun = int(stage == PERFORMING)
    assert (job.state, job.losses, job.attempts) == (QUEUED, begun, begun)
    assert job.tries == ([(job.started_us, hall.core.now_us, b"", LOST, "")] if begun else None)
    market.hears("announced a")
    hire(hall, hall.person("carl"), job)


def test_silence_loses_a_worker_that_said_so(hall: Hall) -> None:
    market, bob, job, engagement = hired(hall)
    hall.core.expect(bob.me, SECOND_US)
    bring_to(hall, engagement, PERFORMING)
    hall.after(SECOND_US)
    bob.hears("revoked a", "lost")
    market.hears("announced a")
    assert job.losses == 1


def test_a_job_that_loses_too_many(hall: Hall) -> None:
    ann = hall.person("ann")
    market, bob, job, engagement = hired(hall, terms=Terms(losses_max=2), by=ann)
    bring_to(hall, engagement, PERFORMING)
    bob.leaves()
    assert (job.state, job.losses) == (QUEUED, 1)
    carl = hall.person("carl")
    bring_to(hall, hire(hall, carl, job), PERFORMING)
    carl.leaves()
    assert (job.state, job.code) == (FAILED, LOST)
    ann.hears("failed a 125 its workers were lost 2 times")
    market.heard.clear()


def quit_while_performing(hall: Hall, person: Person, job: Job) -> None:
    engagement = hire(hall, person, job)
    bring_to(hall, engagement, PERFORMING)
    hall.core.hiring.quit(engagement)
    hall.turn()


def test_quits_are_no_losses_however_many_there_are(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, losses_max=1))
    hall.turn()
    bob = hall.person("bob")
    for _ in range(10):
        quit_while_performing(hall, bob, job)
        assert (job.state, job.losses) == (QUEUED, 0)
    assert market.heard == ["announced a"] * 11
    market.heard.clear()


def test_a_job_with_a_bound_fails_when_so_many_quit_it(hall: Hall) -> None:
    market = crier(hall)
    ann, bob = hall.person("ann"), hall.person("bob")
    job = hall.submit("a", terms=Terms(quits_max=2), by=ann)
    hall.turn()
    quit_while_performing(hall, bob, job)
    for stage in STAGES[:3]:
        engagement = hire(hall, bob, job)
        bring_to(hall, engagement, stage)
        if stage == ARRIVED:
            engagement.begin_us = hall.core.now_us
        hall.core.hiring.quit(engagement)
        hall.turn()
        assert job.state == QUEUED, "who has not begun may quit as often as it likes"
    quit_while_performing(hall, bob, job)
    assert (job.state, job.code, job.losses) == (FAILED, QUIT_TOO_OFTEN, 0)
    ann.hears("failed a 122 its workers quit 2 times")
    market.heard.clear()


@EACH_STAGE
def test_cancelled(hall: Hall, stage: int) -> None:
    ann = hall.person("ann")
    _, bob, job, engagement = hired(hall, by=ann)
    bring_to(hall, engagement, stage)
    hall.core.cancel(job, b"no more")
    ann.hears("cancelled a no more")
    bob.hears("revoked a")
    assert job.worker_name == (bob.me.name if stage == PERFORMING else b"")
    assert bob.me.promise is None
    hall.after(HOUR_US)


def test_who_never_began_is_not_named(hall: Hall) -> None:
    _, bob, job, engagement = hired(hall)
    hall.core.introduce(bob.me, b"bob")
    assert job.worker_name == b""
    bring_to(hall, engagement, PERFORMING)
    assert job.worker_name == b"bob"
    hall.core.hiring.quit(engagement)
    carl = hall.person("carl")
    hall.core.introduce(carl.me, b"carl")
    hall.turn()
    hire(hall, carl, job)
    assert job.worker_name == b"bob"
    hall.people[0].heard.clear()


def test_the_progress_of_an_earlier_attempt_is_forgotten(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a")
    lease = hall.worker("carl").takes("a")
    hall.core.progress(lease, 5, 10)
    hall.core.release(lease)
    hall.turn()
    market.hears("announced a")
    bring_to(hall, hire(hall, hall.person("bob"), job), PERFORMING)
    assert (job.numerator, job.denominator) == (0, 0)


# --- the next place


def test_two_auctions_and_one_worker(hall: Hall) -> None:
    market = crier(hall)
    first, second = hall.submit("a"), hall.submit("b")
    hall.turn()
    market.hears("announced a", "announced b")
    bob = hall.person("bob")
    bids(bob, first)
    bids(bob, second)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    assert second.state == QUEUED
    with refused(WRONG_STATE):
        bids(bob, second)
    hall.after(PAUSE_US)
    market.hears("announced b")


@pytest.mark.parametrize("stage", [PERFORMING, None], ids=["performing", "quit"])
def test_a_hire_voids_earlier_bids_also_when_the_next_place_is_free_again(
    hall: Hall, stage: int | None
) -> None:
    market = crier(hall)
    first = hall.submit("a")
    hall.turn()
    market.hears("announced a")
    hall.after(WINDOW_US // 2)
    second = hall.submit("b")
    hall.turn()
    market.hears("announced b")
    ann, bob = hall.person("ann"), hall.person("bob")
    bids(ann, first)
    bids(ann, second)
    bids(bob, second, SECOND_US)
    hall.after(WINDOW_US // 2)
    ann.hears("hired a")
    if stage is None:
        hall.core.hiring.quit(engagement_of(first))
    else:
        bring_to(hall, engagement_of(first), stage)
    assert ann.me.promise is None
    hall.after(WINDOW_US // 2)
    ann.hears()
    bob.hears("hired b")
    market.hears(*(["announced a"] if stage is None else []))


def test_who_was_hired_before_can_bid_again(hall: Hall) -> None:
    market, bob, _, engagement = hired(hall)
    bring_to(hall, engagement, PERFORMING)
    second = hall.submit("b")
    hall.turn()
    market.hears("announced b")
    bids(bob, second, SECOND_US)
    hall.after(WINDOW_US)
    bob.hears("hired b")


def test_hired_while_performing(hall: Hall) -> None:
    market, bob, first, engagement = hired(hall)
    bring_to(hall, engagement, PERFORMING)
    second = hall.submit("b")
    third = hall.submit("c")
    hall.turn()
    market.hears("announced b", "announced c")
    bids(bob, third, 10 * SECOND_US)
    following = hire(hall, bob, second, 10 * SECOND_US)
    assert bob.me.leases == {first: engagement}
    assert bob.me.promise is following
    assert third.state == QUEUED
    hall.core.hiring.quit(engagement)
    assert bob.me.promise is following, "who stops working keeps what it is to do next"
    assert second.state == LEASED


def test_a_place_that_is_free_again_has_a_rested_job_announced(hall: Hall) -> None:
    market = crier(hall)
    first, second = hall.submit("a"), hall.submit("b")
    hall.turn()
    market.hears("announced a", "announced b")
    bob = hall.person("bob")
    bids(bob, second)
    engagement = hire(hall, bob, first)
    bring_to(hall, engagement, PERFORMING)
    hall.after(1)
    market.hears("announced b")
    hire(hall, bob, second, PERFORM_US)


@pytest.mark.parametrize("how", ["quits", "dismissed", "cancelled"])
def test_a_place_that_becomes_free_without_work(hall: Hall, how: str) -> None:
    market = crier(hall, pause_us=HOUR_US, pause_max_us=HOUR_US)
    first, second = hall.submit("a"), hall.submit("b")
    hall.turn()
    market.hears("announced a", "announced b")
    bob = hall.person("bob")
    bids(bob, second)
    engagement = hire(hall, bob, first)
    if how == "quits":
        hall.core.hiring.quit(engagement)
    elif how == "dismissed":
        hall.after(BUFFER_US)
        bob.hears("revoked a")
    else:
        hall.core.cancel(first)
        bob.hears("revoked a")
    hall.turn()
    hall.after(1)
    assert "announced b" in market.heard
    market.heard.clear()


def test_two_places_that_become_free_have_two_jobs_announced(hall: Hall) -> None:
    market = crier(hall, pause_us=HOUR_US, pause_max_us=HOUR_US)
    jobs = [hall.submit(name) for name in "abcde"]
    hall.turn()
    bob, carl = hall.person("bob"), hall.person("carl")
    bids(bob, jobs[0])
    bids(carl, jobs[1])
    hall.after(WINDOW_US)
    bob.hears("hired a")
    carl.hears("hired b")
    market.heard.clear()
    for job in jobs[:2]:
        bring_to(hall, engagement_of(job), PERFORMING)
    hall.after(1)
    market.hears("announced c", "announced d")


# --- time left


def test_a_worker_that_comes_too_late_to_finish_is_sent_away(hall: Hall) -> None:
    market = crier(hall)
    job = hall.submit("a", terms=Terms(detached=True, takes_us=60 * SECOND_US))
    hall.turn()
    market.hears("announced a")
    bob = hall.person("bob")
    bids(bob, job)
    hall.core.needs.stay(bob.me, 61 * SECOND_US)
    hall.after(WINDOW_US)
    bob.hears("hired a")
    hall.after(SECOND_US)
    assert not hall.core.hiring.arrive(engagement_of(job)), "it has 59.9 s left"
    hall.turn()
    bob.hears("revoked a")
    market.hears("announced a")
    assert (job.state, job.losses) == (QUEUED, 0)


# --- the hall closes


def test_who_performs_may_go_on_while_the_hall_closes(hall: Hall) -> None:
    _, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, PERFORMING)
    hall.core.close()
    hall.after(PERFORM_US)
    bob.hears("revoked a")
    assert job.state == DONE


@EACH_STAGE
def test_taken_back_because_the_hall_closes(hall: Hall, stage: int) -> None:
    _, bob, job, engagement = hired(hall)
    bring_to(hall, engagement, stage)
    if stage == ARRIVED:
        engagement.begin_us = hall.core.now_us
    hall.core.close()
    hall.core.recall(engagement)
    bob.hears("revoked a")
    hall.turn()
    assert (job.state, job.losses, job.attempts) == (QUEUED, 0, int(stage == PERFORMING))
    assert hall.core.counters.released == 1
    assert not bob.me.leases
