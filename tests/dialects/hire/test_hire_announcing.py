"""What many peers hear, and what they answer: announcements in one message, bids in every spelling."""

from __future__ import annotations

import pytest
from hire_script import line

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.jobs import JobSpec
from hiringhall.core.terms import Terms
from hiringhall.dialects.hire.context import HireOptions
from stage.hire import Bus, HireHall

DETACHED = Terms(detached=True)
ANNOUNCED = [line("hall", "ANNOUNCE", "job1", "bake"), line("hall", "ANNOUNCE", "job2", "brew")]


def submit_two(hall: HireHall) -> None:
    """Two jobs in one turn."""
    with hall.turn():
        for queue in (b"bake", b"brew"):
            hall.scheduler.submit(JobSpec(queue, b"", terms=DETACHED), None)


def test_the_announcements_of_a_turn_are_one_message_to_a_connection(hall: HireHall) -> None:
    smith = hall.guest(hall.door())
    submit_two(hall)
    assert smith.messages() == ["".join(f"{text}\n" for text in ANNOUNCED).encode()]


def test_on_a_bus_each_announcement_is_a_message(hall: HireHall) -> None:
    bus = Bus(hall, hall.door(HireOptions(bus=True)))
    submit_two(hall)
    assert bus.hears() == ANNOUNCED


def test_announcements_that_wait_are_one_message(hall: HireHall) -> None:
    smith = hall.guest(hall.door(rules=Rules(soonest, coalesce_us=20_000)))
    hall.submits(b"bake", DETACHED)
    smith.messages()
    hall.wait_s(0.001)
    hall.submits(b"brew", DETACHED)
    hall.wait_s(0.015)
    hall.submits(b"bake", DETACHED)
    assert smith.messages() == []
    hall.wait_s(0.005)
    (said,) = smith.messages()
    assert said.count(b" ANNOUNCE ") == 2


def test_one_who_connects_when_a_job_is_announced_again_hears_it_once(hall: HireHall) -> None:
    door = hall.door(rules=Rules(soonest, window_us=1_000, pause_us=5_000))
    hall.guest(door)
    job = hall.submits(b"bake", DETACHED)
    hall.wait_s(0.001)
    auction = hall.scheduler.auctions.by_job[job.id]
    with hall.turn(auction.due_us - hall.scheduler.now_us):
        smith = hall.guest(door)
    assert smith.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]


@pytest.mark.parametrize("time", ["0", "1", "000001", "0000001", "0.0", "2.5", "999999"])
@pytest.mark.parametrize("skill", ["0", "7", "000007", "999999"])
@pytest.mark.parametrize("upper", [False, True])
def test_a_bid_counts_in_every_spelling(hall: HireHall, time: str, skill: str, upper: bool) -> None:
    smith = hall.guest(hall.door(rules=Rules(soonest, promise_max_us=1_000_000_000_000)))
    job = hall.submits(b"bake", DETACHED)
    smith.hears()
    smith.says(line("smith", "QUIT", "job1"))  # so that it is known
    said = line("smith", "AVAIL", "job1", time, skill)
    smith.says(said.upper() if upper else said)
    (offer,) = hall.scheduler.auctions.by_job[job.id].bids.values()
    assert offer.skill == int(skill)
    assert offer.arrives_us == hall.scheduler.now_us + round(float(time) * 1_000_000)
    assert smith.hears() == []


@pytest.mark.parametrize(
    "fields", ["job1:0", "job1:0:1:2", "job1::1", "job1:0:", "job1:-1:1", "job1:0:+1", "job1:0:1 "]
)
def test_what_only_looks_like_a_bid_is_refused(hall: HireHall, fields: str) -> None:
    smith = hall.guest(hall.door())
    job = hall.submits(b"bake", DETACHED)
    smith.hears()
    smith.says(line("smith", "QUIT", "job1"))
    name = line("smith", "QUIT", "job1").rpartition(" ")[2]
    smith.says(
        line("smith", "AVAIL", "job1", "0", "1").partition("AVAIL")[0] + "AVAIL " + fields.replace("job1", name)
    )
    (answer,) = smith.hears()
    assert answer.startswith("# ")
    assert not hall.scheduler.auctions.by_job[job.id].bids


def test_a_bid_for_a_job_that_is_taken_is_ignored(hall: HireHall) -> None:
    smith = hall.guest(hall.door())
    job = hall.submits(b"bake", DETACHED)
    smith.hears()
    smith.says(line("smith", "AVAIL", "job1", "0", "1"))
    with hall.turn():
        hall.scheduler.cancel(job, b"")
    smith.says(line("smith", "AVAIL", "job1", "0", "1"))
    assert smith.hears() == []
