"""Jobs in memory whose ends go to the history: nobody waits for that, and nothing is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, DETACHED, FOREGROUND, Disk, Hall, Person

from hiringhall.core.states import CANCELLED, DONE, FAILED
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

LOGGED = Terms(logged=True)
KEPT = Terms(logged=True, detached=True)


def finish(hall: Hall, worker: Person, name: str, result: bytes = b"") -> None:
    hall.core.finish(worker.takes(name), result)
    hall.turn()


def test_the_end_of_a_job_in_memory_is_a_line_of_the_history(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    bob.me.name = b"bob"
    job = hall.submit("a", by=ann, key="k", terms=LOGGED)
    hall.after(5)
    lease = bob.takes("a")
    hall.after(7)
    assert hall.core.seal().empty, "until it ends the store hears nothing of it"
    hall.core.finish(lease, b"r")
    ann.hears("done a r")
    batch = hall.commit()
    (end,) = batch.ends
    assert (end.id, end.queue, end.key, end.state, end.result) == (job.id, b"q", b"k", DONE, b"r")
    assert (end.worker, end.created_us, end.started_us, end.ended_us) == (
        b"bob",
        job.created_us,
        job.created_us + 5,
        job.created_us + 12,
    )
    assert (batch.inserts, batch.updates, batch.deletes, batch.revived) == ([], [], [], [])
    assert end.terms is LOGGED
    assert hall.commit().empty


@pytest.mark.parametrize("how", ["fail", "cancel", "leave", "expire"])
def test_so_is_every_other_end(hall: Hall, how: str) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, terms=Terms(logged=True, expire_us=10))
    if how == "fail":
        hall.core.fail(bob.takes("a"), 9, b"why")
        ann.hears("failed a 9 why")
    elif how == "cancel":
        hall.core.cancel(job, b"changed my mind")
        ann.hears("cancelled a changed my mind")
    elif how == "expire":
        hall.after(10)
        ann.hears("cancelled a no worker took it in time")
    else:
        ann.leaves()
    (end,) = hall.commit().ends
    assert (end.state, end.code, end.result) == (job.state, job.code, end.result)
    assert end.state == (FAILED if how == "fail" else CANCELLED)
    assert end.payload == b"", "it is no dead letter: nothing runs it again"


def test_whether_a_job_is_logged_is_its_own_affair(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    hall.submit("quiet", by=ann, terms=FOREGROUND)
    hall.submit("loud", by=ann, terms=LOGGED)
    finish(hall, bob, "quiet")
    finish(hall, bob, "loud")
    ann.hears("done quiet", "done loud")
    assert [end.id for end in hall.commit().ends] == [hall.core.table.last_id]


def kept_end(hall: Hall, result: bytes = b"result") -> Job:
    """A logged job that can still be found when it has ended."""
    bob = hall.worker("bob")
    job = hall.submit("a", key="k", terms=KEPT)
    finish(hall, bob, "a", result)
    assert hall.core.find(job.id) is job
    return job


def test_its_result_can_be_read_until_the_history_has_it(hall: Hall) -> None:
    job = kept_end(hall)
    batch = hall.core.seal()
    assert (job.result, job.logged) == (b"result", False)
    hall.core.committed(batch)
    assert (job.result, job.payload, job.logged) == (b"", b"", True)
    assert hall.core.find(job.id) is job


def test_one_without_a_key_can_be_found_too_until_the_history_has_it(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=KEPT)
    finish(hall, bob, "a", b"r")
    found = hall.core.find(job.id)
    assert found is job, "it is not yet in the history: where else should one look?"
    assert found.result == b"r"


def test_a_failure_in_memory_keeps_nothing_to_run_it_again(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", key="k", terms=KEPT)
    hall.core.fail(bob.takes("a"))
    hall.commit()
    assert (job.state, job.payload, job.result) == (FAILED, b"", b"")


# --- the store is in trouble


def in_trouble(hall: Hall) -> None:
    hall.submit("durable", terms=BACKGROUND)
    assert hall.commit_fails() == ["durable"]


def test_in_trouble_ends_are_dropped_and_nobody_is_stopped(hall: Hall) -> None:
    in_trouble(hall)
    ann, bob = hall.person("ann"), hall.worker("bob")
    for number in range(100):
        hall.submit(str(number), by=ann, terms=LOGGED)
        finish(hall, bob, str(number))
    ann.hears(*[f"done {number}" for number in range(100)])
    assert len(hall.core.ledger) == 0
    assert hall.commit().empty
    assert hall.core.store_trouble == ""
    hall.submit("again", by=ann, terms=LOGGED)
    finish(hall, bob, "again")
    ann.hears("done again")
    assert len(hall.commit().ends) == 1


def test_in_trouble_no_result_is_kept_for_a_history_that_does_not_come(hall: Hall) -> None:
    in_trouble(hall)
    job = kept_end(hall)
    assert (job.result, job.payload) == (b"", b"")


def test_an_end_whose_commit_fails_is_dropped_with_its_result(hall: Hall) -> None:
    job = kept_end(hall, b"x" * 1000)
    assert hall.commit_fails() == [], "nobody was promised anything"
    assert (job.result, job.payload) == (b"", b"")
    assert hall.commit().empty
    assert hall.core.find(job.id) is job


def test_an_end_of_the_time_of_a_commit_that_fails(hall: Hall) -> None:
    """It was noted while nobody knew of the trouble: it is written when the store works again, once."""
    disk = Disk()
    hall.submit("durable", terms=BACKGROUND)
    batch = hall.core.seal()
    bob = hall.worker("bob")
    hall.submit("a", key="k", terms=KEPT)
    bob.takes("durable")
    finish(hall, bob, "a")
    assert hall.fail_commit(batch) == ["durable"]
    bob.hears("revoked durable")
    disk.apply(hall.commit())
    assert len(disk.history) <= 1
    assert hall.commit().empty


def test_a_logged_job_that_became_durable_is_taken_back_as_any_other(hall: Hall) -> None:
    ann, bob = hall.person("ann"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k", terms=LOGGED)
    hall.submit("a", key="k", terms=BACKGROUND)
    assert hall.commit_fails() == ["a"]
    assert job.terms is LOGGED
    hall.commit()
    finish(hall, bob, "a", b"r")
    ann.hears("done a r")
    (end,) = hall.commit().ends
    assert (end.result, end.terms) == (b"r", LOGGED)


def test_a_job_joined_by_somebody_whose_door_logs_is_logged(hall: Hall) -> None:
    ann, eve, bob = hall.person("ann"), hall.person("eve"), hall.worker("bob")
    job = hall.submit("a", by=ann, key="k")
    assert hall.submit("a", by=eve, key="k", terms=LOGGED) is job
    finish(hall, bob, "a")
    ann.hears("done a")
    eve.hears("done a")
    assert [end.id for end in hall.commit().ends] == [job.id]


# --- other jobs, and later


def test_a_logged_end_is_no_memory_after_a_restart_but_can_be_found(hall: Hall) -> None:
    disk = Disk()
    job = kept_end(hall)
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.restore(loaded)
    again.turn()
    assert again.core.jobs == {}
    found = again.core.find(job.id)
    assert found is not None
    assert (found.state, found.logged, found.terms.durable) == (DONE, True, False)


def test_a_logged_parent_is_met_for_a_durable_child(hall: Hall) -> None:
    bob = hall.worker("bob")
    parent = hall.submit("parent", terms=KEPT)
    child = hall.submit("child", terms=BACKGROUND, parents=(parent.id,))
    finish(hall, bob, "parent")
    finish(hall, bob, "child")
    assert child.state == DONE
    assert sorted(end.id for end in hall.commit().ends) == [parent.id, child.id]


def test_a_detached_job_that_is_not_logged_keeps_no_result(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", key="k", terms=DETACHED)
    finish(hall, bob, "a", b"r")
    assert (job.result, job.payload) == (b"", b"")
    assert hall.commit().empty
