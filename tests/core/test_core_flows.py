"""Flows: jobs that belong together, counted by state, cancelled and retried as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, DETACHED, Disk, Hall, Person, refused

from hiringhall.core.changes import Batch
from hiringhall.core.errors import BAD_REQUEST, STORE_DOWN, TOO_LARGE
from hiringhall.core.flows.flow_states import RUNNING, STUCK, blockers, flow_state
from hiringhall.core.flows.flow_verbs import STEP_JOBS, STEP_US
from hiringhall.core.flows.flows import Flow, FlowWatcher
from hiringhall.core.ledger import Ledger
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DONE, FAILED, HELD, LEASED, PARENT_FAILED, QUEUED
from hiringhall.core.terms import HOLD, RUN_ANYWAY, Terms

if TYPE_CHECKING:
    from hiringhall.core.changes import EndRow
    from hiringhall.core.jobs import Job, ParentRef

HOLDS = Terms(durable=True, detached=True, on_parent_failure=HOLD)
RUNS = Terms(durable=True, detached=True, on_parent_failure=RUN_ANYWAY)


def add(
    hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND, key: str = "", flow: bytes = b"f"
) -> Job:
    return hall.submit(name, terms=terms, parents=parents, key=key, flow=flow)


def flow_of(hall: Hall, name: bytes = b"f") -> Flow:
    return hall.core.flows.by_name[name]


def state(hall: Hall, name: bytes = b"f") -> str:
    return flow_state(hall.core.table, flow_of(hall, name))


def run(hall: Hall, worker: Person, name: str, code: int = 0) -> None:
    lease = worker.takes(name)
    if code:
        hall.core.fail(lease, code, b"")
    else:
        hall.core.finish(lease, b"")
    hall.turn()


def cancel(hall: Hall, name: bytes = b"f") -> list[int]:
    done: list[int] = []
    hall.core.flow_verbs.cancel(flow_of(hall, name), b"enough", done.append)
    hall.turn()
    while not done:
        hall.after(STEP_US)
    return done


def retry(hall: Hall, disk: Disk | None = None, name: bytes = b"f") -> tuple[int, int]:
    """As the native door does it, with what the disk has."""
    verb = hall.core.flow_verbs.retry(flow_of(hall, name))
    rows = disk.history if disk is not None else {}
    for row in sorted(rows.values(), reverse=True):
        if row.flow == name:
            verb.want(row)
    verb.begin()
    while ids := verb.batch():
        known = found_rows(rows, verb.missing(ids))
        known |= found_rows(rows, verb.unknown(ids, known))
        verb.retry(ids, known)
        hall.turn()
    return verb.retried, verb.refused


def found_rows(rows: dict[int, EndRow], refs: list[ParentRef]) -> dict[ParentRef, EndRow]:
    return {ref: row for ref in refs for row in rows.values() if ref in (row.id, (row.queue, row.key))}


def reopened(disk: Disk, limits: Limits | None = None) -> Hall:
    hall = Hall(limits)
    hall.core.restore(disk.load(hall.limits.ended_max))
    hall.turn()
    return hall


def test_a_flow_counts_its_jobs_by_state_and_ends_with_the_last(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = add(hall, "a")
    add(hall, "b", first.id)
    hall.submit("c", terms=BACKGROUND)
    flow = flow_of(hall)
    assert (flow.live, flow.counts[HELD], flow.counts[QUEUED], state(hall)) == (2, 1, 1, RUNNING)
    run(hall, bob, "a")
    assert (flow.counts[HELD], flow.counts[QUEUED], flow.counts[DONE]) == (0, 1, 1)
    run(hall, bob, "c")
    assert flow.ended_us == 0
    run(hall, bob, "b")
    assert (flow.live, flow.total, flow.ended_us, state(hall)) == (0, 2, hall.core.now_us, "done")


def test_a_job_that_is_added_to_an_ended_flow_opens_it_again(hall: Hall) -> None:
    bob = hall.worker("bob")
    add(hall, "a")
    run(hall, bob, "a")
    add(hall, "b")
    flow = flow_of(hall)
    assert (flow.ended_us, flow.live, flow.counts[DONE], state(hall)) == (0, 1, 1, RUNNING)


def test_only_durable_jobs_belong_to_a_flow_with_a_short_name(hall: Hall) -> None:
    with refused(BAD_REQUEST):
        add(hall, "a", terms=DETACHED)
    with refused(TOO_LARGE):
        add(hall, "a", flow=b"f" * 201)
    add(hall, "b", flow=b"\xff" * 200)
    hall.turn()
    assert list(hall.core.flows.by_name) == [b"\xff" * 200]


def test_a_submit_that_joins_a_live_job_leaves_it_in_its_flow(hall: Hall) -> None:
    job = add(hall, "a", key="k")
    assert add(hall, "b", key="k", flow=b"g") is job
    assert (job.flow, list(hall.core.flows.by_name)) == (flow_of(hall), [b"f"])


def test_a_flow_that_failed_or_was_cancelled_says_so(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = add(hall, "a")
    add(hall, "b", first.id)
    add(hall, "c", flow=b"g")
    add(hall, "d", flow=b"g")
    run(hall, bob, "a", code=3)
    assert (state(hall), flow_of(hall).counts[FAILED]) == ("failed", 2)
    run(hall, bob, "c")
    assert cancel(hall, b"g") == [1]
    assert (state(hall, b"g"), flow_of(hall, b"g").counts[DONE]) == ("cancelled", 1)


def test_a_flow_is_stuck_if_all_that_is_live_waits_for_failed_parents(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = add(hall, "a", key="a")
    second = add(hall, "b", first.id, terms=HOLDS)
    add(hall, "c", second.id)
    run(hall, bob, "a", code=3)
    assert state(hall) == STUCK
    (blocker,) = blockers(hall.core.table, flow_of(hall))
    assert blocker == (1, first.id, b"q", b"a", "failed")
    outside = hall.submit("outside", terms=BACKGROUND)
    add(hall, "d", outside.id)
    assert state(hall) == RUNNING
    hall.core.retry(first)
    assert state(hall) == RUNNING


def test_what_blocks_the_rest_is_what_most_others_wait_for(hall: Hall) -> None:
    small, big = add(hall, "small"), add(hall, "big")
    outside = hall.submit("outside", terms=BACKGROUND)
    for number in range(3):
        add(hall, f"c{number}", big.id, *([small.id] if number else []))
    add(hall, "d", outside.id, (b"other", b"name"), terms=HOLDS)
    hall.turn()
    assert blockers(hall.core.table, flow_of(hall)) == [
        (3, big.id, b"q", b"", "queued"),
        (2, small.id, b"q", b"", "queued"),
        (1, outside.id, b"q", b"", "queued"),
        (1, 0, b"other", b"name", ""),
    ]


def test_cancelling_a_flow_cancels_its_children_too_in_bounded_steps(hall: Hall) -> None:
    count = 3 * STEP_JOBS
    bob = hall.worker("bob")
    jobs = [add(hall, "0")]
    for number in range(1, count):
        jobs.append(add(hall, str(number), jobs[(number - 1) // 2].id))
    other = add(hall, "other", jobs[0].id, flow=b"g")
    lease = bob.takes("0")
    done: list[int] = []
    hall.core.flow_verbs.cancel(flow_of(hall), b"enough", done.append)
    hall.turn()
    assert 0 < flow_of(hall).counts[CANCELLED] <= STEP_JOBS
    assert done == []
    add(hall, "late")
    while not done:
        hall.after(STEP_US)
    assert done == [count]
    assert {job.state for job in jobs} == {CANCELLED}
    assert (other.state, other.code) == (FAILED, PARENT_FAILED)
    assert (flow_of(hall).live, state(hall)) == (1, RUNNING)
    assert lease.job.result == b"enough"
    bob.hears("revoked 0")


def test_a_child_that_came_before_its_parent_is_cancelled_too(hall: Hall) -> None:
    child = add(hall, "child", (b"q", b"parent"))
    others = [add(hall, str(number)) for number in range(2 * STEP_JOBS)]
    parent = add(hall, "parent", key="parent")
    assert cancel(hall) == [len(others) + 2]
    assert (child.state, parent.state, state(hall)) == (CANCELLED, CANCELLED, "cancelled")


def test_a_cancel_that_was_cut_short_is_completed_by_a_second_one(hall: Hall) -> None:
    disk = Disk()
    for number in range(2 * STEP_JOBS):
        add(hall, str(number))
    hall.core.flow_verbs.cancel(flow_of(hall), b"", [].append)
    disk.apply(hall.commit())
    again = reopened(disk)
    assert flow_of(again).counts[CANCELLED] == STEP_JOBS
    assert cancel(again) == [STEP_JOBS]
    assert (flow_of(again).counts[CANCELLED], state(again)) == (2 * STEP_JOBS, "cancelled")


def test_a_retried_flow_runs_what_failed_and_what_hangs_on_it_in_order(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = add(hall, "a")
    second = add(hall, "b", first.id)
    third = add(hall, "c", second.id, first.id)
    fine = add(hall, "d")
    run(hall, bob, "a", code=3)
    run(hall, bob, "d")
    assert [job.state for job in (first, second, third, fine)] == [FAILED, FAILED, FAILED, DONE]
    assert retry(hall) == (3, 0)
    assert [job.state for job in (first, second, third)] == [QUEUED, HELD, HELD]
    assert (flow_of(hall).counts[FAILED], state(hall)) == (0, RUNNING)
    for name in ("a", "b", "c"):
        run(hall, bob, name)
    assert (state(hall), flow_of(hall).counts[DONE]) == ("done", 4)


@pytest.mark.parametrize("ended_max", [1, 1000])
def test_a_flow_is_retried_from_the_history_after_a_restart(ended_max: int) -> None:
    """With 1, nearly nothing of it is in memory."""
    hall, disk = Hall(), Disk()
    bob = hall.worker("bob")
    add(hall, "setup", key="setup")
    run(hall, bob, "setup")
    first = add(hall, "a", (b"q", b"setup"))
    second = add(hall, "b", first.id, (b"q", b"setup"))
    hall.submit("later", terms=BACKGROUND)
    run(hall, bob, "a", code=3)
    run(hall, bob, "later")
    disk.apply(hall.commit())
    again = reopened(disk, Limits(ended_max=ended_max))
    flow = flow_of(again)
    assert (flow.counts[DONE], flow.counts[FAILED], flow.live, state(again)) == (1, 2, 0, "failed")
    assert retry(again, disk) == (2, 0)
    disk.apply(again.commit())
    disk.compare(again.core)
    assert again.core.jobs[second.id].state == HELD
    ann = again.worker("ann")
    run(again, ann, "a")
    run(again, ann, "b")
    assert (flow.counts[DONE], flow.counts[FAILED], state(again)) == (3, 0, "done")


def test_what_leaves_memory_while_the_history_is_asked_is_not_forgotten() -> None:
    """Between the batch and its retry, other jobs end and push the batch out of the archive."""
    hall = Hall(Limits(ended_max=4))
    bob = hall.worker("bob")
    first = add(hall, "a")
    second = add(hall, "b", first.id)
    run(hall, bob, "a", code=3)
    hall.commit()
    verb = hall.core.flow_verbs.retry(flow_of(hall))
    for job in (first, second):
        verb.want(hall_row(job))
    verb.begin()
    ids = verb.batch()
    assert (ids, verb.missing(ids), verb.unknown(ids, {})) == ([first.id, second.id], [], [])
    for number in range(5):
        hall.submit(f"later {number}", terms=BACKGROUND)
        run(hall, bob, f"later {number}")
    assert hall.core.find(first.id) is None
    verb.retry(ids, {})
    hall.turn()
    assert (verb.retried, first.state, second.state) == (2, QUEUED, HELD)


def hall_row(job: Job) -> EndRow:
    """The line of an ended job."""
    batch = Batch()
    Ledger()._seal_end(batch, job)
    return batch.ends[0]


def test_a_retried_job_no_longer_counts_as_failed_after_a_restart(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = add(hall, "a")
    add(hall, "live")
    run(hall, bob, "a", code=3)
    disk.apply(hall.commit())
    hall.core.retry(job)
    disk.apply(hall.commit())
    disk.compare(hall.core)
    assert flow_of(reopened(disk)).counts[FAILED] == 0


def test_a_retry_that_was_cut_short_is_completed_by_a_second_one() -> None:
    hall, disk = Hall(), Disk()
    bob = hall.worker("bob")
    first = add(hall, "a")
    child = add(hall, "b", first.id)
    run(hall, bob, "a", code=3)
    disk.apply(hall.commit())
    verb = hall.core.flow_verbs.retry(flow_of(hall))
    for row in disk.history.values():
        verb.want(row)
    verb.retry([child.id], {})
    hall.turn()
    assert (child.state, first.state, state(hall)) == (HELD, FAILED, STUCK)
    disk.apply(hall.commit())
    again = reopened(disk)
    assert again.core.jobs == {}, "the parent has failed, and so does the child again"
    disk.apply(again.commit())
    assert retry(again, disk) == (2, 0)
    ann = again.worker("ann")
    run(again, ann, "a")
    run(again, ann, "b")
    assert state(again) == "done"


def test_a_job_whose_parent_cannot_be_retried_stays_failed(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = add(hall, "a")
    second = add(hall, "b", first.id)
    anyway = add(hall, "c", first.id, terms=RUNS)
    waits = add(hall, "d", first.id, (b"q", b"next"), terms=HOLDS)
    third = add(hall, "e", second.id)
    hall.core.cancel(first)
    hall.turn()
    run(hall, bob, "c", code=3)
    assert (second.state, third.state, waits.state) == (FAILED, FAILED, HELD)
    assert retry(hall) == (1, 2)
    assert (second.state, third.state, anyway.state) == (FAILED, FAILED, QUEUED)
    assert state(hall) == RUNNING


def test_a_retried_child_fails_again_if_its_parent_is_refused_after_it(hall: Hall) -> None:
    """The parent came after the child that named it, and another job has its key now."""
    bob = hall.worker("bob")
    child = add(hall, "child", (b"q", b"p"))
    parent = add(hall, "parent", key="p")
    run(hall, bob, "parent", code=3)
    assert (child.state, parent.state) == (FAILED, FAILED)
    blocker = hall.submit("blocker", key="p", terms=BACKGROUND, parents=((b"q", b"never"),))
    verb = hall.core.flow_verbs.retry(flow_of(hall))
    verb.begin()
    verb.retry([parent.id], {})
    verb.retry([child.id], {})
    hall.turn()
    assert (verb.retried, verb.refused, child.state, parent.state) == (1, 1, HELD, FAILED)
    assert list(child.parents or {}) == [blocker.id]


def test_a_parent_that_took_the_name_and_waits_for_the_child_is_no_circle(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = add(hall, "child", (b"q", b"p"), key="child")
    add(hall, "parent", key="p")
    run(hall, bob, "parent", code=3)
    hall.submit("new", key="p", terms=HOLDS, parents=((b"q", b"child"),))
    retry(hall)
    assert child.state == FAILED


def test_the_graph_of_a_flow_is_kept_with_its_ended_jobs(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    first = add(hall, "a", key="a")
    second = add(hall, "b", first.id, (b"q", b"a"))
    hall.core.dependencies.depend(second, ((b"q", b"later"),))
    add(hall, "later", key="later")
    for name in ("a", "later", "b"):
        run(hall, bob, name)
    disk.apply(hall.commit())
    wanted = (first.id, (b"q", b"a"), (b"q", b"later"))
    assert disk.history[second.id].all_parents == wanted
    assert {row.flow for row in disk.history.values()} == {b"f"}
    assert flow_of(hall).jobs == {}


def test_jobs_come_by_id_newest_first_until_their_end_is_in_the_history(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [add(hall, str(number)) for number in range(600)]
    flow = flow_of(hall)
    assert flow.before(1 << 62, 3) == jobs[:-4:-1]
    assert flow.before(jobs[2].id, 5) == [jobs[1], jobs[0]]
    for number in range(550):
        run(hall, bob, str(number))
    assert len(flow.before(1 << 62, 1000)) == 600
    hall.commit()
    assert flow.before(1 << 62, 1000) == jobs[:549:-1]
    late = add(hall, "late")
    assert flow.before(1 << 62, 2) == [late, jobs[-1]]


def test_a_flow_that_the_store_refused_never_was(hall: Hall) -> None:
    add(hall, "a")
    assert hall.commit_fails() == ["a"]
    assert (hall.core.flows.by_name, hall.core.jobs) == ({}, {})
    with refused(STORE_DOWN):
        add(hall, "b")
    disk = Disk()
    disk.apply(hall.commit())
    assert disk.flows == {}


def test_a_flow_keeps_its_counts_if_a_commit_fails(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    add(hall, "a")
    disk.apply(hall.commit())
    run(hall, bob, "a")
    add(hall, "b")
    assert hall.commit_fails() == ["b"]
    flow = flow_of(hall)
    assert (flow.counts[DONE], flow.live, flow.total) == (1, 0, 1)
    disk.apply(hall.commit())
    disk.compare(hall.core)
    assert disk.flows[b"f"].done == 1


def test_the_oldest_ended_flows_are_dropped() -> None:
    hall, disk = Hall(Limits(flows_max=16)), Disk()
    bob = hall.worker("bob")
    add(hall, "live", flow=b"live")
    lease = bob.takes("live")
    for number in range(17):
        add(hall, str(number), flow=str(number).encode())
        run(hall, bob, str(number), code=number == 0)
        disk.apply(hall.commit())
    kept = list(hall.core.flows.by_name)
    assert kept[0] == b"live"
    assert kept[1:] == [str(number).encode() for number in range(2, 17)]
    assert set(disk.flows) == set(kept)
    failed = next(row for row in disk.history.values() if row.flow == b"0")
    job = hall.core.find(failed.id)
    assert job is not None
    hall.core.retry(job)
    hall.turn()
    assert (flow_of(hall, b"0").counts[FAILED], flow_of(hall, b"0").live) == (0, 1)
    hall.core.finish(lease, b"")
    hall.turn()


def test_a_flow_whose_row_is_missing_is_made_from_its_jobs(hall: Hall) -> None:
    disk = Disk()
    add(hall, "a")
    disk.apply(hall.commit())
    disk.flows.clear()
    again = reopened(disk)
    assert (flow_of(again).live, state(again)) == (1, RUNNING)


def test_a_watcher_of_a_flow_is_told_its_end_once(hall: Hall) -> None:
    told: list[tuple[bytes, int]] = []

    class Watcher(FlowWatcher):
        def flow_ended(self, flow: Flow) -> None:
            told.append((flow.name, flow.live))

    bob = hall.worker("bob")
    add(hall, "a")
    add(hall, "b")
    flow_of(hall).watch(Watcher())
    run(hall, bob, "a")
    assert told == []
    run(hall, bob, "b")
    add(hall, "c")
    run(hall, bob, "c")
    assert told == [(b"f", 0)]


def test_leased_jobs_are_counted_as_such(hall: Hall) -> None:
    bob = hall.worker("bob")
    add(hall, "a")
    bob.takes("a")
    assert flow_of(hall).counts[LEASED] == 1
