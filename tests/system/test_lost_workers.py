"""Workers that are killed, stopped, or too slow: the job goes to another, and ends once."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from foreign import PERL, PROGRAMS, Program, first_to_speak
from hall_process import HallProcess, wait_until

from hiringhall.core.states import DONE, FAILED, LOST
from hiringhall.peers.gearman import JobFailed, ServerError, Worker, WorkerJob
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LEASE_S = 2.0


def open_worker(hall: HallProcess, name: str, *lease: str) -> Program:
    """A worker in a process of its own, which can do "deed"."""
    command = [sys.executable, str(PROGRAMS / "own_worker.py"), hall.address, name, "deed", *lease]
    worker = Program(command, hall.folder, answers_only=True)
    assert worker.line() == "ready"
    return worker


@pytest.fixture
def leasing(tmp_path: Path) -> Iterator[HallProcess]:
    """A hall that takes a worker for lost when it is silent for longer than the lease."""
    with HallProcess(tmp_path, door={"lease_s": LEASE_S}) as hall:
        yield hall


def test_a_killed_workers_job_is_with_another_within_a_second(hall: HallProcess) -> None:
    with open_worker(hall, "first") as first:
        hall.wait_for_workers("deed")
        with hall.client() as client:
            job = client.submit("deed", b"important")
            assert first.line() == "got important"
            with open_worker(hall, "second") as second:
                hall.wait_for_workers("deed", 2)
                with Stopwatch() as watch:
                    first.process.kill()
                    assert second.line() == "got important"
                assert watch.elapsed_s < 1.0
                second.say("go")
                assert job.result() == b"second"


def test_a_stopped_workers_job_goes_to_another_and_its_late_result_is_refused(leasing: HallProcess) -> None:
    hall = leasing
    with open_worker(hall, "first", str(LEASE_S)) as first, hall.client() as client:
        hall.wait_for_workers("deed")
        receipt = client.submit_background("deed", b"important", unique="once")
        assert first.line() == "got important"
        with open_worker(hall, "second", str(LEASE_S)) as second:
            hall.wait_for_workers("deed", 2)
            with Stopwatch() as watch:
                first.process.send_signal(signal.SIGSTOP)
                assert second.line() == "got important"
            assert watch.elapsed_s < LEASE_S + 1.0
            second.say("go")
            wait_until(hall.history, "the job has ended")
            assert not client.status(receipt).known

            first.process.send_signal(signal.SIGCONT)
            first.say("go")
            assert first.line() == "refused JOB_NOT_FOUND"
            (end,) = hall.history()
            assert (end.state, end.result, end.worker) == (DONE, b"second", b"second")
            assert (end.attempts, end.losses) == (2, 1)

            assert client.run("deed", b"quick") in {b"first", b"second"}


def test_a_long_job_that_shows_life_is_not_run_twice(leasing: HallProcess) -> None:
    """Two leases pass; the worker sends nothing of the job itself, only signs of life."""
    with (
        open_worker(leasing, "first", str(LEASE_S)) as first,
        open_worker(leasing, "second", str(LEASE_S)) as second,
        leasing.client() as client,
    ):
        leasing.wait_for_workers("deed", 2)
        client.submit_background("deed", b"long")
        busy = first_to_speak(first, second)
        idle = second if busy is first else first
        assert busy.line() == "got long"
        assert not idle.waiting(2 * LEASE_S), "the other worker has heard nothing"
        busy.say("go")
        wait_until(leasing.history, "the job has ended")
        assert leasing.history()[0].attempts == 1


def test_a_job_that_kills_three_workers_is_a_dead_letter_and_the_queue_goes_on(hall: HallProcess) -> None:
    with hall.client() as client:
        deadly = client.submit_background("deed", b"deadly", unique="deadly")
        client.submit_background("deed", b"quick", unique="quick")
        for number in range(3):
            with open_worker(hall, f"victim-{number}") as victim:
                assert victim.line() == "got deadly"
                assert victim.process.wait(10) == -signal.SIGKILL
        wait_until(lambda: not client.status(deadly).known, "the deadly job has ended")
        with open_worker(hall, "survivor") as survivor:
            assert survivor.line() == "got quick"
            wait_until(lambda: len(hall.history()) == 2, "both have ended")
    quick, letter = hall.history()
    assert (letter.key, letter.state, letter.code, letter.losses) == (b"deadly", FAILED, LOST, 3)
    assert letter.payload == b"deadly", "a dead letter keeps what it takes to run it again"
    assert (quick.key, quick.state, quick.worker) == (b"quick", DONE, b"survivor")


@pytest.mark.parametrize("on_timeout", ["fail", "requeue"])
def test_perls_worker_lives_on_after_a_report_that_comes_too_late(
    tmp_path: Path, need: Callable[[str], None], on_timeout: str
) -> None:
    """Its module dies when it is sent an ERROR."""
    need(PERL.missing())
    door = {"timeout_unit": "ms", "timeout_min_s": 2.0, "on_timeout": on_timeout}
    with HallProcess(tmp_path, door=door) as hall, hall.client() as client:
        command = ["perl", str(PROGRAMS / "perl_slow_worker.pl"), hall.address, "1"]
        with Program(command, tmp_path, answers_only=True) as perl:
            client.submit_background("limited", b"slow")
            assert perl.line() == "got slow"
            running = 0 if on_timeout == "fail" else 1
            wait_until(lambda: hall.counts("limited")[:2] == (running, 0), "its time is up")
            if on_timeout == "requeue":
                with Worker(hall.address) as other:
                    other.register("limited", lambda job: b"quick")
                    wait_until(lambda: hall.counts("limited")[0] == 0, "another has done it")
            client.submit_background("limited", b"again")
            perl.say("go on")
            assert perl.line() == "got again", "the late report has cost it nothing"
            perl.say("go on")
            wait_until(lambda: hall.counts("limited")[:2] == (0, 0), "it has done that in time")


def test_a_timeout_fails_exactly_the_job_that_overran(hall: HallProcess) -> None:
    """Three jobs run at one worker: one over its timeout, one within it, one of a function without any."""
    complaints: list[ServerError] = []
    gates = {b"over": threading.Event(), b"free": threading.Event()}
    both = threading.Barrier(2)

    def wait(job: WorkerJob) -> bytes:
        if job.data == b"both":
            both.wait(30)
        if job.data in gates:
            gates[job.data].wait(30)
        return b"done " + job.data

    worker = Worker(hall.address, slots=3, on_error=complaints.append)
    worker.register("limited", wait, timeout_s=2)
    worker.register("unlimited", wait)
    with worker, hall.client() as client:
        try:
            hall.wait_for_workers("unlimited")
            started_s = time.monotonic()
            with Stopwatch() as watch:
                free = client.submit("unlimited", b"free")
                over = client.submit("limited", b"over")
                with pytest.raises(JobFailed):
                    over.result()
            assert time.monotonic() - started_s >= 2.0
            assert watch.elapsed_s < 4.0
            assert client.run("limited", b"within") == b"done within"
            assert not free.ended
            gates[b"over"].set()
            # Two of these run at once only when the slot is free again, after the late result was sent.
            pair = [client.submit("unlimited", b"both") for _ in range(2)]
            assert [job.result() for job in pair] == [b"done both"] * 2
            gates[b"free"].set()
            assert free.result() == b"done free"
            assert complaints == []
        finally:
            for gate in gates.values():
                gate.set()
