"""Parents and children: a job starts only after all its parents succeeded, and is released once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, SECOND_US, Hall, Person, refused

from hiringhall.core.errors import BAD_REQUEST, CYCLE, HALL_FULL, TOO_LARGE
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DELAYED, FAILED, HELD, PARENT_FAILED, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.core.jobs import Job, ParentRef

FAIL = Terms(durable=True, detached=True, on_parent_failure=FAIL_WITH_PARENT)
RUN = Terms(durable=True, detached=True, on_parent_failure=RUN_ANYWAY)
KEEP = Terms(durable=True, detached=True, on_parent_failure=HOLD)


def by_key(name: str, queue: str = "q") -> ParentRef:
    return queue.encode(), name.encode()


def by_id(job: Job) -> ParentRef:
    return job.id


def submit(hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND, due_us: int = 0) -> Job:
    """Each job's key is its name."""
    return hall.submit(name, key=name, parents=parents, terms=terms, due_us=due_us)


def finish(hall: Hall, bob: Person, name: str) -> None:
    hall.core.finish(bob.takes(name), b"")
    hall.turn()


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_child_waits_for_its_parent(hall: Hall, by: str) -> None:
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", by_id(parent) if by == "id" else by_key("parent"))
    hall.turn()
    assert child.state == HELD
    assert child.parents == {parent.id: parent}
    lease = bob.takes("parent")
    bob.takes_nothing()
    hall.core.finish(lease, b"")
    assert child.state == QUEUED
    bob.takes("child")


def test_a_child_waits_for_all_its_parents(hall: Hall) -> None:
    bob = hall.worker("bob")
    refs = [by_id(submit(hall, name)) for name in "abc"]
    child = submit(hall, "child", *refs)
    for name in "abc":
        assert child.state == HELD
        finish(hall, bob, name)
    finish(hall, bob, "child")


def test_a_parent_named_twice_counts_once(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    submit(hall, "child", by_id(parent), by_key("parent"), by_id(parent), by_key("parent"))
    hall.turn()
    finish(hall, bob, "parent")
    finish(hall, bob, "child")


def test_a_parent_has_many_children(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    for number in range(50):
        submit(hall, f"child {number}", by_id(parent))
    finish(hall, bob, "parent")
    for number in range(50):
        finish(hall, bob, f"child {number}")
    bob.takes_nothing()


def test_a_diamond(hall: Hall) -> None:
    bob = hall.worker("bob")
    top = submit(hall, "top")
    sides = [submit(hall, name, by_id(top)) for name in ("left", "right")]
    submit(hall, "bottom", *map(by_id, sides))
    for name in ("top", "left", "right", "bottom"):
        finish(hall, bob, name)
    bob.takes_nothing()


def test_a_parent_that_succeeded_counts_as_met_while_it_is_kept(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    finish(hall, bob, "parent")
    hall.commit()
    assert submit(hall, "by id", by_id(parent)).state == QUEUED
    assert submit(hall, "by key", by_key("parent")).state == QUEUED


def test_a_live_job_stands_before_an_ended_one_with_its_key(hall: Hall) -> None:
    bob = hall.worker("bob")
    submit(hall, "parent")
    finish(hall, bob, "parent")
    again = submit(hall, "parent")
    child = submit(hall, "child", by_key("parent"))
    assert child.parents == {again.id: again}


def test_a_parent_nobody_knows_yet_is_awaited(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = submit(hall, "child", by_key("later", "p"), by_key("later still"))
    hall.turn()
    assert child.parents == {by_key("later", "p"): None, by_key("later still"): None}
    assert list(hall.core.graph.expected) == [by_key("later", "p"), by_key("later still")]
    parent = hall.submit("later", "p", key="later")
    hall.turn()
    assert child.parents == {by_key("later still"): None, parent.id: parent}
    hall.core.finish(hall.worker("carl", "p").takes("later"), b"")
    submit(hall, "later still")
    finish(hall, bob, "later still")
    assert hall.core.graph.expected == {}
    finish(hall, bob, "child")


def test_several_wait_for_one_who_is_not_there(hall: Hall) -> None:
    bob = hall.worker("bob")
    for name in "abc":
        submit(hall, name, by_key("late"))
    hall.turn()
    submit(hall, "late")
    hall.turn()
    for name in ("late", "a", "b", "c"):
        finish(hall, bob, name)


def test_a_child_that_is_cancelled_waits_no_more(hall: Hall) -> None:
    ann = hall.person("ann")
    parent = submit(hall, "parent")
    child = hall.submit("child", by=ann, parents=(by_id(parent), by_key("unborn")))
    hall.turn()
    hall.core.cancel(child)
    hall.turn()
    ann.hears("cancelled child")
    assert hall.core.graph.expected == {}
    assert parent.children is None
    submit(hall, "unborn")
    hall.turn()


def test_an_id_that_nobody_knows_is_refused(hall: Hall) -> None:
    with refused(BAD_REQUEST):
        submit(hall, "child", 12345)
    assert hall.core.jobs == {}
    hall.turn()


def test_a_child_with_a_due_time_waits_for_both(hall: Hall) -> None:
    bob = hall.worker("bob")
    now_us = hall.core.now_us
    parents = [by_id(submit(hall, "parent"))]
    early = submit(hall, "early", *parents, due_us=now_us + SECOND_US)
    late = submit(hall, "late", *parents, due_us=now_us + 3 * SECOND_US)
    hall.after(2 * SECOND_US)
    assert (early.state, late.state) == (HELD, HELD)
    finish(hall, bob, "parent")
    assert (early.state, late.state) == (QUEUED, DELAYED)
    hall.after(SECOND_US)
    assert late.state == QUEUED


# --- a parent that does not succeed


def fails(hall: Hall, job: Job) -> None:
    hall.core.fail(hall.worker("bob").takes("parent"), 9)
    assert job.state == FAILED


def is_cancelled(hall: Hall, job: Job) -> None:
    hall.core.cancel(job)


def loses_its_workers(hall: Hall, job: Job) -> None:
    for number in range(3):
        victim = hall.worker(f"victim {number}")
        victim.takes("parent")
        victim.leaves()
    assert job.state == FAILED


TROUBLES = [fails, is_cancelled, loses_its_workers]
POLICIES = {"fail": (FAIL, FAILED), "run": (RUN, QUEUED), "hold": (KEEP, HELD)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_becomes_of_the_child(hall: Hall, trouble: Callable[[Hall, Job], None], policy: str) -> None:
    terms, state = POLICIES[policy]
    ann = hall.person("ann")
    parent = submit(hall, "parent")
    child = submit(hall, "child", by_id(parent), terms=terms)
    hall.core.watch(child, ann)
    hall.turn()
    trouble(hall, parent)
    hall.turn()
    assert child.state == state
    ann.hears(*(["failed child 126 a parent did not succeed"] if policy == "fail" else []))
    assert (child.code == PARENT_FAILED) == (policy == "fail")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_becomes_of_a_child_that_comes_after(
    hall: Hall, trouble: Callable[[Hall, Job], None], policy: str
) -> None:
    terms, state = POLICIES[policy]
    parent = submit(hall, "parent")
    trouble(hall, parent)
    hall.turn()
    for ref in (by_id(parent), by_key("parent")):
        child = hall.submit("child", parents=(ref,), terms=terms)
        hall.turn()
        assert child.state == state


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_child_that_holds_waits_for_the_live_job_that_has_its_failed_parents_key(hall: Hall, by: str) -> None:
    bob = hall.worker("bob")
    failed = submit(hall, "parent")
    fails(hall, failed)
    hall.turn()
    successor = hall.submit("successor", key="parent", terms=BACKGROUND)
    child = submit(hall, "child", by_id(failed) if by == "id" else by_key("parent"), terms=KEEP)
    hall.turn()
    assert (child.state, child.parents) == (HELD, {successor.id: successor})
    finish(hall, bob, "successor")
    assert child.state == QUEUED


def test_a_child_that_runs_anyway_still_waits_for_its_other_parents(hall: Hall) -> None:
    bob = hall.worker("bob")
    parents = [submit(hall, name) for name in "ab"]
    child = submit(hall, "child", *map(by_id, parents), terms=RUN)
    hall.core.cancel(parents[0])
    hall.turn()
    assert child.state == HELD
    finish(hall, bob, "b")
    assert child.state == QUEUED


def test_a_child_fails_once_although_both_parents_fail(hall: Hall) -> None:
    ann = hall.person("ann")
    parents = [submit(hall, name) for name in "ab"]
    hall.submit("child", by=ann, parents=tuple(map(by_id, parents)))
    hall.core.cancel(parents[0])
    hall.core.cancel(parents[1])
    hall.turn()
    ann.hears("failed child 126 a parent did not succeed")
    assert hall.core.counters.failed == 1


def test_a_doomed_child_that_is_cancelled_in_the_same_turn_ends_once(hall: Hall) -> None:
    ann = hall.person("ann")
    parent = submit(hall, "parent")
    child = hall.submit("child", by=ann, parents=(by_id(parent),))
    hall.core.cancel(parent)
    hall.core.cancel(child)
    hall.turn()
    ann.hears("cancelled child")


def test_a_held_child_runs_when_its_parent_is_retried_and_succeeds(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", by_id(parent), terms=KEEP)
    hall.commit()
    hall.core.fail(bob.takes("parent"))
    hall.commit()
    assert child.state == HELD
    hall.core.retry(parent)
    hall.turn()
    finish(hall, bob, "parent")
    finish(hall, bob, "child")


def test_a_held_child_outlives_the_record_of_its_failed_parent(hall: Hall) -> None:
    hall = Hall(Limits(ended_max=2))
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", by_id(parent), terms=KEEP)
    hall.core.cancel(parent)
    for number in range(3):
        hall.core.cancel(submit(hall, f"other {number}"))
    hall.turn()
    assert hall.core.find(parent.id) is None
    assert child.parents == {by_key("parent"): None}, "it waits for the name instead"
    submit(hall, "parent")
    finish(hall, bob, "parent")
    finish(hall, bob, "child")
    hall.close()


def test_a_held_child_does_not_overlook_a_live_job_with_its_parents_name() -> None:
    hall = Hall(Limits(ended_max=1))
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", by_id(parent), terms=KEEP)
    hall.core.cancel(parent)
    submit(hall, "parent")
    hall.core.cancel(submit(hall, "other"))
    hall.turn()
    assert hall.core.find(parent.id) is None
    finish(hall, bob, "parent")
    assert child.state == QUEUED, "the parent's name has succeeded; nobody would ever say so again"


LENGTH = 100_000


def chain(hall: Hall, terms: Terms) -> list[Job]:
    jobs = [hall.submit("0", terms=terms)]
    for number in range(1, LENGTH):
        jobs.append(hall.submit(str(number), terms=terms, parents=(jobs[-1].id,)))
    return jobs


def test_a_long_chain_fails_to_its_end() -> None:
    hall = Hall()
    jobs = chain(hall, FAIL)
    hall.core.cancel(jobs[0])
    hall.turn()
    assert jobs[0].state == CANCELLED
    assert all(job.state == FAILED for job in jobs[1:])
    assert hall.core.counters.failed == LENGTH - 1
    assert hall.core.jobs == {}


def test_a_long_chain_is_worked_off() -> None:
    hall = Hall()
    jobs = chain(hall, Terms(detached=True))
    bob = hall.worker("bob")
    for number in range(LENGTH):
        hall.core.finish(bob.takes(str(number)), b"")
    assert hall.core.counters.done == LENGTH
    assert hall.core.jobs == {}
    del jobs


def test_a_long_chain_can_be_dropped_whole() -> None:
    hall = Hall()
    chain(hall, FAIL)
    del hall


# --- cycles


def test_a_job_cannot_be_its_own_parent(hall: Hall) -> None:
    with refused(BAD_REQUEST):
        submit(hall, "a", by_key("a"))
    assert hall.core.jobs == {}


def test_two_cannot_wait_for_each_other(hall: Hall) -> None:
    submit(hall, "a", by_key("b"))
    with refused(CYCLE):
        submit(hall, "b", by_key("a"))
    hall.turn()
    # Without that parent it is welcome, and those who waited for it run.
    bob = hall.worker("bob")
    submit(hall, "b")
    finish(hall, bob, "b")
    finish(hall, bob, "a")


@pytest.mark.parametrize("length", [3, 10, 1000])
def test_a_long_cycle_is_refused(hall: Hall, length: int) -> None:
    names = [str(number) for number in range(length)]
    for name, parent in pairwise(names):
        submit(hall, name, by_key(parent))
    hall.turn()
    with refused(CYCLE):
        submit(hall, names[-1], by_key(names[0]))
    with refused(CYCLE):
        submit(hall, names[-1], by_key("innocent"), by_key(names[length // 2]))
    hall.turn()
    assert len(hall.core.jobs) == length - 1


def test_a_cycle_by_id_is_refused_too(hall: Hall) -> None:
    child = submit(hall, "a", by_key("b"))
    middle = submit(hall, "m", by_id(child))
    with refused(CYCLE):
        submit(hall, "b", by_id(middle))
    hall.turn()


def test_a_refused_cycle_leaves_nothing_behind(hall: Hall) -> None:
    child = submit(hall, "a", by_key("b"))
    hall.turn()
    before = (dict(hall.core.jobs), {ref: dict(who) for ref, who in hall.core.graph.expected.items()})
    with refused(CYCLE):
        submit(hall, "b", by_key("a"), by_key("c"))
    assert (hall.core.jobs, hall.core.graph.expected) == before
    assert child.children is None
    assert hall.core.find_key(b"q", b"b") is None


def test_a_cycle_too_long_to_look_for_is_refused() -> None:
    hall = Hall(Limits(graph_walk_max=10))
    last = submit(hall, "0", by_key("end"))
    for number in range(1, 20):
        last = submit(hall, str(number), by_id(last))
    submit(hall, "elsewhere", by_key("unknown"))
    with refused(HALL_FULL):
        submit(hall, "end", by_key("elsewhere"))
    submit(hall, "end", by_key("unknown"))
    hall.turn()


def test_too_many_parents_are_refused() -> None:
    hall = Hall(Limits(parents_max=3))
    with refused(TOO_LARGE):
        submit(hall, "a", *[by_key(str(number)) for number in range(4)])
    submit(hall, "a", *[by_key(str(number)) for number in range(3)])
    hall.turn()
