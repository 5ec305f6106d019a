"""What a job's earlier attempts were: who had it, from when to when, and how that went."""

from __future__ import annotations

from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, START_US, Disk, Hall, Person, defer
from resident_stories import WATCHED_OVER, resident, take

from hiringhall.core.jobs import TRIES_KEPT, Job, Try
from hiringhall.core.states import CUT_SHORT, DONE, FAILED, GIVEN_BACK, LOST, QUEUED, TIMED_OUT
from hiringhall.core.terms import Terms

STUBBORN = Terms(durable=True, detached=True, failures_max=100, backoff_us=1, backoff_max_us=1, losses_max=0)


def named(hall: Hall, name: str) -> Person:
    worker = hall.worker(name)
    worker.me.name = name.encode()
    return worker


def tries_of(job: Job) -> list[Try]:
    return job.tries or []


def test_a_job_done_at_once_has_no_earlier_attempts(hall: Hall) -> None:
    bob = named(hall, "bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.finish(bob.takes("a"), b"")
    assert job.tries is None
    (end,) = hall.commit().ends
    assert (end.tries, end.worker, end.attempts) == ((), b"bob", 1)


def test_each_way_in_which_an_attempt_ends_without_ending_the_job(hall: Hall) -> None:
    bob, carl = named(hall, "bob"), named(hall, "carl")
    terms = Terms(durable=True, detached=True, failures_max=2, backoff_us=SECOND_US, run_us=HOUR_US)
    job = hall.submit("a", terms=terms)
    seen: list[Try] = []
    lease = bob.takes("a")
    hall.after(5)
    hall.core.fail(lease, 9, b"why")
    seen.append((START_US, START_US + 5, b"bob", 9, ""))
    hall.after(SECOND_US)
    started_us = hall.core.now_us
    lease = carl.takes("a")
    hall.after(7)
    hall.core.release(lease)
    seen.append((started_us, started_us + 7, b"carl", GIVEN_BACK, ""))
    lease = bob.takes("a")
    hall.core.recall(lease)
    bob.hears("revoked a")
    seen.append((hall.core.now_us, hall.core.now_us, b"bob", CUT_SHORT, ""))
    started_us = hall.core.now_us
    bob.takes("a")
    hall.after(1)
    bob.leaves()
    seen.append((started_us, started_us + 1, b"bob", LOST, ""))
    started_us = hall.core.now_us
    carl.takes("a")
    hall.after(HOUR_US)
    carl.hears("revoked a")
    seen.append((started_us, started_us + HOUR_US, b"carl", TIMED_OUT, ""))
    assert job.tries == seen
    hall.after(2 * SECOND_US)
    hall.core.finish(carl.takes("a"), b"r")
    (end,) = hall.commit().ends
    assert (end.state, end.tries, end.attempts) == (DONE, tuple(seen), 6)


def test_the_attempt_that_ends_a_job_is_its_end_and_no_try(hall: Hall) -> None:
    bob = named(hall, "bob")
    job = hall.submit("a", terms=Terms(durable=True, detached=True, losses_max=1))
    bob.takes("a")
    bob.leaves()
    assert (job.state, job.code, job.tries) == (FAILED, LOST, None)
    hall.submit("b", terms=BACKGROUND)
    carl = named(hall, "carl")
    hall.core.fail(carl.takes("b"), 3)
    assert [(end.tries, end.code) for end in hall.commit().ends] == [((), LOST), ((), 3)]


def test_a_silent_worker(hall: Hall) -> None:
    job = hall.submit("a", terms=WATCHED_OVER)
    take(hall, "bob", "a")
    hall.after(10 * SECOND_US)
    assert tries_of(job) == [(START_US, START_US + 10 * SECOND_US, b"bob", LOST, "")]


def test_a_resident_that_retires_gives_back(hall: Hall) -> None:
    job = hall.submit("a", terms=BACKGROUND)
    take(hall, "bob", "a")
    hall.core.residents.retire(resident(hall, "bob"))
    hall.turn()
    assert tries_of(job) == [(START_US, START_US, b"bob", GIVEN_BACK, "")]


def test_a_job_that_waits_for_a_parent_after_all_was_given_back(hall: Hall) -> None:
    bob = named(hall, "bob")
    job = hall.submit("a", terms=BACKGROUND)
    defer(hall.core, bob.takes("a"), ((b"q", b"unborn"),))
    hall.turn()
    assert tries_of(job) == [(START_US, START_US, b"bob", GIVEN_BACK, "")]


def test_nobody_remembers_the_tries_of_a_job_that_nobody_waits_for(hall: Hall) -> None:
    ann, bob = hall.person("ann"), named(hall, "bob")
    job = hall.submit("a", by=ann)
    lease = bob.takes("a")
    ann.leaves()
    hall.core.release(lease)
    hall.turn()
    assert (job.ended, job.tries) == (True, None)


def test_only_the_latest_are_remembered_and_all_are_counted(hall: Hall) -> None:
    bob = named(hall, "bob")
    job = hall.submit("a", terms=STUBBORN)
    for number in range(TRIES_KEPT + 5):
        hall.core.fail(bob.takes("a"), number % 255 + 1)
        hall.after(1)
    assert [code for _, _, _, code, _ in tries_of(job)] == list(range(6, TRIES_KEPT + 6))
    assert job.attempts == TRIES_KEPT + 5
    (row,) = hall.commit().inserts
    assert row.tries == tuple(tries_of(job))


def test_a_row_is_a_picture_and_does_not_change_with_the_job(hall: Hall) -> None:
    bob = named(hall, "bob")
    hall.submit("a", terms=STUBBORN)
    hall.core.fail(bob.takes("a"), 1)
    batch = hall.core.seal()
    hall.after(1)
    hall.core.fail(bob.takes("a"), 2)
    hall.turn()
    assert [code for _, _, _, code, _ in batch.inserts[0].tries] == [1]
    hall.core.committed(batch)
    assert [code for _, _, _, code, _ in hall.commit().updates[0].tries] == [1, 2]


def test_the_attempt_that_made_a_dead_letter_is_a_try_of_its_next_life(hall: Hall) -> None:
    bob, carl = named(hall, "bob"), named(hall, "carl")
    job = hall.submit("a", terms=BACKGROUND)
    lease = bob.takes("a")
    hall.after(3)
    hall.core.fail(lease, 9)
    hall.commit()
    hall.after(HOUR_US)
    hall.core.retry(job)
    hall.core.finish(carl.takes("a"), b"at last")
    (end,) = hall.commit().ends
    assert (end.worker, end.attempts) == (b"carl", 2)
    assert end.tries == ((START_US, START_US + 3, b"bob", 9, ""),)


def test_a_dead_letter_that_was_never_begun_has_no_tries(hall: Hall) -> None:
    bob = named(hall, "bob")
    parent = hall.submit("parent", terms=BACKGROUND)
    child = hall.submit("child", terms=BACKGROUND, parents=(parent.id,))
    hall.core.fail(bob.takes("parent"))
    hall.commit()
    assert child.state == FAILED
    hall.core.retry(child)
    hall.turn()
    assert child.tries is None


# --- the hall dies


def boot(disk: Disk, now_us: int) -> Hall:
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.table.now_us = now_us
    again.core.restore(loaded)
    again.turn()
    return again


def running(hall: Hall, disk: Disk) -> Job:
    """A stored job that bob has had for so long that the store knows."""
    job = hall.submit("a", terms=BACKGROUND)
    disk.apply(hall.commit())
    named(hall, "bob").takes("a")
    hall.core.ledger.flush_started()
    disk.apply(hall.commit())
    return job


def test_an_attempt_that_ended_with_the_hall(hall: Hall) -> None:
    disk = Disk()
    job = running(hall, disk)
    again = boot(disk, START_US + HOUR_US)
    job = again.core.jobs[job.id]
    assert (job.state, job.attempts, job.losses) == (QUEUED, 1, 0)
    assert tries_of(job) == [(START_US, 0, b"bob", CUT_SHORT, "")], "nobody saw when it ended"
    again.core.finish(named(again, "carl").takes("a"), b"")
    (end,) = again.commit().ends
    assert (end.worker, end.attempts, end.tries) == (b"carl", 2, ((START_US, 0, b"bob", CUT_SHORT, ""),))


def test_many_restarts_are_not_many_attempts(hall: Hall) -> None:
    disk = Disk()
    job = running(hall, disk)
    for boots in range(1, 6):
        again = boot(disk, START_US + boots * HOUR_US)
        assert tries_of(again.core.jobs[job.id]) == [(START_US, 0, b"bob", CUT_SHORT, "")]
        if boots % 2:
            disk.apply(again.commit())


def test_what_runs_when_the_hall_dies_again_and_again(hall: Hall) -> None:
    disk = Disk()
    job_id = running(hall, disk).id
    for boots in range(1, TRIES_KEPT + 4):
        hall = boot(disk, START_US + boots * HOUR_US)
        named(hall, "bob").takes("a")
        hall.core.ledger.flush_started()
        disk.apply(hall.commit())
    job = hall.core.jobs[job_id]
    assert job.attempts == TRIES_KEPT + 4
    assert len(tries_of(job)) == TRIES_KEPT
    assert {code for _, _, _, code, _ in tries_of(job)} == {CUT_SHORT}


def test_after_a_restart_the_store_does_not_say_for_ever_that_somebody_has_it(hall: Hall) -> None:
    disk = Disk()
    job = running(hall, disk)
    again = boot(disk, START_US + HOUR_US)
    disk.apply(again.commit())
    row = disk.live[job.id]
    assert (row.state, row.attempts) == (QUEUED, 1)
    assert row.tries == ((START_US, 0, b"bob", CUT_SHORT, ""),)


def test_the_attempt_of_a_resident_outlives_the_hall_and_is_no_try(hall: Hall) -> None:
    disk = Disk()
    job = hall.submit("a", terms=BACKGROUND)
    take(hall, "bob", "a")
    disk.apply(hall.commit())
    again = boot(disk, START_US + HOUR_US)
    restored = again.core.jobs[job.id]
    assert (restored.tries, restored.attempts, restored.started_us) == (None, 1, START_US)


def test_ended_jobs_come_back_with_their_tries(hall: Hall) -> None:
    disk = Disk()
    bob = named(hall, "bob")
    job = hall.submit("a", terms=STUBBORN)
    hall.core.fail(bob.takes("a"), 7)
    hall.after(1)
    hall.core.finish(bob.takes("a"), b"")
    disk.apply(hall.commit())
    restored = boot(disk, START_US + HOUR_US).core.find(job.id)
    assert restored is not None
    assert restored.tries == [(START_US, START_US, b"bob", 7, "")]
