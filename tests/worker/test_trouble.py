"""What the caller sees when a function misbehaves; the worker goes on in each case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hall_process import wait_until
from worker_process import WorkerProcess, is_alive

from hiringhall import Hall, HallRefused, JobCancelled, JobFailed, JobTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hall_process import HallProcess

RESULT_S = 30.0
BEGUN_S = 2.0
"""A job has begun by then, also where the machine is busy."""


@pytest.fixture(scope="module")
def worker(server: HallProcess) -> Iterator[WorkerProcess]:
    words = ("--processes", "2", "--memory-max", "300MiB")
    with WorkerProcess(f"hall://{server.address}", *words) as worker:
        worker.wait_for("connected")
        yield worker


@pytest.fixture(autouse=True)
def lives(worker: WorkerProcess, hall: Hall) -> Iterator[None]:
    """Whatever happened, the worker does the next job."""
    yield
    assert call(hall, "add", 1, 2) == 3


def call(hall: Hall, name: str, *args: Any, **options: Any) -> Any:
    return hall.function(f"trouble_jobs.{name}", **options).submit(*args).result(RESULT_S)


def failure(hall: Hall, name: str, *args: Any, **options: Any) -> JobFailed:
    with pytest.raises(JobFailed) as caught:
        call(hall, name, *args, **options)
    return caught.value


def test_sys_exit_is_a_failure_with_the_code(hall: Hall) -> None:
    failed = failure(hall, "leave", 3)
    assert (failed.code, failed.type, failed.text) == (4, "SystemExit", "3")
    assert "sys.exit(code)" in failed.traceback


def test_a_function_that_forks_and_returns_twice_leaves_no_second_worker(hall: Hall) -> None:
    forked = call(hall, "fork")
    assert forked > 0
    wait_until(lambda: not is_alive(forked), "the second process has ended")


def test_a_process_that_lives_on_without_its_socket_is_a_lost_worker(hall: Hall, worker: WorkerProcess) -> None:
    error = failure(hall, "close_sockets", losses_max=1)
    assert error.code == 125
    assert "closed the socket of its worker" in error.text
    worker.wait_for("lost", reason="its process closed the socket of its worker")


def test_abort_is_a_lost_worker(hall: Hall, worker: WorkerProcess) -> None:
    failed = failure(hall, "abort", losses_max=1)
    assert failed.code == 125
    assert "the worker's process was ended by signal 6 (SIGABRT)" in failed.text
    assert worker.wait_for("lost")["reason"] == "the worker's process was ended by signal 6 (SIGABRT)"


def test_a_process_that_exits_is_a_lost_worker(hall: Hall) -> None:
    failed = failure(hall, "vanish", 7, losses_max=2)
    assert failed.code == 125
    assert "the worker's process exited with code 7" in failed.text


def test_an_endless_loop_is_stopped_at_its_timeout(hall: Hall, tmp_path: Path) -> None:
    started = tmp_path / "started"
    failed = failure(hall, "spin", str(started), timeout=BEGUN_S)
    assert isinstance(failed, JobTimeout)
    pid = int(started.read_text())
    wait_until(lambda: not is_alive(pid), "the process of the job is gone")


def test_a_deadlock_is_stopped_at_its_timeout(hall: Hall, tmp_path: Path) -> None:
    started = tmp_path / "started"
    assert isinstance(failure(hall, "deadlock", str(started), timeout=BEGUN_S), JobTimeout)
    pid = int(started.read_text())
    wait_until(lambda: not is_alive(pid), "the process of the job is gone")


def test_too_much_memory_ends_the_process_and_the_job(hall: Hall, worker: WorkerProcess) -> None:
    failed = failure(hall, "eat")
    assert (failed.code, failed.type) == (137, "MemoryError")
    assert "MiB of 300 MiB (--memory-max)" in failed.text
    assert worker.wait_for("memory")["limit"] == 300 << 20


def test_a_result_that_is_too_large_fails_and_is_not_sent(hall: Hall) -> None:
    failed = failure(hall, "huge", retries=3)
    assert (failed.code, failed.type) == (3, "ResultTooLarge")
    assert failed.text == "the result has 100000002 bytes, and the hall takes 67108864 (payload_bytes_max)"


def test_a_result_that_is_not_json_fails_and_is_not_retried(hall: Hall) -> None:
    failed = failure(hall, "no_json", retries=3)
    assert (failed.code, failed.type) == (3, "BadResult")
    assert "builtins.object has no form for the wire" in failed.text


def test_a_result_without_an_end_fails(hall: Hall) -> None:
    failed = failure(hall, "endless_list")
    assert failed.code == 3
    assert "recursion" in failed.text


def test_an_exception_without_a_text_is_told_by_its_type(hall: Hall) -> None:
    failed = failure(hall, "mute")
    assert (failed.code, failed.type) == (1, "trouble_jobs.Mute")
    assert "RuntimeError" in failed.text


def test_an_exception_whose_text_is_not_unicode_is_told_with_escapes(hall: Hall) -> None:
    failed = failure(hall, "surrogate")
    assert (failed.code, failed.type, failed.text) == (1, "ValueError", "half a character: \\ud800")


def test_recursion_is_a_failure(hall: Hall) -> None:
    failed = failure(hall, "recurse")
    assert (failed.code, failed.type) == (1, "RecursionError")
    assert "return recurse() + 1" in failed.traceback


def test_arguments_that_do_not_fit_fail_at_once_with_the_place(hall: Hall) -> None:
    failed = failure(hall, "add", "one", retries=3)
    assert (failed.code, failed.type) == (2, "BadArguments")
    assert "Expected `int`, got `str`" in failed.text
    assert "first" in failed.text


def test_only_named_exceptions_are_retried(hall: Hall) -> None:
    assert call(hall, "picky", "key", retries=2, backoff=0.01) == 3
    job = hall.function("trouble_jobs.picky", retries=2, backoff=0.01).submit("value")
    with pytest.raises(JobFailed, match="ValueError"):
        job.result(RESULT_S)
    assert job.info().attempts == 1


def test_a_cancelled_job_is_stopped_with_all_that_it_has_started(hall: Hall, tmp_path: Path) -> None:
    started, other = tmp_path / "started", tmp_path / "other"
    others = hall.function("trouble_jobs.until").submit(str(tmp_path / "go"), str(other))
    job = hall.function("trouble_jobs.spawn").submit(str(started))
    wait_until(lambda: started.exists() and other.exists(), "both jobs run")
    job.cancel("enough")
    with pytest.raises(JobCancelled):
        job.result(RESULT_S)
    pid = int(started.read_text())
    wait_until(lambda: not is_alive(pid), "the program of the job is gone")
    assert is_alive(int(other.read_text()))
    (tmp_path / "go").touch()
    assert others.result(RESULT_S) == "seen"


def test_long_arguments_and_results(hall: Hall) -> None:
    assert call(hall, "length", "é" * 500_000) == 500_000
    assert call(hall, "repeat", "ab", 500_000) == "ab" * 500_000


def test_a_result_that_is_not_kept_is_an_error_and_not_half_a_value(hall: Hall, url: str) -> None:
    long = hall.function("trouble_jobs.repeat", returns=str).submit("ab", 600_000)
    assert len(long.result(RESULT_S)) == 1_200_000
    passing = hall.function("trouble_jobs.add", durable=False).submit(1)
    assert passing.result(RESULT_S) == 2
    with Hall(url) as other:
        for job in (long, passing):
            with pytest.raises(HallRefused, match="its result was not kept"):
                other.job_of(job.id).result(RESULT_S)
    assert "history.result_bytes_max" in failure(hall, "length", long).text
    assert "not durable" in failure(hall, "add", passing).text


def test_what_a_function_prints_is_printed_by_the_worker(hall: Hall, worker: WorkerProcess) -> None:
    worker.printed(wait=False)
    call(hall, "say", "hello")
    text = ""
    while text.count("\n") < 2:
        text += worker.printed()
    assert sorted(text.splitlines()) == ["and hello", "hello"]


def test_a_function_can_tell_about_its_job(hall: Hall) -> None:
    job = hall.function("trouble_jobs.describe", key="the key", timeout=60).submit()
    told = job.result(RESULT_S)
    left = told.pop("time_left")
    assert 50 < left <= 60
    assert told == {
        "id": job.id,
        "queue": "trouble_jobs.describe",
        "key": "the key",
        "attempt": 1,
        "cancelled": False,
    }


def test_short_jobs_do_not_wait_behind_a_long_one(hall: Hall, tmp_path: Path) -> None:
    add = hall.function("trouble_jobs.add", returns=int)
    # So many short ones that the processes get jobs in advance.
    assert sum(add.starmap([(number, 0) for number in range(3000)])) == sum(range(3000))
    go, started = tmp_path / "go", tmp_path / "started"
    shorts = add.submit_many([(number, 0) for number in range(300)])
    long = hall.function("trouble_jobs.until").submit(str(go), str(started))
    shorts += add.submit_many([(number, 0) for number in range(300)])
    assert hall.gather(*shorts) == [*range(300), *range(300)]
    wait_until(started.exists, "the long one runs")
    assert long.state() == "leased"
    go.touch()
    assert long.result(RESULT_S) == "seen"


def test_progress_is_known_while_a_job_runs(hall: Hall, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = hall.function("trouble_jobs.pieces").submit(3, str(go))
    wait_until(lambda: job.progress() == (1, 3), "its progress is known")
    go.touch()
    assert job.result(RESULT_S) == 3
