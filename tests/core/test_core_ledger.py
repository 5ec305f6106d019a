"""What the store is told: the net effect of a turn; and what happens when it could not take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, DETACHED, SECOND_US, Disk, Hall, Person

from hiringhall.core.states import CANCELLED, DELAYED, DONE, FAILED, HELD, LEASED, QUEUED, WITHDRAWN
from hiringhall.core.terms import HOLD, Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

RETRIED = Terms(durable=True, detached=True, failures_max=3, backoff_us=SECOND_US)


def finish(hall: Hall, worker: Person, name: str, result: bytes = b"") -> None:
    hall.core.finish(worker.takes(name), result)


# --- net effect


def test_foreground_jobs_are_no_business_of_the_stores(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("a", by=ann)
    finish(hall, bob, "a")
    ann.hears("done a")
    assert hall.commit().empty


def test_a_new_job_is_one_row_with_all_it_takes_to_run_it(hall: Hall) -> None:
    job = hall.submit("a", key="k", terms=BACKGROUND)
    batch = hall.commit()
    (row,) = batch.inserts
    assert (row.id, row.queue, row.key, row.payload) == (job.id, b"q", b"k", b"a")
    assert row.terms is BACKGROUND
    assert (row.state, row.created_us, row.due_us, row.parents) == (QUEUED, job.created_us, 0, ())
    assert (batch.updates, batch.deletes, batch.ends, batch.revived) == ([], [], [], [])
    assert job.stored
    assert hall.commit().empty


def test_a_job_that_came_and_ended_within_one_commit_is_one_line_of_history(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.me.name = b"bob"
    job = hall.submit("a", key="k", terms=BACKGROUND)
    hall.after(5)
    finish(hall, bob, "a", b"result")
    batch = hall.commit()
    assert (batch.inserts, batch.updates, batch.deletes) == ([], [], [])
    (end,) = batch.ends
    assert (end.id, end.queue, end.key, end.state, end.code) == (job.id, b"q", b"k", DONE, 0)
    assert (end.result, end.worker, end.attempts, end.payload) == (b"result", b"bob", 1, b"a")
    assert (end.created_us, end.started_us, end.ended_us) == (job.created_us, job.started_us, job.ended_us)
    assert job.logged
    assert not job.stored


def test_the_end_of_a_stored_job_moves_it_to_the_history(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.commit()
    finish(hall, bob, "a")
    batch = hall.commit()
    assert batch.deletes == [job.id]
    assert [end.state for end in batch.ends] == [DONE]


def test_a_dead_letter_keeps_what_it_takes_to_run_it_again(hall: Hall) -> None:
    hall.submit("a", terms=BACKGROUND)
    hall.core.fail(hall.worker("bob").takes("a"), 9, b"why")
    (end,) = hall.commit().ends
    assert (end.state, end.code, end.result, end.payload) == (FAILED, 9, b"why", b"a")


def test_a_cancelled_job_tells_the_history_why(hall: Hall) -> None:
    hall.core.cancel(hall.submit("a", terms=BACKGROUND), b"changed my mind")
    (end,) = hall.commit().ends
    assert (end.state, end.result, end.payload) == (CANCELLED, b"changed my mind", b"a")


def test_a_lease_is_not_stored(hall: Hall) -> None:
    hall.submit("a", terms=BACKGROUND)
    hall.commit()
    hall.worker("bob").takes("a")
    assert hall.commit().empty


def test_what_changes_without_an_end_is_an_update(hall: Hall) -> None:
    job = hall.submit("a", terms=RETRIED)
    hall.commit()
    bob = hall.worker("bob")
    hall.core.fail(bob.takes("a"))
    (update,) = hall.commit().updates
    assert (update.id, update.state, update.due_us) == (job.id, DELAYED, hall.core.now_us + SECOND_US)
    assert (update.attempts, update.failures, update.losses) == (1, 1, 0)
    hall.after(SECOND_US)
    (update,) = hall.commit().updates
    assert (update.state, update.due_us) == (QUEUED, 0)
    bob.takes("a")
    bob.leaves()
    (update,) = hall.commit().updates
    assert (update.state, update.attempts, update.losses) == (QUEUED, 2, 1)


def test_the_row_of_a_held_job_names_those_it_waits_for(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = hall.submit("parent", terms=BACKGROUND)
    child = hall.submit("child", terms=BACKGROUND, parents=(parent.id, (b"p", b"unborn")), due_us=1)
    inserts = hall.commit().inserts
    assert (inserts[1].state, inserts[1].parents, inserts[1].due_us) == (
        HELD,
        (parent.id, (b"p", b"unborn")),
        1,
    )
    finish(hall, bob, "parent")
    (update,) = hall.commit().updates
    assert (update.id, update.state, update.parents) == (child.id, HELD, ((b"p", b"unborn"),))


def test_many_changes_are_one_row(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=RETRIED)
    for _ in range(3):
        hall.core.fail(bob.takes("a"))
        hall.after(10 * SECOND_US)
    batch = hall.commit()
    assert [(row.state, row.failures) for row in batch.inserts] == [(QUEUED, 3)]
    assert not batch.updates


def test_changes_during_a_commit_belong_to_the_next(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    batch = hall.core.seal()
    finish(hall, bob, "a", b"quick")
    hall.turn()
    hall.core.committed(batch)
    second = hall.commit()
    assert second.deletes == [job.id]
    assert [end.result for end in second.ends] == [b"quick"]


# --- dead letters that run again


def test_a_retried_dead_letter_leaves_the_history(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    disk.apply(hall.commit())
    hall.core.fail(bob.takes("a"))
    disk.apply(hall.commit())
    assert list(disk.history) == [job.id]
    hall.core.retry(job)
    batch = hall.commit()
    disk.apply(batch)
    assert batch.revived == [job.id]
    assert (list(disk.live), list(disk.history)) == ([job.id], [])
    finish(hall, bob, "a")
    disk.apply(hall.commit())
    assert [end.state for end in disk.history.values()] == [DONE]


def test_a_dead_letter_retried_and_done_within_one_commit_is_done_in_the_history(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.fail(bob.takes("a"))
    disk.apply(hall.commit())
    hall.core.retry(job)
    finish(hall, bob, "a", b"at last")
    disk.apply(hall.commit())
    assert [(end.state, end.result) for end in disk.history.values()] == [(DONE, b"at last")]


def test_a_dead_letter_retried_before_its_end_is_on_disk(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    disk.apply(hall.commit())
    hall.core.fail(bob.takes("a"))
    batch = hall.core.seal()
    hall.core.retry(job)
    hall.turn()
    hall.core.committed(batch)
    disk.apply(batch)
    disk.apply(hall.commit())
    assert (list(disk.live), list(disk.history)) == ([job.id], [])
    assert job.payload == b"a"


def test_a_dead_letter_retried_and_failed_within_one_turn_changes_only_its_line(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    disk.apply(hall.commit())
    hall.core.fail(bob.takes("a"), 1)
    hall.core.retry(job)
    hall.core.fail(bob.takes("a"), 2)
    disk.apply(hall.commit())
    assert [(end.state, end.code) for end in disk.history.values()] == [(FAILED, 2)]


# --- the commit fails


def test_newcomers_are_taken_back(hall: Hall) -> None:
    jobs = [hall.submit(name, key=name, terms=BACKGROUND) for name in "ab"]
    assert hall.commit_fails("no space") == ["a", "b"]
    assert hall.core.store_trouble == "no space"
    assert [(job.state, job.code) for job in jobs] == [(CANCELLED, WITHDRAWN)] * 2
    assert hall.core.jobs == {}
    assert [hall.core.find(job.id) for job in jobs] == [None, None]
    assert hall.core.counters.withdrawn == 2
    assert hall.commit().empty
    assert hall.core.store_trouble == ""


def test_those_who_came_during_the_commit_are_taken_back_too(hall: Hall) -> None:
    hall.submit("a", terms=BACKGROUND)
    batch = hall.core.seal()
    hall.submit("b", terms=BACKGROUND)
    assert hall.fail_commit(batch) == ["a", "b"]
    assert hall.commit().empty


def test_a_newcomer_that_a_worker_has_is_revoked(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=BACKGROUND)
    bob.takes("a")
    assert hall.commit_fails() == ["a"]
    bob.hears("revoked a")


def test_a_newcomer_that_was_done_meanwhile_is_forgotten(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    finish(hall, bob, "a")
    assert hall.commit_fails() == ["a"]
    assert hall.core.find(job.id) is None
    assert hall.commit().empty


def test_a_newcomer_that_was_done_during_the_commit_is_forgotten(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=BACKGROUND)
    batch = hall.core.seal()
    finish(hall, bob, "a")
    hall.turn()
    assert hall.fail_commit(batch) == ["a"]
    assert hall.commit().empty


def test_a_joined_foreground_job_survives_for_those_who_watch(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    hall.submit("a", key="k", terms=BACKGROUND)
    assert hall.commit_fails() == ["a"]
    assert job.state == QUEUED
    assert (job.terms.durable, job.terms.detached) == (False, False)
    finish(hall, bob, "a", b"r")
    ann.hears("done a r")
    assert hall.commit().empty


def test_one_whose_submit_was_refused_does_not_keep_the_job(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, terms=BACKGROUND)
    withdrawn = hall.core.withdraw(hall.core.seal(), "disk full")
    hall.core.watchers.unwatch_once(job, ann)
    hall.core.submissions.drop_withdrawn(withdrawn)
    hall.turn()
    assert job.state == CANCELLED
    assert ann.watching == {}


def test_one_refused_submit_of_two_leaves_the_other(hall: Hall) -> None:
    ann, eve, bob = hall.person("ann"), hall.person("eve"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    hall.submit("a", by=ann, key="k", terms=BACKGROUND)
    withdrawn = hall.core.withdraw(hall.core.seal(), "disk full")
    hall.core.watchers.unwatch_once(job, ann)
    hall.core.watchers.unwatch_once(job, eve)
    hall.core.submissions.drop_withdrawn(withdrawn)
    hall.turn()
    finish(hall, bob, "a", b"r")
    ann.hears("done a r")
    eve.hears()


def test_such_a_job_is_dropped_with_its_watcher(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, key="k")
    hall.submit("a", key="k", terms=BACKGROUND)
    hall.commit_fails()
    ann.leaves()
    assert job.state == CANCELLED


def test_ends_of_stored_jobs_are_noted_again(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    disk.apply(hall.commit())
    finish(hall, bob, "a", b"r")
    assert hall.commit_fails() == []
    assert job.state == DONE
    assert job.stored
    assert job.result == b"r"
    batch = hall.commit()
    disk.apply(batch)
    assert batch.deletes == [job.id]
    assert [end.result for end in disk.history.values()] == [b"r"]
    assert disk.live == {}


def test_updates_of_stored_jobs_are_noted_again(hall: Hall) -> None:
    bob = hall.worker("bob")
    hall.submit("a", terms=RETRIED)
    hall.commit()
    hall.core.fail(bob.takes("a"))
    assert hall.commit_fails() == []
    assert [update.failures for update in hall.commit().updates] == [1]


def test_a_revival_is_noted_again(hall: Hall) -> None:
    disk = Disk()
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.fail(bob.takes("a"))
    disk.apply(hall.commit())
    hall.core.retry(job)
    assert hall.commit_fails() == [], "it was acknowledged long ago"
    assert job.state == QUEUED
    batch = hall.commit()
    disk.apply(batch)
    assert batch.revived == [job.id]
    assert list(disk.live) == [job.id]


def test_trouble_in_the_middle_of_everything(hall: Hall) -> None:
    """Three kinds of jobs, and the commit fails twice before it works."""
    disk = Disk()
    bob = hall.worker("bob")
    hall.submit("stored", terms=BACKGROUND)
    dead = hall.submit("dead", terms=BACKGROUND)
    lease = bob.takes("stored")
    hall.core.fail(bob.takes("dead"))
    disk.apply(hall.commit())
    hall.core.retry(dead)
    hall.submit("new", terms=BACKGROUND)
    hall.core.finish(lease, b"r")
    assert hall.commit_fails() == ["new"]
    assert bob.takes("dead").job is dead
    assert hall.commit_fails() == []
    finish_lease = bob.holds(dead)
    hall.core.finish(finish_lease, b"")
    assert hall.commit_fails() == []
    disk.apply(hall.commit())
    assert disk.live == {}
    assert sorted(end.state for end in disk.history.values()) == [DONE, DONE]


def child_of_name(hall: Hall, on_parent_failure: int = 0) -> Job:
    terms = Terms(durable=True, detached=True, on_parent_failure=on_parent_failure)
    child = hall.submit("child", terms=terms, parents=((b"q", b"parent"),))
    hall.commit()
    return child


def test_a_stored_child_does_not_die_of_a_parent_that_was_taken_back(hall: Hall) -> None:
    """The parent was never acknowledged: it is as if it had never come, and may come again."""
    bob = hall.worker("bob")
    child = child_of_name(hall)
    hall.submit("parent", key="parent", terms=BACKGROUND)
    assert hall.commit_fails() == ["parent"]
    assert child.state == HELD
    assert child.parents == {(b"q", b"parent"): None}
    hall.commit()
    hall.submit("parent", key="parent", terms=BACKGROUND)
    finish(hall, bob, "parent")
    hall.turn()
    assert child.state == QUEUED


def test_a_holding_child_does_not_wait_for_a_failed_parent_that_was_taken_back(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = child_of_name(hall, HOLD)
    hall.submit("parent", key="parent", terms=BACKGROUND)
    hall.core.fail(bob.takes("parent"))
    assert hall.commit_fails() == ["parent"]
    assert child.parents == {(b"q", b"parent"): None}, "that parent can be neither found nor retried any more"


def test_a_job_in_work_survives_the_trouble_if_it_was_stored(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.commit()
    lease = bob.takes("a")
    assert hall.commit_fails() == []
    assert job.state == LEASED
    hall.core.finish(lease, b"")
    assert len(hall.commit().ends) == 1


def test_a_job_in_memory_lives_on_when_a_durable_join_is_taken_back(hall: Hall) -> None:
    job = hall.submit("a", key="k", terms=DETACHED)
    hall.submit("a", key="k", terms=BACKGROUND)
    assert job.terms.durable
    assert hall.commit_fails() == ["a"]
    assert (job.state, job.terms.durable, job.terms.detached) == (QUEUED, False, True)


def test_what_a_dialect_keeps_with_a_job_is_written_with_each_change_and_with_the_end(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [hall.submit(name, terms=RETRIED) for name in "abc"]
    hall.commit()
    for job in jobs:
        job.extras = {"log": job.payload}
        hall.core.release(bob.takes(job.payload.decode()))
        hall.core.take(bob.me)
    assert [update.extras for update in hall.commit().updates] == [{"log": b"a"}, {"log": b"b"}, {"log": b"c"}]
    jobs[0].extras = {"log": b"done"}
    hall.core.finish(bob.holds(jobs[0]), b"")
    hall.core.cancel(jobs[1])
    bob.hears("revoked b")
    jobs[2].failures = RETRIED.failures_max
    hall.core.fail(bob.holds(jobs[2]))
    ends = {end.id: (end.state, end.extras) for end in hall.commit().ends}
    assert [ends[job.id] for job in jobs] == [
        (DONE, {"log": b"done"}),
        (CANCELLED, {"log": b"b"}),
        (FAILED, {"log": b"c"}),
    ]
