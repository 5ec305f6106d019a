"""What a queue counts: how long its jobs waited and ran, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_recorder import BACKGROUND, HOUR_US, SECOND_US, Hall

from hiringhall.core.histograms import bucket_of
from hiringhall.core.terms import Terms

if TYPE_CHECKING:
    from hiringhall.core.histograms import Histogram
    from hiringhall.core.jobs import Job

RETRIED = Terms(durable=True, detached=True, failures_max=1, backoff_us=HOUR_US, backoff_max_us=HOUR_US)


def times(histogram: Histogram | None) -> tuple[dict[int, int], int]:
    """The buckets that are not empty, and the sum."""
    assert histogram is not None
    return {bucket: count for bucket, count in enumerate(histogram.counts) if count}, histogram.sum_us


def expect(job: Job, *, wait_us: int, run_us: int) -> None:
    """The queue of the job has counted one wait and one run, and these are they."""
    assert times(job.queue.wait) == ({bucket_of(wait_us): 1}, wait_us)
    assert times(job.queue.run) == ({bucket_of(run_us): 1}, run_us)


def test_wait_is_from_ready_to_start_and_run_from_start_to_end(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.after(3 * SECOND_US)
    lease = bob.takes("a")
    hall.after(200)
    hall.core.finish(lease, b"")
    expect(job, wait_us=3 * SECOND_US, run_us=200)


def test_a_delay_that_was_asked_for_is_no_wait(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND, due_us=hall.core.now_us + HOUR_US)
    hall.after(HOUR_US)
    hall.after(5 * SECOND_US)
    hall.core.finish(bob.takes("a"), b"")
    expect(job, wait_us=5 * SECOND_US, run_us=0)


def test_a_backoff_is_no_wait_and_the_latest_attempt_counts(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=RETRIED)
    hall.after(7 * SECOND_US)
    hall.core.fail(bob.takes("a"))
    assert job.queue.wait is None
    hall.after(HOUR_US)
    hall.after(2 * SECOND_US)
    lease = bob.takes("a")
    hall.after(SECOND_US)
    hall.core.fail(lease)
    expect(job, wait_us=2 * SECOND_US, run_us=SECOND_US)
    assert (job.queue.retried, job.queue.failed) == (1, 1)


def test_a_job_that_ends_without_a_worker_has_neither(hall: Hall) -> None:
    job = hall.submit("a", terms=BACKGROUND)
    hall.after(SECOND_US)
    hall.core.cancel(job)
    assert (job.queue.wait, job.queue.run, job.queue.cancelled) == (None, None, 1)


def test_losses_are_counted_for_the_queue(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    bob.takes("a")
    bob.leaves()
    assert (job.queue.lost, job.queue.submitted) == (1, 1)


def test_the_oldest_ready_job_is_known_by_the_time_since_it_is_ready(hall: Hall) -> None:
    bob = hall.worker("bob")
    first = hall.submit("a", terms=BACKGROUND)
    queue = first.queue
    hall.after(SECOND_US)
    second_us = hall.core.now_us
    hall.submit("b", terms=BACKGROUND)
    assert queue.oldest_us() == second_us - SECOND_US
    bob.takes("a")
    assert queue.oldest_us() == second_us
    bob.takes("b")
    assert queue.oldest_us() == 0


def test_what_a_dropped_queue_has_counted_stays_in_the_sum(hall: Hall) -> None:
    bob = hall.worker("bob")
    job = hall.submit("a", terms=BACKGROUND)
    hall.core.finish(bob.takes("a"), b"")
    bob.leaves()
    hall.core.length_limits.drop(job.queue)
    dropped = hall.core.table.dropped
    assert (dropped.submitted, dropped.done, sum(dropped.run.counts)) == (1, 1, 1)
