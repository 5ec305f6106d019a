"""What residents hold is on disk, and still their own when the hall opens again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, START_US, Disk, Hall, name_of, refused
from resident_stories import WATCHED_OVER, resident, submit_all, take

from hiringhall.core.errors import HALL_FULL, STALE_LEASE
from hiringhall.core.limits import Limits
from hiringhall.core.states import CANCELLED, DELAYED, FAILED, LEASED, QUEUED, TIMED_OUT, WITHDRAWN
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job


def reboot(hall: Hall, disk: Disk, limits: Limits | None = None, down_us: int = 0) -> Hall:
    """Everything commits, the hall dies, and a new one opens `down_us` later."""
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(limits, epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us + down_us
    again.core.restore(loaded)
    again.turn()
    return again


def found(hall: Hall, job: Job) -> Job:
    again = hall.core.find(job.id)
    assert again is not None
    return again


def waiting(hall: Hall, queue: str = "q") -> list[str]:
    return [name_of(job) for lane in hall.core.queue(queue.encode()).lanes for job in lane.waiting()]


# --- what the store is told


def test_who_has_a_job_is_stored(hall: Hall) -> None:
    (job,) = submit_all(hall, "a")
    hall.commit()
    hall.after(5)
    take(hall, "bob", "a")
    (update,) = hall.commit().updates
    assert (update.id, update.state, update.holder) == (job.id, LEASED, b"bob")
    assert (update.attempts, update.started_us) == (1, START_US + 5)
    assert hall.commit().empty


def test_there_is_no_hurry_to_store_who_has_a_job(hall: Hall) -> None:
    """Most are done before that is written: then it costs no row."""
    jobs = submit_all(hall, "abcd")
    hall.commit()
    leases = [take(hall, "bob", name) for name in "abcd"]
    assert hall.core.seal().empty
    assert hall.core.ledger.has_deferred
    hall.core.finish(leases[0], b"")
    hall.core.release(leases[1])
    hall.core.cancel(jobs[2])
    batch = hall.commit()
    assert sorted(batch.deletes) == [jobs[0].id, jobs[2].id]
    assert [(update.id, update.holder) for update in batch.updates] == [(jobs[1].id, b""), (jobs[3].id, b"bob")]
    assert hall.commit().empty


def test_whatever_else_is_written_of_a_job_says_who_has_it(hall: Hall) -> None:
    submit_all(hall, "a")
    take(hall, "bob", "a")
    assert [row.holder for row in hall.core.seal().inserts] == [b"bob"]


def test_a_job_that_came_and_was_taken_within_one_commit_is_one_row(hall: Hall) -> None:
    submit_all(hall, "a")
    take(hall, "bob", "a")
    batch = hall.commit()
    assert [(row.state, row.holder, row.attempts, row.started_us) for row in batch.inserts] == [
        (LEASED, b"bob", 1, START_US)
    ]
    assert not batch.updates


def test_a_job_that_a_connection_has_is_nobodys_on_disk(hall: Hall) -> None:
    submit_all(hall, "a")
    bob = hall.worker("bob")
    bob.me.name = b"bob"
    bob.takes("a")
    assert [row.holder for row in hall.commit().inserts] == [b""]


def test_a_job_in_memory_is_not_stored_because_a_resident_has_it(hall: Hall) -> None:
    hall.submit("a")
    take(hall, "bob", "a")
    assert hall.commit().empty


def test_a_join_stores_who_has_the_job(hall: Hall) -> None:
    hall.submit("a", key="a")
    take(hall, "bob", "a")
    hall.submit("a", key="a", terms=BACKGROUND)
    assert [row.holder for row in hall.commit().inserts] == [b"bob"]


@pytest.mark.parametrize("how", ["release", "retire", "fail", "silence", "another takes it"])
def test_a_job_that_came_back_is_nobodys_on_disk(hall: Hall, how: str) -> None:
    disk = Disk()
    terms = Terms(durable=True, detached=True, failures_max=1, backoff_us=HOUR_US, lease_us=SECOND_US)
    (job,) = submit_all(hall, "a", terms)
    lease = take(hall, "bob", "a")
    disk.apply(hall.commit())
    if how == "retire":
        hall.core.residents.retire(resident(hall, "bob"))
    elif how == "fail":
        hall.core.fail(lease)
    elif how == "silence":
        hall.after(SECOND_US)
    else:
        hall.core.release(lease)
    if how == "another takes it":
        hall.worker("carl").takes("a")
    disk.apply(hall.commit())
    assert disk.live[job.id].holder == b""
    assert disk.live[job.id].state == {"fail": DELAYED, "another takes it": LEASED}.get(how, QUEUED)


def test_a_job_that_went_from_one_resident_to_the_next(hall: Hall) -> None:
    submit_all(hall, "a")
    hall.core.release(take(hall, "bob", "a"))
    take(hall, "carl", "a")
    assert [(row.holder, row.attempts) for row in hall.commit().inserts] == [(b"carl", 2)]


# --- a new hall


def test_what_a_resident_held_is_still_its_own(hall: Hall) -> None:
    disk = Disk()
    jobs = submit_all(hall, "abcd")
    hall.after(5)
    for who, what in (("bob", "a"), ("carl", "b"), ("bob", "c")):
        take(hall, who, what)
    again = reboot(hall, disk, down_us=HOUR_US)
    bob, carl = again.core.residents.find(b"q", b"bob"), again.core.residents.find(b"q", b"carl")
    assert bob is not None
    assert carl is not None
    assert list(again.core.table.residents) == [(b"q", b"bob"), (b"q", b"carl")]
    held = [[job.id for job in worker.leases] for worker in (bob, carl)]
    assert held == [[jobs[0].id, jobs[2].id], [jobs[1].id]]
    assert again.core.queue(b"q").counts() == (4, 3, 2)
    for job in jobs[:3]:
        restored = found(again, job)
        assert (restored.state, restored.attempts, restored.losses) == (LEASED, 1, 0)
        assert restored.started_us == START_US + 5, "the attempt goes on; it did not start again"
        assert restored.worker_name == job.worker_name
        assert restored.stored
    assert waiting(again) == ["d"]
    assert again.commit().empty
    for worker, job in ((bob, jobs[0]), (carl, jobs[1]), (bob, jobs[2])):
        again.core.finish(again.core.find_lease(worker, job.id), b"")
    disk.apply(again.commit())
    assert sorted(disk.live) == [jobs[3].id]
    assert [(end.worker, end.started_us) for end in disk.history.values()] == [
        (b"bob", START_US + 5),
        (b"carl", START_US + 5),
        (b"bob", START_US + 5),
    ]


def test_residents_of_two_queues_with_one_name_are_two(hall: Hall) -> None:
    hall.submit("a", "p", terms=BACKGROUND)
    hall.submit("b", "q", terms=BACKGROUND)
    take(hall, "bob", "a", "p")
    take(hall, "bob", "b", "q")
    again = reboot(hall, Disk())
    assert list(again.core.table.residents) == [(b"p", b"bob"), (b"q", b"bob")]
    assert [len(worker.leases) for worker in again.core.table.residents.values()] == [1, 1]


def test_many_restarts_change_nothing(hall: Hall) -> None:
    disk = Disk()
    jobs = submit_all(hall, "ab")
    take(hall, "bob", "a")
    for _ in range(5):
        hall = reboot(hall, disk, down_us=SECOND_US)
        assert [(found(hall, job).state, found(hall, job).attempts) for job in jobs] == [
            (LEASED, 1),
            (QUEUED, 0),
        ]
    hall.core.release(hall.core.find_lease(resident(hall, "bob"), jobs[0].id))
    hall = reboot(hall, disk)
    assert waiting(hall) == ["a", "b"]
    assert hall.core.table.residents == {}
    assert found(hall, jobs[0]).attempts == 1


def test_silence_counts_from_the_opening(hall: Hall) -> None:
    (job,) = submit_all(hall, "a", WATCHED_OVER)
    take(hall, "bob", "a")
    again = reboot(hall, Disk(), down_us=HOUR_US)
    again.after(10 * SECOND_US - 1)
    assert found(again, job).state == LEASED
    again.core.beat(resident(again, "bob"))
    again.after(10 * SECOND_US - 1)
    assert found(again, job).state == LEASED
    again.after(1)
    assert (found(again, job).state, found(again, job).losses) == (QUEUED, 1)
    assert again.core.residents.find(b"q", b"bob") is not None


def test_the_run_limit_of_a_job_holds_after_a_restart(hall: Hall) -> None:
    (job,) = submit_all(hall, "a", Terms(durable=True, detached=True, run_us=10 * SECOND_US))
    take(hall, "bob", "a")
    again = reboot(hall, Disk(), down_us=SECOND_US)
    again.core.beat(resident(again, "bob"))
    again.after(10 * SECOND_US)
    assert (found(again, job).state, found(again, job).code) == (FAILED, TIMED_OUT)


def test_a_restored_lease_without_limits_lasts(hall: Hall) -> None:
    (job,) = submit_all(hall, "a")
    take(hall, "bob", "a")
    again = reboot(hall, Disk())
    assert again.core.next_deadline() == 0
    again.after(1000 * HOUR_US)
    assert found(again, job).state == LEASED


def test_more_residents_than_today_are_allowed_come_back(hall: Hall) -> None:
    submit_all(hall, "abc")
    for name in "abc":
        take(hall, name, name)
    again = reboot(hall, Disk(), Limits(residents_max=2))
    assert len(again.core.table.residents) == 3
    with refused(HALL_FULL):
        resident(again, "d")
    assert resident(again, "b").name == b"b"


def test_who_retires_after_a_restart_gives_back_in_order(hall: Hall) -> None:
    submit_all(hall, "abcd")
    for name in "abc":
        take(hall, "bob", name)
    again = reboot(hall, Disk())
    again.core.residents.retire(resident(again, "bob"))
    again.turn()
    assert waiting(again) == ["a", "b", "c", "d"]


def test_losses_survive_a_restart(hall: Hall) -> None:
    disk = Disk()
    (job,) = submit_all(hall, "a", WATCHED_OVER)
    for _ in range(2):
        take(hall, "bob", "a")
        hall = reboot(hall, disk)
        hall.after(10 * SECOND_US)
    assert (found(hall, job).losses, found(hall, job).attempts) == (2, 2)


def test_the_job_of_a_resident_is_cancelled(hall: Hall) -> None:
    disk = Disk()
    job, other = submit_all(hall, "ab")
    lease = take(hall, "bob", "a")
    take(hall, "bob", "b")
    disk.apply(hall.commit())
    hall.core.cancel(job)
    disk.apply(hall.commit())
    assert (job.state, list(resident(hall, "bob").leases)) == (CANCELLED, [other])
    with refused(STALE_LEASE):
        hall.core.finish(lease, b"")
    again = reboot(hall, disk)
    assert list(again.core.jobs) == [other.id]


# --- the commit fails


def test_a_newcomer_that_a_resident_has_is_taken_back(hall: Hall) -> None:
    job, other = submit_all(hall, "ab")
    lease = take(hall, "bob", "a")
    assert hall.commit_fails() == ["a", "b"]
    assert [(job.state, job.code) for job in (job, other)] == [(CANCELLED, WITHDRAWN)] * 2
    assert resident(hall, "bob").leases == {}
    with refused(STALE_LEASE):
        hall.core.finish(lease, b"")
    assert hall.commit().empty


def test_a_newcomer_that_somebody_watches_stays_with_its_resident(hall: Hall) -> None:
    ann = hall.person("ann")
    job = hall.submit("a", by=ann, terms=BACKGROUND)
    lease = take(hall, "bob", "a")
    assert hall.commit_fails() == ["a"]
    assert (job.state, job.lease, job.terms.durable) == (LEASED, lease, False)
    hall.core.finish(lease, b"r")
    ann.hears("done a r")
    assert hall.commit().empty


def test_a_lease_that_could_not_be_written_is_written_later(hall: Hall) -> None:
    disk = Disk()
    (job,) = submit_all(hall, "a")
    disk.apply(hall.commit())
    take(hall, "bob", "a")
    assert hall.commit_fails() == []
    again = reboot(hall, disk)
    assert (found(again, job).state, found(again, job).worker_name) == (LEASED, b"bob")


def test_a_lease_that_was_never_written_dies_with_the_hall(hall: Hall) -> None:
    disk = Disk()
    (job,) = submit_all(hall, "a")
    disk.apply(hall.commit())
    take(hall, "bob", "a")
    again = reboot(Hall(), disk)
    assert (found(again, job).state, found(again, job).attempts) == (QUEUED, 0)
    assert again.core.table.residents == {}
