"""Every legal move of a job is a story; every other move breaks the law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Hall, Person, refused
from hiring_stories import WINDOW_US, bids, crier

from hiringhall.core.errors import WRONG_STATE, BrokenLaw
from hiringhall.core.jobs import JobSpec
from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, MOVES, QUEUED, STATE_NAMES
from hiringhall.core.terms import Terms
from hiringhall.core.timers import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job

ALL_STATES = (HELD, DELAYED, QUEUED, LEASED, DONE, FAILED, CANCELLED)


# --- how a story brings a job into each state


def held(hall: Hall, ann: Person) -> Job:
    return hall.submit("a", by=ann, parents=((b"q", b"unborn"),))


def delayed(hall: Hall, ann: Person) -> Job:
    return hall.submit("a", by=ann, due_us=hall.core.now_us + SECOND_US)


def queued(hall: Hall, ann: Person) -> Job:
    return hall.submit("a", by=ann)


def leased(hall: Hall, ann: Person) -> Job:
    job = hall.submit("a", by=ann, terms=Terms(failures_max=1))
    hall.worker("bob").takes("a")
    return job


def done(hall: Hall, ann: Person) -> Job:
    job = leased(hall, ann)
    assert job.lease is not None
    hall.core.finish(job.lease, b"fine")
    ann.hears("done a fine")
    return job


def failed(hall: Hall, ann: Person) -> Job:
    job = hall.submit("a", by=ann, terms=BACKGROUND)
    hall.core.fail(hall.worker("bob").takes("a"), 7, b"no")
    ann.hears("failed a 7 no")
    return job


def cancelled(hall: Hall, ann: Person) -> Job:
    job = queued(hall, ann)
    hall.core.cancel(job, b"why not")
    ann.hears("cancelled a why not")
    return job


STATES: dict[int, Callable[[Hall, Person], Job]] = {
    HELD: held,
    DELAYED: delayed,
    QUEUED: queued,
    LEASED: leased,
    DONE: done,
    FAILED: failed,
    CANCELLED: cancelled,
}


@pytest.mark.parametrize("state", ALL_STATES, ids=STATE_NAMES)
def test_every_state_is_reached(hall: Hall, state: int) -> None:
    job = STATES[state](hall, hall.person("ann"))
    hall.turn()
    assert job.state == state
    assert job.ended == (state >= DONE)
    if not job.ended:
        hall.core.cancel(job)
        hall.people[0].hears("cancelled a")
        for person in hall.people[1:]:
            person.hears("revoked a")


# --- how a job leaves each state


def parent_comes_and_is_done(hall: Hall, job: Job) -> None:
    del job
    hall.submit("parent", key="unborn")
    hall.core.finish(hall.worker("carl").takes("parent"), b"")


def parent_is_done_before_the_child_is_due(hall: Hall, job: Job) -> None:
    job.due_us = hall.core.now_us + SECOND_US
    parent_comes_and_is_done(hall, job)


def parent_comes_and_fails(hall: Hall, job: Job) -> None:
    del job
    hall.submit("parent", key="unborn")
    hall.core.fail(hall.worker("carl").takes("parent"))


def it_is_debounced_and_submitted_again(hall: Hall, job: Job) -> None:
    hall.core.table.postpone(job, hall.core.now_us + SECOND_US)


def it_has_to_wait_for_one_more(hall: Hall, job: Job) -> None:
    hall.core.dependencies.depend(job, ((b"q", b"one more"),))


def time_passes(hall: Hall, job: Job) -> None:
    del job
    hall.after(SECOND_US)


def somebody_cancels(hall: Hall, job: Job) -> None:
    hall.core.cancel(job)


def a_worker_takes_it(hall: Hall, job: Job) -> None:
    del job
    hall.worker("carl").takes("a")


def somebody_is_hired_ahead_of_time(hall: Hall, job: Job) -> None:
    market = crier(hall, ahead_us=SECOND_US)
    hall.after(1)
    market.hears("announced a")
    carl = hall.person("carl")
    bids(carl, job)
    hall.after(WINDOW_US)
    carl.hears("hired a")


def its_worker_gives_it_back(hall: Hall, job: Job) -> None:
    assert job.lease is not None
    hall.core.release(job.lease)


def its_worker_fails_once(hall: Hall, job: Job) -> None:
    assert job.lease is not None
    hall.core.fail(job.lease)


def its_worker_finishes(hall: Hall, job: Job) -> None:
    assert job.lease is not None
    hall.core.finish(job.lease, b"fine")


def its_worker_fails_for_good(hall: Hall, job: Job) -> None:
    job.failures = job.terms.failures_max
    its_worker_fails_once(hall, job)


def its_flow_is_retried_after_a_parent(hall: Hall, job: Job) -> None:
    hall.core.retries.retry_after(job, [(b"q", b"unborn")])


def somebody_retries(hall: Hall, job: Job) -> None:
    hall.core.retry(job)


def it_is_submitted_again(hall: Hall, job: Job) -> None:
    hall.core.retries.run_again(job, JobSpec(b"a", b"", job.key, BACKGROUND), None)


def it_is_submitted_again_after_a_parent(hall: Hall, job: Job) -> None:
    spec = JobSpec(b"a", b"", job.key, BACKGROUND, NEVER, ((b"q", b"unborn"),))
    hall.core.retries.run_again(job, spec, None)


STORIES: dict[tuple[int, int], tuple[Callable[[Hall, Job], None], str]] = {
    (HELD, DELAYED): (parent_is_done_before_the_child_is_due, ""),
    (HELD, QUEUED): (parent_comes_and_is_done, ""),
    (HELD, FAILED): (parent_comes_and_fails, "failed a 126 a parent did not succeed"),
    (HELD, CANCELLED): (somebody_cancels, "cancelled a"),
    (DELAYED, HELD): (it_has_to_wait_for_one_more, ""),
    (DELAYED, QUEUED): (time_passes, ""),
    (DELAYED, LEASED): (somebody_is_hired_ahead_of_time, ""),
    (DELAYED, CANCELLED): (somebody_cancels, "cancelled a"),
    (QUEUED, HELD): (it_has_to_wait_for_one_more, ""),
    (QUEUED, DELAYED): (it_is_debounced_and_submitted_again, ""),
    (QUEUED, LEASED): (a_worker_takes_it, ""),
    (QUEUED, CANCELLED): (somebody_cancels, "cancelled a"),
    (LEASED, QUEUED): (its_worker_gives_it_back, ""),
    (LEASED, DELAYED): (its_worker_fails_once, ""),
    (LEASED, DONE): (its_worker_finishes, "done a fine"),
    (LEASED, FAILED): (its_worker_fails_for_good, "failed a 1"),
    (LEASED, CANCELLED): (somebody_cancels, "cancelled a"),
    (FAILED, HELD): (its_flow_is_retried_after_a_parent, ""),
    (FAILED, QUEUED): (somebody_retries, ""),
    (CANCELLED, HELD): (it_is_submitted_again_after_a_parent, ""),
    (CANCELLED, QUEUED): (it_is_submitted_again, ""),
}


def _move_name(move: tuple[int, int]) -> str:
    return f"{STATE_NAMES[move[0]]}-to-{STATE_NAMES[move[1]]}"


def test_every_legal_move_has_its_story() -> None:
    assert sorted(STORIES) == [(before, after) for before, targets in MOVES for after in sorted(targets)]
    assert tuple(before for before, _ in MOVES) == ALL_STATES


@pytest.mark.parametrize("move", STORIES, ids=_move_name)
def test_a_legal_move(hall: Hall, move: tuple[int, int]) -> None:
    before, after = move
    act, notice = STORIES[move]
    ann = hall.person("ann")
    job = STATES[before](hall, ann)
    hall.turn()
    assert job.state == before
    act(hall, job)
    hall.turn()
    assert job.state == after
    ann.hears(*([notice] if notice else []))
    if move == (LEASED, CANCELLED):
        hall.people[1].hears("revoked a")
    counts = job.queue.counts()
    assert counts[:2] == (int(after < DONE), int(after == LEASED))


ILLEGAL = [(before, after) for before, targets in MOVES for after in ALL_STATES if after not in targets]


@pytest.mark.parametrize("move", ILLEGAL, ids=_move_name)
def test_an_illegal_move_breaks_the_law(move: tuple[int, int]) -> None:
    before, after = move
    hall = Hall()
    job = STATES[before](hall, hall.person("ann"))
    with pytest.raises(BrokenLaw, match="MOVES"):
        hall.core.table.move(job, after)
    assert job.state == before


@pytest.mark.parametrize("state", [DONE, FAILED, CANCELLED], ids=["done", "failed", "cancelled"])
def test_an_end_is_written_once(hall: Hall, state: int) -> None:
    job = STATES[state](hall, hall.person("ann"))
    before = (job.code, job.result, job.ended_us)
    with refused(WRONG_STATE):
        hall.core.cancel(job, b"again")
    assert (job.state, job.code, job.result, job.ended_us) == (state, *before)


@pytest.mark.parametrize("state", [HELD, DELAYED, QUEUED, LEASED, DONE, CANCELLED])
def test_only_a_dead_letter_is_retried(hall: Hall, state: int) -> None:
    ann = hall.person("ann")
    job = STATES[state](hall, ann)
    with refused(WRONG_STATE):
        hall.core.retry(job)
    assert job.state == state
    hall.turn()


@pytest.mark.parametrize("state", [LEASED, DONE, FAILED, CANCELLED])
@pytest.mark.parametrize("parent", ["unknown", "live", "met"])
def test_only_a_job_that_no_worker_has_can_wait_for_more(hall: Hall, state: int, parent: str) -> None:
    other = hall.submit("other", "p", key="other")
    if parent == "met":
        hall.core.finish(hall.worker("dora", "p").takes("other"), b"")
    job = STATES[state](hall, hall.person("ann"))
    lease = job.lease
    refs = ((b"p", b"unborn" if parent == "unknown" else b"other"),)
    if parent == "met" and state == LEASED:
        hall.core.dependencies.depend(job, refs)
    else:
        with refused(WRONG_STATE):
            hall.core.dependencies.depend(job, refs)
    assert (job.state, job.lease, job.parents, job.ready_us) == (state, lease, None, 0)
    assert (other.children, hall.core.graph.expected) == (None, {})
    hall.turn()
