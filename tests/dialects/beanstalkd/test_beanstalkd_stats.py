"""What the stats commands tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiringhall.core.jobs import JobSpec
from hiringhall.core.terms import Terms
from hiringhall.dialects.beanstalkd import wire
from stage.hall import SECOND_US

if TYPE_CHECKING:
    from stage.beanstalkd import BeanstalkdGuest, BeanstalkdHall


def test_stats_of_a_job_follow_its_life(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    job_id = guest.puts(priority=70_000, delay_s=10, run_s=20)
    hall.wait(4 * SECOND_US)

    def stats(*names: str) -> list[str]:
        found = guest.stats("stats-job", job_id)
        return [found[name] for name in names]

    assert stats("id", "tube", "pri", "ttr", "age") == [str(job_id), "default", "1024", "20", "4"]
    assert stats("state", "time-left", "reserves") == ["delayed", "6", "0"]
    hall.wait(6 * SECOND_US)
    assert stats("state", "time-left") == ["ready", "0"]
    guest.reserves()
    hall.wait(5 * SECOND_US)
    assert stats("state", "time-left", "reserves") == ["reserved", "15", "1"]
    guest.says(f"release {job_id} 4294967295 0")
    assert stats("state", "pri", "releases") == ["ready", "2147483649", "1"]
    guest.reserves()
    hall.wait(20 * SECOND_US)
    assert stats("state", "timeouts", "buries", "kicks") == ["ready", "1", "0", "0"]
    guest.reserves()
    guest.says(f"bury {job_id} 0")
    assert stats("state", "pri", "buries", "kicks", "reserves") == ["buried", "0", "1", "0", "3"]
    guest.says("kick 1")
    assert stats("state", "buries", "kicks", "releases", "timeouts") == ["ready", "1", "1", "1", "1"]


def test_stats_of_a_tube_count_its_jobs_and_its_connections(
    hall: BeanstalkdHall, guest: BeanstalkdGuest
) -> None:
    guest.says("use mail")
    for priority, delay_s in ((0, 0), (1023, 0), (1024, 0), (1024, 0), (0, 90)):
        guest.puts(priority=priority, delay_s=delay_s)
    worker, waiting = hall.guest(), hall.guest()
    worker.says("watch mail", "ignore default")
    buried, _ = worker.reserves(), worker.reserves()
    worker.says(f"bury {buried} 0")
    waiting.says("watch other", "reserve")
    assert guest.stats("stats-tube mail") == {
        "name": "mail",
        "current-jobs-urgent": "0",
        "current-jobs-ready": "2",
        "current-jobs-reserved": "1",
        "current-jobs-delayed": "1",
        "current-jobs-buried": "1",
        "current-using": "1",
        "current-watching": "1",
        "current-waiting": "0",
    }
    other = guest.stats("stats-tube other")
    assert (other["current-watching"], other["current-waiting"], other["current-using"]) == ("1", "1", "0")
    assert hall.guest().stats("stats-tube default")["current-using"] == "3"


def test_stats_of_the_hall_count_commands_and_connections(hall: BeanstalkdHall, guest: BeanstalkdGuest) -> None:
    for _ in range(3):
        guest.puts()
    gone = hall.guest()
    gone.reserves()
    gone.leaves()
    hall.wait(7 * SECOND_US)
    stats = guest.stats("stats")
    assert {name: stats[name] for name in ("cmd-put", "cmd-reserve-with-timeout", "cmd-stats", "cmd-kick")} == {
        "cmd-put": "3",
        "cmd-reserve-with-timeout": "1",
        "cmd-stats": "1",
        "cmd-kick": "0",
    }
    assert {f"cmd-{command.decode()}" for command in wire.ARGUMENTS} <= set(stats)
    assert (stats["current-connections"], stats["total-connections"]) == ("1", "2")
    assert (stats["current-jobs-ready"], stats["total-jobs"], stats["uptime"]) == ("3", "3", "7")
    assert (stats["pid"], stats["version"], stats["draining"]) == ("4711", "1.12+test", "false")
    assert stats["max-job-size"] == "65535"


@pytest.mark.parametrize("name", [b"two\nlines", b"has blanks", b"-dash", b"x" * 201])
def test_queues_that_cannot_be_named_here_are_not_listed(
    hall: BeanstalkdHall, guest: BeanstalkdGuest, name: bytes
) -> None:
    hall.begin()
    hall.scheduler.submit(JobSpec(name, b"x", b"", Terms(detached=True)), None)
    assert guest.says("list-tubes") == "OK 14\n---\n- default\n"
