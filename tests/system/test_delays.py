"""Jobs for later: they wait, and when they are due they wake whoever sleeps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hall_process import wait_until
from house_worker import HouseWorker

from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from hall_process import HallProcess

LATE_S = 3.0
"""How late a wake-up may come, without the time in which the machine stood still."""


def test_a_delayed_job_wakes_a_sleeping_worker_when_it_is_due(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("note")
        due_s = int(time.time()) + 2
        with Stopwatch() as watch:
            receipt = client.submit_at("note", b"in time", epoch_s=due_s)
            assert client.status(receipt)[:2] == (True, False) or time.time() >= due_s
            assert client.run("reverse", b"nothing else waits") == b"nothing else waits"[::-1]
            wait_until(lambda: house.order, "the delayed job is done")
        assert time.time() >= due_s
        assert watch.elapsed_s < 2 + LATE_S
        assert house.order == [b"in time"]


def test_a_delayed_job_survives_a_kill(hall: HallProcess) -> None:
    with hall.client() as client:
        due_s = int(time.time()) + 3
        client.submit_at("note", b"still here", epoch_s=due_s)
    hall.kill()
    hall.start()
    with HouseWorker(hall.address) as house:
        wait_until(lambda: house.order, "the delayed job is done")
        assert house.order == [b"still here"]
        assert time.time() >= due_s


def test_what_was_due_in_the_past_is_due_now(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        client.submit_at("note", b"overdue", epoch_s=1)
        wait_until(lambda: house.order, "the job is done")


def test_a_scheduled_job_waits_for_its_minute(hall: HallProcess) -> None:
    with HouseWorker(hall.address) as house, hall.client() as client:
        hall.wait_for_workers("note")
        soon = time.gmtime(time.time() + 7200)
        receipt = client.submit_schedule("note", b"later", minute="0", hour=str(soon.tm_hour))
        assert client.status(receipt)[:2] == (True, False)
        assert hall.counts("note")[:2] == (1, 0)
        assert client.run("reverse", b"on") == b"no"
        assert house.order == []
