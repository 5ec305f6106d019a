"""A worker is silent while it works: its result counts after `job_timeout_s` too, if it is the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.core.limits import SECOND_US
from hiringhall.core.states import CUT_SHORT, DELAYED, DONE, FAILED, LEASED, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.pingpong.context import PingPongOptions
from stage.pingpong import EXPIRE_US, JOB_TIMEOUT_US, PingPongHall

if TYPE_CHECKING:
    from stage.pingpong import PingPongGuest


def part(guest: PingPongGuest) -> None:
    """The transport has forgotten it, because it was silent and nothing referred to it."""
    assert guest.session.idle
    guest.leaves()


def test_a_late_result_counts_if_nobody_else_has_begun(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(), hall.client().say(b"long")
    job = late.lease().job
    hall.wait(JOB_TIMEOUT_US)
    assert (job.state, job.losses) == (QUEUED, 1)
    late.say(b"done at last")
    assert client.hears() == [b"done at last"]
    assert (job.state, job.attempts) == (DONE, 1)
    assert hall.scheduler.counters.stale == 0
    assert hall.is_ready(late)


def test_a_job_may_take_any_time_where_there_is_one_worker(hall: PingPongHall) -> None:
    worker, client = hall.ready_worker(), hall.client().say(b"long", b"next")
    hall.wait(50 * JOB_TIMEOUT_US)
    assert client.hears() == []
    worker.say(b"done at last")
    assert client.hears() == [b"done at last"]
    assert worker.hears() == [b"long", b"next"]


def test_the_first_result_wins_and_the_other_is_forgotten(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(), hall.client().say(b"long", b"next")
    hall.wait(JOB_TIMEOUT_US)
    other = hall.ready_worker()
    assert other.hears() == [b"long"]
    late.say(b"from the first")
    assert client.hears() == [b"from the first"]
    assert late.hears() == [b"long", b"next"]
    other.say(b"from the second")
    assert client.hears() == [], "nobody takes it for the result of another job"
    assert hall.scheduler.counters.stale == 1
    assert hall.is_ready(other)


def test_a_late_result_of_a_job_that_another_has_done_is_dropped(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(), hall.client().say(b"long", b"next")
    hall.wait(JOB_TIMEOUT_US)
    hall.ready_worker().say(b"from the second")
    assert client.hears() == [b"from the second"]
    late.say(b"from the first")
    assert client.hears() == []
    assert hall.scheduler.counters.stale == 1


def test_three_workers_that_all_take_too_long_do_not_fail_a_job_that_one_of_them_does(
    hall: PingPongHall,
) -> None:
    client = hall.client().say(b"long")
    workers = []
    for _ in range(3):
        workers.append(hall.ready_worker())
        assert workers[-1].hears() == [b"long"]
        hall.wait(JOB_TIMEOUT_US - SECOND_US)
        hall.wait(SECOND_US if len(workers) < 3 else 0)
    for number, worker in enumerate(workers):
        worker.say(b"done by %d" % number)
    assert client.hears() == [b"done by 0"]
    assert all(hall.is_ready(worker) for worker in workers)


def test_the_history_says_who_did_it_and_since_when(hall: PingPongHall) -> None:
    late = hall.ready_worker(b"first")
    hall.client().say(b"long")
    job = late.lease().job
    began_us = job.started_us
    hall.wait(JOB_TIMEOUT_US)
    hall.ready_worker(b"second")
    second_us = hall.scheduler.now_us
    hall.wait(SECOND_US)
    late.say(b"done at last")
    assert (job.worker_name, job.started_us, job.attempts) == (b"first", began_us, 2)
    assert job.tries == [(second_us, hall.scheduler.now_us, b"second", CUT_SHORT, "pingpong")]
    assert job.queue.average_run_us == JOB_TIMEOUT_US + SECOND_US


def test_a_late_failure_counts_if_nobody_else_has_begun(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(), hall.client().say(b"long")
    hall.wait(JOB_TIMEOUT_US)
    late.say(b"ERROR 7 broke")
    assert client.hears() == [b"ERROR 7 broke"]


def test_a_late_failure_does_not_end_what_another_has_begun(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(), hall.client().say(b"long")
    hall.wait(JOB_TIMEOUT_US)
    other = hall.ready_worker()
    late.say(b"ERROR 7 broke")
    assert client.hears() == []
    other.say(b"done")
    assert client.hears() == [b"done"]


def test_a_late_result_counts_while_the_job_waits_for_its_next_attempt(hall: PingPongHall) -> None:
    terms = Terms(detached=True, lease_us=JOB_TIMEOUT_US, failures_max=1, backoff_us=SECOND_US)
    job, watcher = hall.submit_elsewhere(b"long", terms)
    late = hall.ready_worker()
    hall.wait(JOB_TIMEOUT_US)
    other = hall.ready_worker()
    other.say(b"ERROR 7 broke")
    assert job.state == DELAYED
    late.say(b"done at last")
    assert watcher.hears() == [("done 0", b"done at last")]
    hall.wait(2 * SECOND_US)
    assert other.hears() == [b"long"], "it is not sent again"


def test_a_late_result_counts_for_a_job_of_another_door(hall: PingPongHall) -> None:
    _, watcher = hall.submit_elsewhere(b"from elsewhere")
    late = hall.ready_worker()
    hall.wait(JOB_TIMEOUT_US + EXPIRE_US)
    assert not hall.scheduler.workers
    late.say(b"done at last")
    assert watcher.hears() == [("done 0", b"done at last")]


def test_a_late_result_counts_though_the_transport_had_forgotten_its_worker(hall: PingPongHall) -> None:
    late, client = hall.ready_worker(b"w"), hall.client().say(b"long")
    assert late.hears() == [b"long"]
    hall.wait(JOB_TIMEOUT_US + EXPIRE_US)
    part(late)
    hall.worker(b"w").say(b"done at last")
    assert client.hears() == [b"done at last"]


def test_who_is_cut_off_with_a_job_and_comes_back_gives_its_result(hall: PingPongHall) -> None:
    gone, client = hall.ready_worker(b"w"), hall.client().say(b"job")
    gone.leaves()
    hall.worker(b"w").say(b"done meanwhile")
    assert client.hears() == [b"done meanwhile"]


def test_a_result_is_not_taken_for_a_job_that_its_worker_never_received(hall: PingPongHall) -> None:
    crossed, first = hall.ready_worker(b"w"), hall.client().say(b"first job")
    assert crossed.hears() == [b"first job"]
    crossed.session.delivered = 1
    other = hall.ready_worker(b"o")
    crossed.say(b"READY")  # sent before it read the first job, which is lost for the hall
    assert other.hears() == [b"first job"]
    second = hall.client().say(b"second job")
    assert crossed.lease().job.payload == b"second job"
    crossed.session.undelivered()
    crossed.leaves()
    hall.worker(b"w").say(b"result of the first job")
    assert (first.hears(), second.hears()) == ([], []), "nobody knows which job it has done"


def test_the_result_of_one_that_was_cut_off_counts_although_another_has_begun(hall: PingPongHall) -> None:
    gone, client = hall.ready_worker(b"w"), hall.client().say(b"job")
    other = hall.ready_worker(b"o")
    gone.leaves()
    assert other.hears() == [b"job"]
    back = hall.worker(b"w").say(b"first")
    other.say(b"second")
    assert client.hears() == [b"first"]
    assert hall.is_ready(back)
    assert hall.is_ready(other)


def test_ready_after_the_timeout_is_no_second_loss(hall: PingPongHall) -> None:
    late = hall.ready_worker()
    hall.client().say(b"long")
    job = late.lease().job
    hall.wait(JOB_TIMEOUT_US)
    late.say(b"READY")
    assert (job.state, job.losses) == (LEASED, 1), "it was sent the job again"


def test_a_result_after_the_job_has_lost_too_many_workers_is_dropped() -> None:
    hall = PingPongHall(PingPongOptions(losses_max=1))
    late, client = hall.ready_worker(), hall.client().say(b"long")
    job = late.lease().job
    hall.wait(JOB_TIMEOUT_US)
    assert job.state == FAILED
    client.hears()
    late.say(b"too late")
    assert client.hears() == []
    assert hall.is_ready(late)
