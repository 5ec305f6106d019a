"""Tasks that run outside the hall: somebody reports their start and their end, and the history knows them."""

from __future__ import annotations

import pytest
from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, START_US, Disk, Hall, Person, refused
from resident_stories import resident, take

from hiringhall.core.errors import BAD_REQUEST, HALL_FULL, STORE_DOWN, TOO_LARGE, WRONG_STATE
from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.limits import Limits
from hiringhall.core.residents import OUTSIDE
from hiringhall.core.states import CANCELLED, DONE, FAILED, LEASED, QUEUED, WITHDRAWN
from hiringhall.core.terms import HOLD, Terms

WHO = b"mail robot"


def spec(key: str = "k", queue: str = "q", terms: Terms = BACKGROUND) -> JobSpec:
    return JobSpec(queue.encode(), b"", key.encode(), terms)


def start(hall: Hall, key: str = "k", started_us: int = START_US, who: bytes = WHO) -> Job:
    return hall.core.reports.start(spec(key), who, started_us)


def reboot(hall: Hall, disk: Disk) -> Hall:
    disk.apply(hall.commit())
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us + HOUR_US
    again.core.restore(loaded)
    again.turn()
    return again


def test_a_task_from_its_start_to_its_end(hall: Hall) -> None:
    disk = Disk()
    hall.after(HOUR_US)
    job = start(hall, started_us=START_US + 5)
    assert job.state == LEASED
    disk.apply(hall.commit())
    row = disk.live[job.id]
    assert (row.state, row.worker, row.holder, row.attempts) == (LEASED, WHO, OUTSIDE, 1)
    assert (row.created_us, row.started_us) == (START_US + 5, START_US + 5)
    hall.core.reports.end(job, START_US + 9, 0, b"sent")
    disk.apply(hall.commit())
    end = disk.history[job.id]
    assert (end.queue, end.key, end.state, end.code, end.result) == (b"q", b"k", DONE, 0, b"sent")
    assert (end.worker, end.created_us, end.started_us, end.ended_us) == (
        WHO,
        START_US + 5,
        START_US + 5,
        START_US + 9,
    )
    assert disk.live == {}
    hall.turn()


def test_a_task_that_began_and_ended_within_one_commit_is_one_line(hall: Hall) -> None:
    job = start(hall)
    hall.core.reports.end(job, START_US, 7, b"why")
    batch = hall.commit()
    assert (batch.inserts, batch.deletes) == ([], [])
    assert [(end.state, end.code, end.result) for end in batch.ends] == [(FAILED, 7, b"why")]


def test_no_worker_of_the_hall_is_given_it(hall: Hall) -> None:
    bob = hall.worker("bob")
    bob.sleeps()
    start(hall)
    hall.turn()
    bob.takes_nothing()
    hall.after(1000 * HOUR_US)
    bob.takes_nothing()


@pytest.mark.parametrize(
    ("told_us", "taken_us"),
    [
        (START_US - HOUR_US, START_US - HOUR_US),
        (START_US, START_US),
        (START_US + 1, START_US),
        ((1 << 64) - 1, START_US),
        (0, START_US),
    ],
)
def test_nothing_began_in_the_future_or_never(hall: Hall, told_us: int, taken_us: int) -> None:
    job = start(hall, started_us=told_us)
    assert (job.started_us, job.created_us) == (taken_us, taken_us)
    hall.turn()


@pytest.mark.parametrize(
    ("told_us", "taken_us"),
    [(4, 10), (5, 5), (9, 9), (10, 10), (11, 10), (1 << 64, 10), (-START_US, 10)],
)
def test_nothing_ended_before_it_began_or_in_the_future(hall: Hall, told_us: int, taken_us: int) -> None:
    hall.after(5)
    job = start(hall, started_us=START_US + 5)
    hall.after(5)
    hall.core.reports.end(job, START_US + told_us, 0, b"")
    assert job.ended_us == START_US + taken_us
    assert [end.ended_us for end in hall.commit().ends] == [START_US + taken_us]


class Listener(Person):
    """Writes down when a job ended, as it was told."""

    def __init__(self, hall: Hall) -> None:
        super().__init__(hall, "listener")
        self.ends_us: list[int] = []

    def ended(self, job: Job) -> None:
        self.ends_us.append(job.ended_us)


def test_one_who_joined_hears_the_same_end_as_the_history(hall: Hall) -> None:
    hall.after(HOUR_US)
    job = start(hall)
    listener = Listener(hall)
    assert hall.submit("", by=listener, key="k") is job
    hall.core.reports.end(job, START_US + 9, 0, b"r")
    assert listener.ends_us == [START_US + 9]
    assert [end.ended_us for end in hall.commit().ends] == [START_US + 9]


# --- refusals


@pytest.mark.parametrize(
    "wrong",
    [
        spec(""),
        spec(terms=Terms(detached=True)),
        spec(terms=Terms(durable=True, detached=True, lease_us=SECOND_US)),
        spec(terms=Terms(durable=True, detached=True, run_us=SECOND_US)),
    ],
    ids=["no key", "not durable", "lost in silence", "limited in time"],
)
def test_it_has_a_key_is_durable_and_ends_when_somebody_says_so(hall: Hall, wrong: JobSpec) -> None:
    with refused(BAD_REQUEST):
        hall.core.reports.start(wrong, WHO, START_US)
    assert hall.core.jobs == {}
    assert hall.commit().empty


def test_its_key_and_its_queue_have_their_bounds(hall: Hall) -> None:
    with refused(TOO_LARGE):
        start(hall, "k" * (hall.limits.key_bytes_max + 1))
    with refused(TOO_LARGE):
        hall.core.reports.start(spec(queue="q" * (hall.limits.queue_name_bytes_max + 1)), WHO, START_US)
    with refused(BAD_REQUEST):
        hall.core.reports.start(spec(queue=""), WHO, START_US)
    assert hall.core.jobs == {}


def test_the_hall_is_full() -> None:
    hall = Hall(Limits(jobs_max=1))
    start(hall)
    with refused(HALL_FULL):
        start(hall, "other")
    hall.turn()


def test_too_many_are_known_by_name() -> None:
    hall = Hall(Limits(residents_max=1))
    hall.submit("a", terms=BACKGROUND)
    take(hall, "bob", "a")
    with refused(HALL_FULL):
        start(hall)
    assert len(hall.core.jobs) == 1
    hall.turn()


def test_the_store_is_in_trouble(hall: Hall) -> None:
    hall.submit("a", terms=BACKGROUND)
    hall.commit_fails()
    with refused(STORE_DOWN):
        start(hall)
    assert hall.core.jobs == {}


@pytest.mark.parametrize("reported", [True, False])
def test_one_of_a_key_at_a_time(hall: Hall, reported: bool) -> None:
    job = start(hall) if reported else hall.submit("a", key="k")
    with refused(WRONG_STATE):
        start(hall)
    assert list(hall.core.jobs) == [job.id]
    hall.turn()


def test_the_end_of_what_the_hall_itself_hands_out_is_not_for_others_to_tell(hall: Hall) -> None:
    bob = hall.worker("bob")
    jobs = [hall.submit(name, key=name, terms=BACKGROUND) for name in "abc"]
    bob.takes("a")
    lease = take(hall, "a resident", "b")
    for job in jobs:
        with refused(WRONG_STATE):
            hall.core.reports.end(job, START_US, 0, b"")
    hall.core.finish(lease, b"its own word")
    assert [job.ended for job in jobs] == [False, True, False]
    hall.turn()


def test_an_end_is_reported_once(hall: Hall) -> None:
    job = start(hall)
    hall.core.reports.end(job, START_US, 0, b"first")
    with refused(WRONG_STATE):
        hall.core.reports.end(job, START_US, 9, b"second")
    assert [(end.code, end.result) for end in hall.commit().ends] == [(0, b"first")]


# --- what else may happen to it


def test_a_key_may_be_reported_again_when_it_is_over(hall: Hall) -> None:
    first = start(hall)
    hall.core.reports.end(first, START_US, 0, b"")
    second = start(hall)
    assert second.id > first.id
    hall.turn()


def test_a_client_may_wait_for_it_under_its_key(hall: Hall) -> None:
    ann = hall.person("ann")
    job = start(hall)
    assert hall.submit("", by=ann, key="k") is job
    hall.core.reports.end(job, START_US, 0, b"r")
    ann.hears("done  r")
    hall.turn()


def test_a_job_may_wait_for_it_as_a_parent(hall: Hall) -> None:
    bob = hall.worker("bob")
    child = hall.submit("child", parents=((b"q", b"k"),))
    job = start(hall)
    hall.turn()
    assert child.parents == {job.id: job}
    hall.core.reports.end(job, START_US, 0, b"")
    bob.takes("child")


def test_it_can_be_cancelled(hall: Hall) -> None:
    job = start(hall)
    hall.core.cancel(job, b"changed my mind")
    with refused(WRONG_STATE):
        hall.core.reports.end(job, START_US, 0, b"")
    assert [(end.state, end.result) for end in hall.commit().ends] == [(CANCELLED, b"changed my mind")]


def test_it_is_still_under_way_after_a_restart(hall: Hall) -> None:
    disk = Disk()
    job_id = start(hall).id
    for _ in range(3):
        hall = reboot(hall, disk)
    job = hall.core.jobs[job_id]
    assert (job.state, job.attempts, job.tries, job.worker_name) == (LEASED, 1, None, WHO)
    hall.core.reports.end(job, hall.core.now_us - SECOND_US, 0, b"r")
    disk.apply(hall.commit())
    end = disk.history[job_id]
    assert (end.started_us, end.ended_us, end.result) == (START_US, hall.core.now_us - SECOND_US, b"r")
    assert end.worker == WHO


def test_many_may_be_under_way_and_be_told_of_by_many(hall: Hall) -> None:
    jobs = [start(hall, key, who=key.encode()) for key in "abc"]
    assert len(hall.core.table.residents) == 1
    for job in reversed(jobs):
        hall.core.reports.end(job, START_US, 0, job.key)
    ends = hall.commit().ends
    assert {end.key: (end.worker, end.result) for end in ends} == {
        key: (key, key) for key in (b"a", b"b", b"c")
    }


def test_a_resident_of_the_same_name_has_nothing_to_do_with_it(hall: Hall) -> None:
    hall.submit("a", terms=BACKGROUND)
    take(hall, "bob", "a")
    job = start(hall, who=b"bob")
    hall.core.residents.retire(resident(hall, "bob"))
    hall.turn()
    assert job.state == LEASED
    hall.core.reports.end(job, START_US, 0, b"")
    hall.turn()


def test_a_start_that_could_not_be_stored_is_taken_back(hall: Hall) -> None:
    job = start(hall)
    assert hall.commit_fails() == [""]
    assert (job.state, job.code) == (CANCELLED, WITHDRAWN)
    hall.commit()
    assert start(hall) is not job
    hall.turn()


def test_a_start_that_could_not_be_stored_but_is_waited_for(hall: Hall) -> None:
    """The task lives on for the one who waits; its end is a promise to the one who tells of it."""
    ann = hall.person("ann")
    job = start(hall)
    hall.submit("", by=ann, key="k")
    assert hall.commit_fails() == [""]
    assert job.state == LEASED
    with refused(STORE_DOWN):
        hall.core.reports.end(job, START_US, 0, b"too early")
    hall.commit()
    hall.core.reports.end(job, START_US, 0, b"r")
    ann.hears("done  r")
    assert [(end.id, end.result) for end in hall.commit().ends] == [(job.id, b"r")]


def test_the_end_of_a_stored_task_is_taken_in_whatever_the_store_does(hall: Hall) -> None:
    disk = Disk()
    job = start(hall)
    disk.apply(hall.commit())
    hall.submit("a", terms=BACKGROUND)
    assert hall.commit_fails() == ["a"]
    hall.core.reports.end(job, START_US, 0, b"r")
    assert hall.commit_fails() == []
    disk.apply(hall.commit())
    assert disk.history[job.id].result == b"r"


def test_what_failed_outside_is_not_run_again_inside(hall: Hall) -> None:
    disk = Disk()
    job = start(hall)
    hall.core.reports.end(job, START_US, 9, b"why")
    hall = reboot(hall, disk)
    found = hall.core.find(job.id)
    assert found is not None
    with refused(WRONG_STATE):
        hall.core.retry(found)
    assert hall.core.jobs == {}


def test_nobody_else_has_the_name_under_which_they_are_held(hall: Hall) -> None:
    start(hall)
    with refused(BAD_REQUEST):
        hall.core.residents.get(b"q", OUTSIDE)
    hall.turn()


def holding(hall: Hall, parent: Job) -> Job:
    return hall.submit("child", terms=BACKGROUND.replace(on_parent_failure=HOLD), parents=(parent.id,))


def told_failed(hall: Hall, ended_us: int) -> Job:
    """The start and the end of a task are told together."""
    job = start(hall, started_us=ended_us)
    hall.core.reports.end(job, ended_us, 9, b"")
    return job


def told_done(hall: Hall, ended_us: int) -> Job:
    job = start(hall, started_us=ended_us)
    hall.core.reports.end(job, ended_us, 0, b"")
    return job


def test_a_name_means_the_task_that_ended_last_and_not_the_one_that_was_told_last(hall: Hall) -> None:
    hall.after(HOUR_US)
    first = told_failed(hall, START_US + 1)
    told_done(hall, START_US + 9)
    told_failed(hall, START_US + 5)
    assert holding(hall, first).state == QUEUED
    hall.turn()


def test_a_failure_told_late_does_not_hold_a_child_whose_parent_has_succeeded_since(hall: Hall) -> None:
    hall.after(HOUR_US)
    first = told_failed(hall, START_US + 1)
    told_done(hall, START_US + 9)
    late = start(hall, started_us=START_US + 2)
    child = holding(hall, first)
    assert child.parents == {late.id: late}
    hall.core.reports.end(late, START_US + 5, 9, b"")
    assert child.state == QUEUED
    hall.turn()
