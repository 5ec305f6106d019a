"""Closing time: SIGTERM, a second SIGTERM, and `shutdown` at the door."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess, wait_until
from house_worker import HouseWorker

from hiringhall.core.states import DONE
from hiringhall.peers.gearman import ConnectionLost, GearmanError
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pathlib import Path


def wait_for_drain(hall: HallProcess) -> None:
    wait_until(lambda: "draining" in hall.errors(), "the hall says that it drains")


def test_sigterm_lets_the_running_job_finish_and_hands_out_nothing_new(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("gate")
        running = client.submit("gate", b"x")
        wait_until(lambda: client.status(running).running, "the job runs")
        hall.signal(signal.SIGTERM)
        wait_for_drain(hall)
        client.submit_background("note", b"for tomorrow")
        assert client.status(running).running
        house.gate.release()
        assert running.result() == b"opened"
        assert hall.wait() == 0
        assert house.order == []

        hall.start()
        wait_until(hall.history, "the worker is back and does what was left")
        assert house.order == [b"for tomorrow"]
    assert [end.queue for end in hall.history()] == [b"note"]


def test_with_nothing_to_wait_for_it_closes_at_once(hall: HallProcess) -> None:
    with HouseWorker(hall.address):
        hall.wait_for_workers("gate")
        with Stopwatch() as watch:
            hall.signal(signal.SIGTERM)
            assert hall.wait() == 0
        assert watch.elapsed_s < 5.0


def test_a_job_that_outlasts_the_grace_time_goes_back_without_a_loss(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall={"drain_grace_s": 0.5}) as hall, hall.client() as client:
        with HouseWorker(hall.address) as house:
            hall.wait_for_workers("gate")
            client.submit_background("gate", b"x", unique="slow")
            wait_until(lambda: client.status_unique("slow").running, "the job runs")
            hall.signal(signal.SIGTERM)
            assert hall.wait() == 0
            house.gate.release()
        hall.start()
        with HouseWorker(hall.address) as house:
            house.gate.release()
            wait_until(hall.history, "the job is done after all")
        (end,) = hall.history()
        assert (end.key, end.state, end.losses) == (b"slow", DONE, 0)


def test_a_second_sigterm_stops_at_once(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("gate")
        client.submit_background("gate", b"x", unique="interrupted")
        wait_until(lambda: client.status_unique("interrupted").running, "the job runs")
        hall.signal(signal.SIGTERM)
        wait_for_drain(hall)
        assert hall.running
        with Stopwatch() as watch:
            hall.signal(signal.SIGTERM)
            hall.wait()
        assert watch.elapsed_s < 3.0
        house.gate.release()

        hall.start()
        house.gate.release()
        wait_until(hall.history, "the job is done in the next run")
        (end,) = hall.history()
        assert (end.key, end.state) == (b"interrupted", DONE)


def test_a_foreground_job_is_refused_while_draining(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("gate")
        running = client.submit("gate", b"x")
        wait_until(lambda: client.status(running).running, "the job runs")
        hall.signal(signal.SIGTERM)
        wait_for_drain(hall)
        with pytest.raises(GearmanError):
            client.run("reverse", b"too late")
        house.gate.release()
        assert running.result() == b"opened"
        assert hall.wait() == 0


def test_shutdown_at_the_door(hall: HallProcess) -> None:
    with hall.client() as client:
        client.submit_background("note", b"kept")
        assert hall.admin("shutdown") == ["OK"]
        hall.wait()
        with pytest.raises(ConnectionLost):
            client.echo(b"anybody there?")
    hall.start()
    assert hall.counts("note")[0] == 1


def test_a_graceful_shutdown_at_the_door_waits_for_the_running_job(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("gate")
        running = client.submit("gate", b"x")
        wait_until(lambda: client.status(running).running, "the job runs")
        assert hall.admin("shutdown graceful") == ["OK"]
        wait_for_drain(hall)
        assert client.status(running).running
        house.gate.release()
        assert running.result() == b"opened"
        assert hall.wait() == 0
