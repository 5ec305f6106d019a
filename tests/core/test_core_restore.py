"""The hall opens again on what the store kept."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, DETACHED, SECOND_US, START_US, Disk, Hall, Person

from hiringhall.core.jobs import Job, JobSpec, ParentRef
from hiringhall.core.limits import Limits
from hiringhall.core.states import CALLED_OFF, CANCELLED, DELAYED, DONE, FAILED, FAILURE, HELD, LOST, QUEUED
from hiringhall.core.terms import FAIL_WITH_PARENT, HIGH, HOLD, RUN_ANYWAY, Terms

FULL = Terms(
    priority=HIGH,
    durable=True,
    detached=True,
    failures_max=4,
    backoff_us=SECOND_US,
    losses_max=5,
    lease_us=6 * SECOND_US,
    run_us=7 * SECOND_US,
    expire_us=8 * SECOND_US,
    logged=True,
)


def reboot(hall: Hall, disk: Disk, limits: Limits | None = None, down_us: int = 0) -> Hall:
    """Everything commits, the hall dies, and a new one opens `down_us` later."""
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(limits, epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us + down_us
    again.core.restore(loaded)
    again.turn()
    return again


def submit(hall: Hall, name: str, *parents: ParentRef, terms: Terms = BACKGROUND) -> Job:
    return hall.submit(name, key=name, terms=terms, parents=parents)


def found(hall: Hall, job: Job) -> Job:
    again = hall.core.find(job.id)
    assert again is not None
    return again


def finish(hall: Hall, worker: Person, name: str) -> None:
    hall.core.finish(worker.takes(name), b"")
    hall.turn()


def test_an_empty_store_opens_an_empty_hall(hall: Hall) -> None:
    assert reboot(hall, Disk()).core.jobs == {}


def test_everything_about_a_job_comes_back(hall: Hall) -> None:
    bob = hall.worker("bob")
    spec = JobSpec(b"q", b"payload", b"k", FULL, extras={"reducer": b"sum"})
    job = hall.core.submit(spec, None)
    for _ in range(2):
        hall.core.fail(bob.takes("payload"))
        hall.after(2 * SECOND_US)
    bob.takes("payload")
    bob.leaves()
    again = found(reboot(hall, Disk()), job)
    assert again is not job
    assert (again.id, again.queue.name, again.key, again.payload) == (job.id, b"q", b"k", b"payload")
    assert again.terms.as_tuple() == FULL.as_tuple()
    assert (again.state, again.created_us, again.extras) == (QUEUED, job.created_us, {"reducer": b"sum"})
    assert (again.attempts, again.failures, again.losses) == (3, 2, 1)
    assert (again.worker_name, again.started_us) == (job.worker_name, job.started_us)
    assert [code for _, _, _, code, _ in again.tries or []] == [FAILURE, FAILURE, LOST]
    assert again.tries == job.tries
    assert again.stored


def test_ids_are_never_used_twice(hall: Hall) -> None:
    disk = Disk()
    seen = [submit(hall, name).id for name in "abc"]
    for _ in range(3):
        hall = reboot(hall, disk)
        seen.append(submit(hall, f"new {len(seen)}").id)
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


def test_older_jobs_go_first(hall: Hall) -> None:
    for name in ("a", "b", "c"):
        submit(hall, name)
    again = reboot(hall, Disk())
    submit(again, "d")
    bob = again.worker("bob")
    for name in ("a", "b", "c", "d"):
        bob.takes(name)


def test_a_leased_job_is_ready_again_and_a_foreground_job_is_gone(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("foreground", by=ann)
    hall.submit("memory only", terms=DETACHED)
    job = submit(hall, "durable")
    for name in ("foreground", "memory only", "durable"):
        bob.takes(name)
    again = reboot(hall, Disk())
    assert list(again.core.jobs) == [job.id]
    assert found(again, job).state == QUEUED


def test_keys_come_back(hall: Hall) -> None:
    submit(hall, "a")
    again = reboot(hall, Disk())
    joined = again.submit("another", key="a", terms=BACKGROUND)
    assert joined.payload == b"a"
    assert again.core.counters.joined == 1


def test_delayed_jobs_stay_delayed_or_are_due(hall: Hall) -> None:
    soon = hall.submit("soon", terms=BACKGROUND, due_us=START_US + 10 * SECOND_US)
    later = hall.submit("later", terms=BACKGROUND, due_us=START_US + 60 * SECOND_US)
    again = reboot(hall, Disk(), down_us=30 * SECOND_US)
    bob = again.worker("bob")
    bob.sleeps()
    again.after(0)
    bob.hears("woken")
    assert (found(again, soon).state, found(again, later).state) == (QUEUED, DELAYED)
    bob.takes("soon")
    again.after(30 * SECOND_US)
    bob.takes("later")


def test_a_backoff_goes_on_where_it_was(hall: Hall) -> None:
    job = submit(hall, "a", terms=FULL)
    hall.core.fail(hall.worker("bob").takes("a"))
    again = reboot(hall, Disk())
    assert (found(again, job).state, found(again, job).due_us) == (DELAYED, START_US + SECOND_US)
    again.after(SECOND_US)
    bob = again.worker("bob")
    again.core.fail(bob.takes("a"))
    assert found(again, job).due_us == again.core.now_us + 2 * SECOND_US


def test_ended_jobs_are_found_with_how_they_ended(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.me.name = b"bob"
    jobs = [submit(hall, name) for name in ("good", "bad", "ugly")]
    finish(hall, bob, "good")
    hall.core.fail(bob.takes("bad"), 77)
    hall.core.cancel(jobs[2])
    again = reboot(hall, Disk())
    assert again.core.jobs == {}
    ends = [found(again, job) for job in jobs]
    assert [job.state for job in ends] == [DONE, FAILED, CANCELLED]
    assert [job.code for job in ends] == [0, 77, CALLED_OFF]
    assert [job.worker_name for job in ends] == [b"bob", b"bob", b""]
    assert [job.attempts for job in ends] == [1, 1, 0]
    assert all(job.ended_us == START_US and job.logged and not job.stored for job in ends)


def test_a_dead_letter_can_be_retried_after_a_restart(hall: Hall) -> None:
    disk = Disk()
    job = submit(hall, "a")
    hall.core.fail(hall.worker("bob").takes("a"))
    again = reboot(hall, disk)
    again.core.retry(found(again, job))
    last = reboot(again, disk)
    assert list(last.core.jobs) == [job.id]
    assert disk.history == {}
    finish(last, last.worker("carl"), "a")
    disk.apply(last.commit())
    assert [end.state for end in disk.history.values()] == [DONE]


def test_what_was_restored_is_not_written_again(hall: Hall) -> None:
    submit(hall, "a")
    submit(hall, "b", (b"q", b"a"))
    submit(hall, "c", (b"q", b"unborn"))
    assert reboot(hall, Disk()).commit().empty


# --- held jobs


def test_a_held_job_waits_for_a_parent_that_came_back_too(hall: Hall) -> None:
    parent = submit(hall, "parent")
    by_id = submit(hall, "by id", parent.id)
    by_key = submit(hall, "by key", (b"q", b"parent"))
    again = reboot(hall, Disk())
    assert [found(again, job).state for job in (by_id, by_key)] == [HELD, HELD]
    bob = again.worker("bob")
    for name in ("parent", "by id", "by key"):
        finish(again, bob, name)


def test_a_held_job_waits_for_a_parent_that_never_came(hall: Hall) -> None:
    child = submit(hall, "child", (b"q", b"unborn"))
    again = reboot(hall, Disk())
    assert found(again, child).parents == {(b"q", b"unborn"): None}
    submit(again, "unborn")
    bob = again.worker("bob")
    finish(again, bob, "unborn")
    finish(again, bob, "child")


def test_a_parent_that_came_after_its_child_was_stored(hall: Hall) -> None:
    disk = Disk()
    child = submit(hall, "child", (b"q", b"late"))
    disk.apply(hall.commit())
    submit(hall, "late")
    again = reboot(hall, disk)
    bob = again.worker("bob")
    finish(again, bob, "late")
    assert found(again, child).state == QUEUED


def test_a_parent_that_succeeded_was_met_before_the_restart(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    parents = [submit(hall, name) for name in "ab"]
    child = submit(hall, "child", *[job.id for job in parents])
    disk.apply(hall.commit())
    finish(hall, bob, "a")
    again = reboot(hall, disk)
    assert list(found(again, child).parents or ()) == [parents[1].id]
    finish(again, again.worker("carl"), "b")
    assert found(again, child).state == QUEUED


def test_a_row_whose_parent_succeeded_already_is_released_and_noted(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    parent = submit(hall, "parent")
    child = submit(hall, "child", parent.id)
    disk.apply(hall.commit())
    finish(hall, bob, "parent")
    disk.apply(hall.commit())
    # As a store would hold it that keeps more than it must.
    disk.live[child.id] = disk.live[child.id]._replace(state=HELD, parents=(parent.id,))
    again = reboot(hall, disk)
    assert found(again, child).state == QUEUED
    assert [update.id for update in again.commit().updates] == [child.id]


def test_a_held_job_with_a_due_time_keeps_it(hall: Hall) -> None:
    due_us = START_US + 100 * SECOND_US
    parent = submit(hall, "parent")
    child = hall.submit("child", terms=BACKGROUND, parents=(parent.id,), due_us=due_us)
    again = reboot(hall, Disk())
    finish(again, again.worker("bob"), "parent")
    assert (found(again, child).state, found(again, child).due_us) == (DELAYED, due_us)


def test_a_child_that_holds_for_a_failed_parent_holds_on(hall: Hall) -> None:
    keep = Terms(durable=True, detached=True, on_parent_failure=HOLD)
    parent = submit(hall, "parent")
    child = submit(hall, "child", parent.id, terms=keep)
    hall.core.fail(hall.worker("bob").takes("parent"))
    again = reboot(hall, Disk())
    assert found(again, child).state == HELD
    again.core.retry(found(again, parent))
    bob = again.worker("bob")
    finish(again, bob, "parent")
    finish(again, bob, "child")


@pytest.mark.parametrize(("policy", "state"), [(FAIL_WITH_PARENT, FAILED), (RUN_ANYWAY, QUEUED), (HOLD, HELD)])
def test_a_parent_that_is_gone_for_good_has_failed(hall: Hall, policy: int, state: int) -> None:
    """A foreground parent without a name dies with the hall: nobody could ever say that it succeeded."""
    ann = hall.person("ann")
    parent = hall.submit("parent", by=ann)
    child = submit(hall, "child", parent.id, terms=Terms(durable=True, detached=True, on_parent_failure=policy))
    again = reboot(hall, Disk())
    again.turn()
    assert found(again, child).state == state


def test_a_foreground_parent_may_come_again_under_its_name(hall: Hall) -> None:
    ann = hall.person("ann")
    parent = hall.submit("parent", key="parent", by=ann)
    child = submit(hall, "child", parent.id)
    again = reboot(hall, Disk())
    assert found(again, child).parents == {(b"q", b"parent"): None}
    submit(again, "parent")
    bob = again.worker("bob")
    finish(again, bob, "parent")
    finish(again, bob, "child")


def test_only_so_many_ended_jobs_are_kept_in_memory(hall: Hall) -> None:
    jobs = [submit(hall, str(number)) for number in range(10)]
    for job in jobs:
        hall.core.cancel(job)
    again = reboot(hall, Disk(), Limits(ended_max=3))
    assert [again.core.find(job.id) is not None for job in jobs] == [False] * 7 + [True] * 3


def test_many_restarts_lose_nothing(hall: Hall) -> None:
    disk = Disk()
    for round_number in range(10):
        for number in range(10):
            submit(hall, f"{round_number}/{number}")
        bob = hall.worker("bob")
        for _ in range(7):
            lease = hall.core.take(bob.me)
            assert lease is not None
            hall.core.finish(lease, b"")
        hall = reboot(hall, disk)
        assert len(hall.core.jobs) == 3 * (round_number + 1)
        assert len(disk.history) == 7 * (round_number + 1)
