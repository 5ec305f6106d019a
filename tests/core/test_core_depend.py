"""A job that is here already has to wait for further parents: until all are met, no worker gets it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Hall, Person, name_of, refused

from hiringhall.core.errors import BAD_REQUEST, CYCLE, HALL_FULL, STORE_DOWN, TOO_LARGE, Refusal
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DELAYED, FAILED, HELD, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job, ParentRef

POLICIES = {"fail": FAIL_WITH_PARENT, "run": RUN_ANYWAY, "hold": HOLD}
UNBORN: ParentRef = (b"q", b"unborn")


def by_key(name: str) -> ParentRef:
    return b"q", name.encode()


def submit(hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND, due_us: int = 0) -> Job:
    """Each job's key is its name."""
    return hall.submit(name, key=name, parents=parents, terms=terms, due_us=due_us)


def finish(hall: Hall, worker: Person, name: str) -> None:
    hall.core.finish(worker.takes(name), b"")
    hall.turn()


# --- every kind of job, every kind of parent


def held(hall: Hall, terms: Terms) -> Job:
    return submit(hall, "job", UNBORN, terms=terms)


def delayed(hall: Hall, terms: Terms) -> Job:
    return submit(hall, "job", terms=terms, due_us=hall.core.now_us + 10 * SECOND_US)


def queued(hall: Hall, terms: Terms) -> Job:
    return submit(hall, "job", terms=terms)


JOBS: dict[int, Callable[[Hall, Terms], Job]] = {HELD: held, DELAYED: delayed, QUEUED: queued}


def unknown(hall: Hall) -> None:
    del hall


def waits(hall: Hall) -> None:
    hall.submit("parent", "p", key="parent", terms=BACKGROUND, parents=((b"p", b"grandparent"),))


def is_due_later(hall: Hall) -> None:
    hall.submit("parent", "p", key="parent", terms=BACKGROUND, due_us=hall.core.now_us + SECOND_US)


def is_ready(hall: Hall) -> None:
    hall.submit("parent", "p", key="parent", terms=BACKGROUND)


def is_at_work(hall: Hall) -> None:
    is_ready(hall)
    hall.worker("paul", "p").takes("parent")


def is_done(hall: Hall) -> None:
    is_ready(hall)
    hall.core.finish(hall.worker("paul", "p").takes("parent"), b"")


def has_failed(hall: Hall) -> None:
    is_ready(hall)
    hall.core.fail(hall.worker("paul", "p").takes("parent"))


def was_cancelled(hall: Hall) -> None:
    is_ready(hall)
    job = hall.core.find_key(b"p", b"parent")
    assert job is not None
    hall.core.cancel(job)


PARENTS: list[Callable[[Hall], None]] = [
    unknown,
    waits,
    is_due_later,
    is_ready,
    is_at_work,
    is_done,
    has_failed,
    was_cancelled,
]


def state_after(before: int, parent: Callable[[Hall], None], policy: int) -> int:
    if parent is is_done:
        return before
    if parent in (has_failed, was_cancelled):
        return {FAIL_WITH_PARENT: FAILED, RUN_ANYWAY: before, HOLD: HELD}[policy]
    return HELD


def ways_to_name(hall: Hall) -> list[ParentRef]:
    found = hall.core.find_key(b"p", b"parent") or hall.core.archive.find_key(b"p", b"parent")
    return [(b"p", b"parent")] + ([found.id] if found is not None else [])


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "in memory"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("before", JOBS, ids=["held", "delayed", "queued"])
def test_what_becomes_of_a_job_that_depends(
    before: int, parent: Callable[[Hall], None], policy: str, durable: bool
) -> None:
    for way in range(2):
        hall = Hall()
        terms = Terms(durable=durable, detached=True, on_parent_failure=POLICIES[policy])
        job = JOBS[before](hall, terms)
        parent(hall)
        hall.commit()
        refs = ways_to_name(hall)
        if way >= len(refs):
            return
        hall.core.dependencies.depend(job, (refs[way],))
        hall.turn()
        after = state_after(before, parent, POLICIES[policy])
        assert job.state == after
        assert job.ready_us == 0, "none of its parents was met by waiting"
        written = not hall.commit().empty
        assert written == (durable and before != after) or before == HELD
        if after == HELD:
            hall.worker("bob").takes_nothing()
            let_parents_succeed(hall)
            assert job.state == before
            assert job.ready_us == (hall.core.now_us if before != HELD else 0)
        hall.close()


def let_parents_succeed(hall: Hall) -> None:
    """All of queue p comes to a good end, whatever it takes."""
    for name in ("parent", "grandparent"):
        if hall.core.find_key(b"p", name.encode()) is None:
            hall.submit(name, "p", key=name, terms=BACKGROUND)
    hall.after(SECOND_US)
    queue = hall.core.queue(b"p")
    for worker in list(queue.workers):
        for lease in list(worker.leases.values()):
            hall.core.finish(lease, b"")
    last = hall.worker("last", "p")
    while (taken := hall.core.take(last.me)) is not None:
        hall.core.finish(taken, b"")
        hall.turn()
    assert queue.live == 0
    assert hall.core.find_key(b"q", b"job") is not None


# --- the due time


@pytest.mark.parametrize("met_us", [0, 1, 5, 9, 10, 11, 50])
@pytest.mark.parametrize("depended_us", [0, 3, 9])
def test_a_due_time_is_honoured_however_long_the_parents_take(
    hall: Hall, depended_us: int, met_us: int
) -> None:
    start_us = hall.core.now_us
    job = submit(hall, "job", due_us=start_us + 10)
    hall.after(depended_us)
    parent = hall.submit("parent", "p")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.after(max(met_us - depended_us, 0))
    assert job.state == HELD
    hall.core.finish(hall.worker("paul", "p").takes("parent"), b"")
    hall.turn()
    now_us = hall.core.now_us
    assert job.ready_us == now_us
    if now_us < start_us + 10:
        assert (job.state, job.due_us) == (DELAYED, start_us + 10)
        hall.after(start_us + 10 - now_us - 1)
        assert job.state == DELAYED
        hall.after(1)
    assert (job.state, job.due_us) == (QUEUED, 0)
    hall.worker("bob").takes("job")


def test_a_backoff_is_honoured_too(hall: Hall) -> None:
    job = submit(hall, "job", terms=Terms(durable=True, detached=True, failures_max=1, backoff_us=SECOND_US))
    bob = hall.worker("bob")
    hall.core.fail(bob.takes("job"))
    parent = submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.turn()
    finish(hall, bob, "parent")
    assert job.state == DELAYED
    hall.after(SECOND_US)
    finish(hall, bob, "job")


def test_a_job_that_waits_and_is_due_is_delayed_held_and_delayed_many_times(hall: Hall) -> None:
    job = submit(hall, "job", due_us=hall.core.now_us + 100)
    paul = hall.worker("paul", "p")
    for number in range(9):
        parent = hall.submit(f"parent {number}", "p")
        hall.core.dependencies.depend(job, (parent.id,))
        hall.after(10)
        assert job.state == HELD
        hall.core.finish(paul.takes(f"parent {number}"), b"")
        hall.turn()
        assert (job.state, job.ready_us) == (DELAYED, hall.core.now_us)
    hall.after(10)
    assert job.state == QUEUED


def test_the_timer_of_a_held_job_that_is_cancelled_calls_nobody(hall: Hall) -> None:
    job = submit(hall, "job", due_us=hall.core.now_us + 100)
    hall.core.dependencies.depend(job, (UNBORN,))
    hall.core.cancel(job)
    assert job.due_us == 0
    hall.after(100)
    assert job.state == CANCELLED


# --- several parents, one after the other


def test_further_parents_are_added_to_those_it_has(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [submit(hall, name) for name in "abc"]
    child = submit(hall, "child", jobs[0].id)
    hall.core.dependencies.depend(child, (jobs[1].id,))
    hall.core.dependencies.depend(child, (by_key("c"), UNBORN))
    hall.turn()
    submit(hall, "unborn")
    for name in ("a", "b", "c", "unborn"):
        assert child.state == HELD
        finish(hall, bob, name)
    finish(hall, bob, "child")


def test_a_parent_named_again_and_again_counts_once(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent, child = submit(hall, "parent"), submit(hall, "child", UNBORN)
    for _ in range(3):
        hall.core.dependencies.depend(child, (parent.id, by_key("parent"), UNBORN, UNBORN))
        hall.turn()
    assert child.parents == {UNBORN: None, parent.id: parent}
    submit(hall, "unborn")
    for name in ("parent", "unborn", "child"):
        finish(hall, bob, name)


def test_no_parents_are_no_change(hall: Hall) -> None:
    job = submit(hall, "job")
    hall.commit()
    hall.core.dependencies.depend(job, ())
    assert job.state == QUEUED
    assert hall.commit().empty


def test_a_job_that_was_released_waits_again(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = submit(hall, "child", UNBORN)
    submit(hall, "unborn")
    finish(hall, bob, "unborn")
    assert child.state == QUEUED
    hall.after(5)
    hall.core.dependencies.depend(child, (by_key("second"),))
    hall.turn()
    bob.takes_nothing()
    submit(hall, "second")
    finish(hall, bob, "second")
    assert child.ready_us == hall.core.now_us
    finish(hall, bob, "child")


def test_a_sleeper_that_was_woken_for_it_finds_nothing_and_is_woken_again(hall: Hall) -> None:
    bob, paul = hall.worker("bob"), hall.worker("paul", "p")
    bob.sleeps()
    job, parent = submit(hall, "job"), hall.submit("parent", "p")
    hall.turn()
    bob.hears("woken")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.turn()
    bob.takes_nothing()
    bob.sleeps()
    hall.turn()
    hall.core.finish(paul.takes("parent"), b"")
    hall.turn()
    bob.hears("woken")
    bob.takes("job")


def test_a_slot_offered_in_the_same_turn_stays_empty(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = submit(hall, "job")
    bob.offers(1)
    hall.core.dependencies.depend(job, (UNBORN,))
    hall.turn()
    bob.hears()
    submit(hall, "unborn")
    hall.turn()
    bob.hears("assigned unborn")


def test_a_watcher_hears_nothing_of_the_wait_and_all_of_the_end(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job, parent = hall.submit("job", by=ann), submit(hall, "parent")
    hall.core.dependencies.depend(job, (parent.id,))
    hall.turn()
    ann.hears()
    hall.core.fail(bob.takes("parent"))
    hall.turn()
    ann.hears("failed job 126 a parent did not succeed")


def test_a_job_that_failed_and_came_through_in_one_turn_can_wait_again(hall: Hall) -> None:
    """Its parent failed, was retried and succeeded: whatever it waits for next, it must not die of the past."""
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", parent.id)
    hall.core.fail(bob.takes("parent"))
    hall.core.retry(parent)
    hall.core.finish(bob.takes("parent"), b"")
    assert child.state == QUEUED
    hall.core.dependencies.depend(child, (UNBORN,))
    hall.turn()
    assert child.state == HELD


# --- what is refused, and changes nothing


def everything(hall: Hall) -> list[object]:
    """All that a refused verb must leave alone."""
    core = hall.core
    jobs: list[object] = [
        (
            name_of(job),
            job.state,
            job.due_us,
            job.ready_us,
            list(job.parents or ()),
            list(job.children or ()),
            job.in_lane,
        )
        for job in core.jobs.values()
    ]
    return [*jobs, {ref: list(who) for ref, who in core.graph.expected.items()}, len(core.ledger)]


def test_a_job_cannot_wait_for_itself(hall: Hall) -> None:
    job = submit(hall, "job")
    hall.commit()
    before = everything(hall)
    with refused(BAD_REQUEST):
        hall.core.dependencies.depend(job, (UNBORN, by_key("job")))
    with refused(CYCLE):
        hall.core.dependencies.depend(job, (UNBORN, job.id))
    assert everything(hall) == before
    hall.turn()


@pytest.mark.parametrize("ref", [12345, 0, -1])
def test_an_id_that_nobody_knows_is_refused(hall: Hall, ref: int) -> None:
    job, parent = submit(hall, "job"), submit(hall, "parent")
    hall.commit()
    before = everything(hall)
    with refused(BAD_REQUEST):
        hall.core.dependencies.depend(job, (parent.id, UNBORN, ref))
    assert everything(hall) == before


def test_a_store_in_trouble_takes_no_new_dependency(hall: Hall) -> None:
    job, memory = submit(hall, "job"), hall.submit("memory")
    hall.commit()
    hall.core.table.store_trouble = "disk full"
    before = everything(hall)
    with refused(STORE_DOWN):
        hall.core.dependencies.depend(job, (UNBORN,))
    assert everything(hall) == before
    hall.core.dependencies.depend(memory, (UNBORN,))
    hall.turn()
    assert memory.state == HELD, "a job that is only in memory is no business of the store's"


def test_parents_max_counts_those_it_has() -> None:
    hall = Hall(Limits(parents_max=3))
    job = submit(hall, "job", by_key("a"))
    hall.core.dependencies.depend(job, (by_key("b"),))
    before = everything(hall)
    with refused(TOO_LARGE):
        hall.core.dependencies.depend(job, (by_key("c"), by_key("d")))
    assert everything(hall) == before
    hall.core.dependencies.depend(job, (by_key("c"),))
    with refused(TOO_LARGE):
        hall.core.dependencies.depend(job, (by_key("d"),))
    hall.turn()
    submit(hall, "a")
    finish(hall, hall.worker("bob"), "a")
    hall.core.dependencies.depend(job, (by_key("d"),))
    hall.turn()


@pytest.mark.parametrize("length", [2, 3, 10, 1000])
@pytest.mark.parametrize("by", ["id", "key"])
def test_a_cycle_through_children_is_refused(hall: Hall, length: int, by: str) -> None:
    jobs = [submit(hall, str(number)) for number in range(length)]
    for parent, child in pairwise(jobs):
        hall.core.dependencies.depend(child, (parent.id if by == "key" else by_key(name_of(parent)),))
    hall.turn()
    before = everything(hall)
    last = jobs[-1]
    for job in {job.id: job for job in (jobs[0], jobs[length // 2 - 1])}.values():
        with refused(CYCLE):
            hall.core.dependencies.depend(job, (UNBORN, last.id if by == "id" else by_key(name_of(last))))
    assert everything(hall) == before
    hall.core.dependencies.depend(last, (jobs[0].id,))
    bob = hall.worker("bob")
    for number in range(length):
        finish(hall, bob, str(number))


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_cycle_through_a_name_that_was_expected_is_refused(hall: Hall, by: str) -> None:
    first = submit(hall, "first", by_key("late"))
    middle = submit(hall, "middle", first.id)
    hall.turn()
    late = submit(hall, "late")
    before = everything(hall)
    for job in (first, middle):
        with refused(CYCLE):
            hall.core.dependencies.depend(late, (job.id if by == "id" else by_key(name_of(job)),))
    assert everything(hall) == before
    hall.turn()


def test_a_name_that_is_expected_cannot_come_with_the_one_who_expects_it(hall: Hall) -> None:
    first, other = submit(hall, "first"), submit(hall, "other")
    hall.core.dependencies.depend(first, (by_key("late"),))
    hall.core.dependencies.depend(other, (first.id,))
    hall.turn()
    for parent in (first.id, by_key("other")):
        with refused(CYCLE):
            submit(hall, "late", parent)
    late = submit(hall, "late")
    with refused(CYCLE):
        hall.core.dependencies.depend(late, (other.id,))
    hall.turn()


def test_a_cycle_too_long_to_look_for_is_refused() -> None:
    hall = Hall(Limits(graph_walk_max=10))
    jobs = [submit(hall, str(number)) for number in range(20)]
    for parent, child in pairwise(jobs):
        hall.core.dependencies.depend(child, (parent.id,))
    waiting = submit(hall, "waiting", UNBORN)
    before = everything(hall)
    with refused(HALL_FULL):
        hall.core.dependencies.depend(jobs[0], (waiting.id,))
    assert everything(hall) == before
    hall.core.dependencies.depend(jobs[0], (submit(hall, "idle").id, UNBORN))
    hall.core.dependencies.depend(jobs[15], (waiting.id,))
    hall.turn()


def test_a_job_cannot_come_with_an_earlier_one_of_its_own_name_as_its_parent(hall: Hall) -> None:
    """Who holds for a failed parent waits for its name: here that would be itself, for ever."""
    keep = Terms(durable=True, detached=True, on_parent_failure=HOLD)
    earlier = submit(hall, "job")
    hall.core.cancel(earlier)
    hall.turn()
    with pytest.raises(Refusal) as caught:
        submit(hall, "job", earlier.id, terms=keep)
    assert caught.value.reason in (BAD_REQUEST, CYCLE)
    job = submit(hall, "job", terms=keep)
    with pytest.raises(Refusal) as caught:
        hall.core.dependencies.depend(job, (earlier.id,))
    assert caught.value.reason in (BAD_REQUEST, CYCLE)
    hall.turn()
