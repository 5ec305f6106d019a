"""PING/PONG with processes that are killed, stopped and restarted: both sides do what the protocol says, within
its times, and the client hears the right result.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from foreign import first_to_speak
from hall_process import wait_until
from pingpong_house import (
    EXPIRE_S,
    JOB_TIMEOUT_S,
    PING_S,
    SILENCE_S,
    SLACK_S,
    PingPongHall,
)

from hiringhall.core.states import DONE
from hiringhall.peers.pingpong import JobFailed, Refused
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreign import Program


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[PingPongHall]:
    with PingPongHall(tmp_path) as hall:
        yield hall


def next_job(worker: Program) -> str:
    """The next job it says it got, whatever it said of its connection before."""
    while not (line := worker.line()).startswith("got"):
        assert line == "anew"
    return line


def test_jobs_flow(hall: PingPongHall) -> None:
    with hall.open_worker(), hall.open_worker(), hall.job_client() as client:
        payloads = [b"0 %d" % number for number in range(1000)]
        assert list(client.map(payloads)) == [b"did " + payload for payload in payloads]
    hall.audit()


def test_the_hall_is_restarted_and_an_idle_worker_is_there_again(hall: PingPongHall) -> None:
    with hall.open_worker() as worker:
        with hall.job_client() as client:
            assert client.submit(b"0 before") == b"did 0 before"
        hall.kill()
        hall.start()
        with Stopwatch() as watch, hall.job_client() as client:
            assert client.submit(b"0 after") == b"did 0 after"
        assert watch.elapsed_s < SILENCE_S + PING_S + SLACK_S
        assert worker.process.poll() is None


def test_the_hall_is_gone_and_the_worker_connects_anew_again_and_again(hall: PingPongHall) -> None:
    with hall.open_worker() as worker, hall.job_client() as client:
        assert client.submit(b"0 before") == b"did 0 before"
        hall.kill()
        killed_s = time.monotonic()
        with Stopwatch() as watch:
            for count in (1, 2, 3):
                assert worker.line() == "anew"
                assert watch.elapsed_s < count * SILENCE_S + SLACK_S
        assert time.monotonic() - killed_s > 2 * SILENCE_S
        hall.start()
        with hall.job_client() as later:
            assert later.submit(b"0 after") == b"did 0 after"


def test_the_hall_is_restarted_while_a_worker_works(hall: PingPongHall) -> None:
    """The client hands its job in again; the result of the old job is nobody's in the new hall."""
    with hall.open_worker() as worker, hall.job_client(timeout_s=3.0, retries=5) as client:
        request = client.start(b"gate first")
        assert worker.line() == "got gate first"
        hall.kill()
        hall.start()
        worker.say("go")
        with hall.job_client() as other:
            assert other.submit(b"0 second") == b"did 0 second"
        worker.say("go")
        assert request.result() == b"did gate first"
        assert request.tries >= 2


def test_a_durable_job_survives_the_hall_and_its_client(tmp_path: Path) -> None:
    with PingPongHall(tmp_path, durable=True) as hall:
        with hall.open_worker() as busy, hall.job_client() as client:
            client.start(b"gate kept")
            assert busy.line() == "got gate kept"
            with hall.open_worker():
                assert client.submit(b"0 later") == b"did 0 later", "on disk, and so is what came before it"
            hall.kill()
        hall.start()
        with hall.open_worker() as worker:
            assert worker.line() == "got gate kept"
            worker.say("go")
            wait_until(lambda: len(hall.history()) == 2, "both jobs have ended")
        assert {end.result: end.state for end in hall.history()} == {
            b"did gate kept": DONE,
            b"did 0 later": DONE,
        }


def test_a_worker_is_killed_while_idle_and_others_do_its_share(hall: PingPongHall) -> None:
    with hall.open_worker() as first, hall.open_worker(), hall.job_client() as client:
        assert client.submit(b"0 a") == b"did 0 a"
        first.process.kill()
        first.process.wait()
        payloads = [b"0 %d" % number for number in range(20)]
        with Stopwatch() as watch:
            assert list(client.map(payloads)) == [b"did " + payload for payload in payloads]
        assert watch.elapsed_s < JOB_TIMEOUT_S + SLACK_S
    hall.audit()


def test_a_worker_is_killed_while_it_works_and_the_job_is_sent_to_another(hall: PingPongHall) -> None:
    with hall.open_worker() as one, hall.open_worker() as two, hall.job_client() as client:
        request = client.start(b"gate x")
        first = first_to_speak(one, two)
        assert first.line() == "got gate x"
        second = two if first is one else one
        with Stopwatch() as watch:
            first.process.kill()
            assert second.line() == "got gate x"
        assert watch.elapsed_s < JOB_TIMEOUT_S + SLACK_S
        second.say("go")
        assert request.result() == b"did gate x"


def test_a_worker_that_is_stopped_while_idle_is_sent_no_job_after_it_expired(hall: PingPongHall) -> None:
    with hall.open_worker() as stopped, hall.open_worker() as other, hall.job_client() as client:
        requests = [client.start(b"gate 1"), client.start(b"gate 2")]
        for worker in (stopped, other):
            assert worker.line().startswith("got gate")
        for worker in (stopped, other):
            worker.say("go")
        for request in requests:
            request.result()

        stopped.process.send_signal(signal.SIGSTOP)
        assert not stopped.waiting(EXPIRE_S + PING_S + 0.3), "it is stopped, and says nothing"
        with Stopwatch() as watch:
            third = client.start(b"gate 3")
            assert other.line() == "got gate 3"
        assert watch.elapsed_s < JOB_TIMEOUT_S, "it was not sent to the other one first"
        fourth = client.start(b"gate 4")
        assert not other.waiting(0.3), "nobody is ready"

        stopped.process.send_signal(signal.SIGCONT)
        assert next_job(stopped) == "got gate 4", "its next PING puts it into the queue again"
        stopped.say("go")
        other.say("go")
        assert (third.result(), fourth.result()) == (b"did gate 3", b"did gate 4")


def test_a_worker_that_is_stopped_while_it_works_loses_its_job_and_works_on_later(hall: PingPongHall) -> None:
    with hall.open_worker() as one, hall.open_worker() as two, hall.job_client() as client:
        request = client.start(b"gate x")
        stopped = first_to_speak(one, two)
        other = two if stopped is one else one
        assert stopped.line() == "got gate x"
        stopped.process.send_signal(signal.SIGSTOP)
        with Stopwatch() as watch:
            assert next_job(other) == "got gate x"
        assert watch.elapsed_s < JOB_TIMEOUT_S + SLACK_S
        following = client.start(b"gate y")
        stopped.process.send_signal(signal.SIGCONT)
        stopped.say("go")
        assert next_job(stopped) == "got gate y", "its late result made it ready"
        stopped.say("go")
        other.say("go")
        assert request.result() == b"did gate x"
        assert following.result() == b"did gate y"
    hall.audit()


def test_the_hall_is_stopped_and_workers_connect_anew_until_it_goes_on(hall: PingPongHall) -> None:
    with hall.open_worker() as worker, hall.job_client() as client:
        assert client.submit(b"0 before") == b"did 0 before"
        hall.signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        with Stopwatch() as watch:
            assert worker.line() == "anew"
        assert time.monotonic() - stopped_s > SILENCE_S - PING_S
        assert watch.elapsed_s < SILENCE_S + SLACK_S
        request = client.start(b"0 meanwhile")
        assert worker.line() == "anew"
        with Stopwatch() as watch:
            hall.signal(signal.SIGCONT)
            assert request.result() == b"did 0 meanwhile"
        # It may have been sent to the worker that was there before, which is found out by its silence.
        assert watch.elapsed_s < JOB_TIMEOUT_S + SILENCE_S + SLACK_S


def test_a_short_silence_of_the_hall_is_no_reason_to_leave(hall: PingPongHall) -> None:
    with hall.open_worker() as worker, hall.job_client() as client:
        assert client.submit(b"0 before") == b"did 0 before"
        hall.signal(signal.SIGSTOP)
        assert not worker.waiting(SILENCE_S / 2)
        hall.signal(signal.SIGCONT)
        assert client.submit(b"0 after") == b"did 0 after"
        assert not worker.waiting(SILENCE_S + PING_S), "it has not connected anew"


def test_what_a_client_hears_of_failure(hall: PingPongHall) -> None:
    with hall.open_worker(), hall.job_client() as client:
        with pytest.raises(JobFailed) as failure:
            client.submit(b"not a number")
        assert failure.value.code == 1
        assert failure.value.reason.startswith(b"ValueError: could not convert")
        with pytest.raises(Refused) as refusal:
            client.submit(b"PONG")
        assert refusal.value.reason == "bad_request"


def test_a_worker_that_ends_well_finishes_its_job(hall: PingPongHall) -> None:
    with hall.open_worker() as worker, hall.job_client() as client:
        request = client.start(b"gate last")
        assert worker.line() == "got gate last"
        worker.process.send_signal(signal.SIGTERM)
        worker.say("go")
        assert request.result() == b"did gate last"
        assert worker.line() == "stopped"
