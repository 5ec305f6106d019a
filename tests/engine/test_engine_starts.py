"""That a job has begun: the store hears of it if it takes a while, and nobody waits for that."""

from __future__ import annotations

from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.states import LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.engine.deadlines import LINGER_US, RETRY_FIRST_US, STARTED_US
from hiringhall.storage.contract import HistoryQuery
from stage.talker import BACKGROUND, FOREGROUND, WATCHED, TalkerHall


def stored(hall: TalkerHall, *names: str) -> list[Job]:
    ann, _ = hall.peer("ann")
    with hall.turn():
        jobs = [hall.submit(ann, name) for name in names]
    hall.turn_that_commits()
    return jobs


def states(hall: TalkerHall) -> list[tuple[int, bytes]]:
    return [(row.state, row.worker) for row in hall.store.live()]


def pass_time(hall: TalkerHall, passed_us: int) -> None:
    with hall.turn(after_us=passed_us):
        pass


def let_linger(hall: TalkerHall) -> None:
    """A change that nobody waits for is committed after its pause."""
    pass_time(hall, LINGER_US)
    hall.turn_that_commits()


def test_a_job_that_takes_a_while_is_in_the_store_as_begun(hall: TalkerHall) -> None:
    stored(hall, "a")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.scheduler.worker(bob).name = b"bob"
        hall.take(bob)
    begun_us = hall.now_us
    assert hall.engine.next_deadline() == begun_us + STARTED_US
    pass_time(hall, STARTED_US - 1)
    assert hall.requests.under_way() is None
    assert not hall.engine.busy, "a hall that closes does not wait for it"
    pass_time(hall, 1)
    let_linger(hall)
    (row,) = hall.store.live()
    assert (row.state, row.worker, row.started_us, row.attempts) == (LEASED, b"bob", begun_us, 1)
    assert hall.engine.next_deadline() == 0


def test_quick_jobs_cost_no_row(hall: TalkerHall) -> None:
    stored(hall, *"abc")
    bob, _ = hall.worker("bob")
    for _ in range(3):
        with hall.turn(after_us=10):
            lease = hall.take(bob)
        with hall.turn(after_us=10):
            hall.scheduler.finish(lease, b"")
    before = len(hall.requests.batches)
    let_linger(hall)
    assert [len(batch.updates) for batch in hall.requests.batches[before:]] == [0]
    hall.is_at_rest()
    assert len(hall.store.history(HistoryQuery())) == 3


def test_those_that_began_later_are_noted_together_and_none_is_late(hall: TalkerHall) -> None:
    jobs = stored(hall, *"abc")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.take(bob)
    for _ in range(2):
        with hall.turn(after_us=STARTED_US // 3):
            hall.take(bob)
    pass_time(hall, STARTED_US // 3)
    pass_time(hall, STARTED_US // 3)
    let_linger(hall)
    assert [row.state for row in hall.store.live()] == [LEASED] * 3
    for job in jobs:
        assert hall.now_us - job.started_us < 2 * STARTED_US
    assert hall.engine.next_deadline() == 0


def test_a_job_that_came_back_meanwhile_is_ready_in_the_store(hall: TalkerHall) -> None:
    stored(hall, "a")
    bob, _ = hall.worker("bob")
    with hall.turn():
        lease = hall.take(bob)
    pass_time(hall, STARTED_US)
    let_linger(hall)
    assert [state for state, _ in states(hall)] == [LEASED]
    with hall.turn():
        hall.scheduler.release(lease)
    let_linger(hall)
    assert [state for state, _ in states(hall)] == [QUEUED]
    hall.is_at_rest()


def test_jobs_in_memory_set_no_clock(hall: TalkerHall) -> None:
    ann, _ = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", FOREGROUND)
        hall.take(bob)
    assert hall.engine.next_deadline() == 0


def test_what_a_resident_has_is_noted_as_before(hall: TalkerHall) -> None:
    stored(hall, "a")
    with hall.turn():
        lease = hall.scheduler.take(hall.scheduler.residents.get(b"q", b"rosa"))
    assert lease is not None
    assert hall.requests.under_way() is not None
    hall.turn_that_commits()
    (row,) = hall.store.live()
    assert (row.state, row.holder, row.worker) == (LEASED, b"rosa", b"rosa")
    assert hall.engine.next_deadline() == 0


def test_a_job_taken_back_leaves_no_deadline_behind(hall: TalkerHall) -> None:
    """Else the hall would come back for it for ever, without a pause."""
    ann, _ = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a")
        hall.take(bob)
    hall.turn_that_fails()
    assert hall.scheduler.jobs == {}
    assert hall.engine.next_deadline() == hall.now_us + RETRY_FIRST_US
    pass_time(hall, RETRY_FIRST_US)
    hall.turn_that_commits()
    pass_time(hall, STARTED_US)
    assert hall.engine.next_deadline() == 0


def test_in_trouble_a_start_waits_for_the_store_with_everything_else(hall: TalkerHall) -> None:
    stored(hall, "a")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.take(bob)
    pass_time(hall, STARTED_US)
    pass_time(hall, LINGER_US)
    hall.turn_that_fails()
    assert [state for state, _ in states(hall)] == [QUEUED]
    pass_time(hall, RETRY_FIRST_US)
    hall.turn_that_commits()
    assert [state for state, _ in states(hall)] == [LEASED]
    assert hall.engine.next_deadline() == 0


def test_a_start_that_is_written_holds_nobody_back(hall: TalkerHall) -> None:
    stored(hall, "a")
    bob, wire = hall.worker("bob")
    with hall.turn():
        hall.take(bob)
    pass_time(hall, STARTED_US)
    pass_time(hall, LINGER_US)
    assert hall.requests.under_way() is not None
    with hall.turn():
        bob.receive(b"hello")
    assert wire.said() == ["echo hello|"]
    hall.turn_that_commits()


# --- the ends of jobs in memory


LOGGED = Terms(logged=True)


def test_the_end_of_a_logged_job_is_told_at_once_and_stored_at_leisure(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", LOGGED)
        hall.scheduler.finish(hall.take(bob), b"r")
    assert wire.said() == ["accepted a|ended a|"]
    assert hall.requests.under_way() is None
    let_linger(hall)
    assert [line.result for line in hall.store.history(HistoryQuery())] == [b"r"]
    hall.is_at_rest()


def test_a_store_that_does_not_answer_stops_no_logged_job(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "durable", BACKGROUND)
        hall.take(bob)
    eve, eve_wire = hall.peer("eve")
    for number in range(5):
        with hall.turn(after_us=LINGER_US):
            hall.submit(eve, str(number), LOGGED)
            hall.scheduler.finish(hall.take(bob), b"")
    assert "".join(eve_wire.said()) == "".join(f"accepted {number}|ended {number}|" for number in range(5))
    assert wire.said() == []
    hall.turn_that_fails()
    assert wire.said() == ["refused durable: disk full|"]
    with hall.turn():
        hall.submit(eve, "in trouble", LOGGED)
        hall.scheduler.finish(hall.take(bob), b"")
    assert eve_wire.said() == ["accepted in trouble|ended in trouble|"]
    pass_time(hall, RETRY_FIRST_US)
    hall.turn_that_commits()
    assert b"in trouble" not in {line.payload for line in hall.store.history(HistoryQuery())}
    assert len(hall.store.history(HistoryQuery())) <= 5
    hall.is_at_rest()


def test_a_reported_task_is_acknowledged_when_it_is_on_disk(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    with hall.turn():
        job = hall.scheduler.reports.start(JobSpec(b"q", b"task", b"k", BACKGROUND), b"robot", hall.now_us)
        ann.acknowledge(job, b"noted|")
    assert wire.said() == []
    hall.turn_that_commits()
    assert wire.said() == ["noted|"]
    assert states(hall) == [(LEASED, b"robot")]


def test_a_firing_is_committed_although_nobody_waits_for_it(hall: TalkerHall) -> None:
    with hall.turn():
        hall.scheduler.firings.mark("nightly", None)
    assert hall.engine.busy
    let_linger(hall)
    hall.is_at_rest()


def test_one_who_waits_for_the_end_of_a_durable_job_hears_it_after_its_commit(hall: TalkerHall) -> None:
    ann, wire = hall.peer("ann")
    bob, _ = hall.worker("bob")
    with hall.turn():
        hall.submit(ann, "a", WATCHED)
    hall.turn_that_commits()
    with hall.turn():
        lease = hall.take(bob)
    pass_time(hall, STARTED_US)
    with hall.turn():
        hall.scheduler.finish(lease, b"r")
    assert wire.said() == ["accepted a|"]
    batch = hall.requests.under_way()
    assert batch is not None
    assert (len(batch.updates), len(batch.ends)) == (0, 1), "that it began is no news any more"
    hall.turn_that_commits()
    assert wire.said() == ["ended a|"]
    hall.is_at_rest()
