"""Async functions side by side on one loop, and plain functions in threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_process import wait_until
from worker_process import WorkerProcess, is_alive

from hiringhall import Hall, JobCancelled, JobTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hall_process import HallProcess

RESULT_S = 30.0


@pytest.fixture(scope="module")
def worker(server: HallProcess) -> Iterator[WorkerProcess]:
    words = ("--processes", "1", "--threads", "3", "--concurrency", "500", "--grace", "10")
    with WorkerProcess(f"hall://{server.address}", *words) as worker:
        worker.wait_for("connected")
        yield worker


def test_five_hundred_async_jobs_run_side_by_side(hall: Hall, worker: WorkerProcess) -> None:
    # Each of them waits until all of them run.
    gather = hall.function("trouble_jobs.gather", returns=int)
    assert hall.gather(*gather.submit_many([(500,)] * 500)) == [500] * 500


def test_a_cancelled_async_job_ends_by_itself_and_the_others_go_on(
    hall: Hall, worker: WorkerProcess, tmp_path: Path
) -> None:
    started, ended = tmp_path / "started", tmp_path / "ended"
    other = hall.function("trouble_jobs.nap").submit(1)
    job = hall.function("trouble_jobs.wait_for_cancel").submit(str(started), str(ended))
    wait_until(started.exists, "the job runs")
    job.cancel()
    wait_until(ended.exists, "the job was told")
    assert ended.read_text() == "True"
    assert other.result(RESULT_S) == 1
    assert is_alive(int(started.read_text()))


def test_an_async_job_that_does_not_stop_costs_its_process_and_no_other_job(
    hall: Hall, worker: WorkerProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    job = hall.function("trouble_jobs.stubborn", timeout=1).submit(str(started))
    wait_until(started.exists, "the job runs")
    # It is longer than what the stubborn job is allowed, and shorter than the grace after it.
    other = hall.function("trouble_jobs.nap").submit(3.5)
    with pytest.raises(JobTimeout):
        job.result(RESULT_S)
    worker.wait_for("stuck", job=job.id)
    pid = int(started.read_text())
    assert hall.function("trouble_jobs.nap").submit(0).result(RESULT_S) == 0
    wait_until(lambda: not is_alive(pid), "its process is gone")
    assert other.result(RESULT_S) == 3.5
    assert other.info().attempts == 1


def test_plain_jobs_run_in_threads_of_one_process(hall: Hall, worker: WorkerProcess, tmp_path: Path) -> None:
    meet = hall.function("trouble_jobs.meet", returns=int)
    assert hall.gather(*meet.submit_many([(3, str(tmp_path))] * 3)) == [3, 3, 3]
    pids = hall.gather(*hall.function("trouble_jobs.pid").submit_many([()] * 20))
    assert len(set(pids)) == 1


def test_a_job_in_a_thread_sees_that_it_was_cancelled(
    hall: Hall, worker: WorkerProcess, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    job = hall.function("trouble_jobs.until").submit(str(tmp_path / "never"), str(started))
    wait_until(started.exists, "the job runs")
    job.cancel()
    with pytest.raises(JobCancelled):
        job.result(RESULT_S)
    pid = int(started.read_text())
    assert hall.function("trouble_jobs.pid").submit().result(RESULT_S) == pid


def test_a_stuck_thread_costs_the_process_when_the_others_have_finished(
    hall: Hall, worker: WorkerProcess, tmp_path: Path
) -> None:
    # The other job runs first: what comes after the timeout may go to the next process.
    other = hall.function("trouble_jobs.until").submit(str(tmp_path / "go"), str(tmp_path / "other"))
    wait_until((tmp_path / "other").exists, "another job runs")
    started = tmp_path / "started"
    job = hall.function("trouble_jobs.deadlock", timeout=2).submit(str(started))
    with pytest.raises(JobTimeout):
        job.result(RESULT_S)
    pid = int(started.read_text())
    worker.wait_for("stuck", job=job.id)
    assert hall.function("trouble_jobs.pid").submit().result(RESULT_S) != pid
    assert is_alive(pid)
    (tmp_path / "go").touch()
    assert other.result(RESULT_S) == "seen"
    wait_until(lambda: not is_alive(pid), "the process is gone")
