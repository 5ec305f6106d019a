"""Providers, and workers of other dialects for whom the hall speaks: whose result is whose, who can be hired,
and who is forgotten.
"""

from __future__ import annotations

import pytest
from hire_script import UUIDS, line
from hire_strangers import GearmanWorker, Location, PingPongWorker, WmpWorker

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.jobs import JobSpec
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.core.states import CANCELLED, DONE, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.hire.context import HireOptions
from hiringhall.dialects.wmp import wire as wmp
from stage.hall import SECOND_US, START_US
from stage.hire import FIRST_JOB, Bus, HireHall

DETACHED = Terms(detached=True)
DURABLE = Terms(durable=True, detached=True)
QUIET = HireOptions(queues=frozenset([b"bake"]))
"""Jobs of the hall are not announced there, unless somebody is to bake."""


def test_a_pingpong_worker_that_is_hired_while_it_works_does_one_after_the_other(hall: HireHall) -> None:
    worker, tower = PingPongWorker(hall), hall.guest(hall.door())
    for payload in (b"one", b"two"):
        hall.client.submits(b"grind", payload)
    assert worker.says(b"READY") == [b"one"]
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    assert worker.says(b"result of one") == [b""], "what a provider has it for comes before all else"
    assert tower.hears()[-1] == line("miller", "START", "task")
    assert worker.says(b"result of the task") == [b"two"]
    assert worker.says(b"result of two") == []
    assert hall.client.hears() == [("done 0", b"result of one"), ("done 0", b"result of two")]


def test_a_wmp_worker_whose_skill_is_not_known_does_not_bid(hall: HireHall) -> None:
    WmpWorker(hall)
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


@pytest.mark.parametrize("role", [(), ((b"role", b"grind"),)], ids=["any role", "its role"])
def test_a_wmp_worker_is_hired_woken_and_given_the_job_before_all_others(
    hall: HireHall, role: tuple[tuple[bytes, bytes], ...]
) -> None:
    worker, tower = WmpWorker(hall, (b"skill", b"9 grind")), hall.guest(hall.door(QUIET))
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "9")]
    tower.says(line("tower", "HIRE", "miller", "task"))
    (wake,) = worker.hears()
    assert (wake.command, wake.first(b"role")) == (wmp.WAKE, b"grind")
    hall.submits(b"grind", DETACHED)
    (taken,) = worker.asks(*role)
    assert (taken.command, taken.first(b"key"), taken.payload) == (wmp.TAKE, UUIDS["task"].encode(), b"")
    assert tower.hears() == [line("miller", "START", "task")]
    tower.says(line("tower", "PERFORM", "task", "grind", "3"))
    assert tower.hears() == [line("miller", "PERFORMING", "task")]
    worker.done(taken, b"ok")
    tower.says(line("tower", "DISMISS", "miller", "task"))
    assert tower.hears() == []
    hall.wait_s(61)
    assert not [worker for worker in hall.scheduler.workers if worker.leases or worker.promise is not None]


@pytest.mark.parametrize("end", ["declines", "fails", "is silent", "ignores the WAKE", "is dismissed"])
def test_a_wmp_worker_that_does_not_do_a_provider_s_job(hall: HireHall, end: str) -> None:
    worker, tower = WmpWorker(hall, (b"skill", b"9 grind")), hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    worker.hears()
    tower.hears()
    if end == "ignores the WAKE":
        hall.wait_s(6)
    else:
        (taken,) = worker.asks()
        assert tower.hears() == [line("miller", "START", "task")]
        if end == "is silent":
            hall.wait_s(61)
        elif end == "is dismissed":
            tower.says(line("tower", "DISMISS", "miller", "task"))
            (cancel,) = worker.hears()
            assert (cancel.command, cancel.first(b"job")) == (wmp.CANCEL, taken.first(b"job"))
        else:
            worker.done(taken, b"declined" if end == "declines" else b"failed")
    assert tower.hears() == ([] if end == "is dismissed" else [line("miller", "QUIT", "task")])


def test_a_wmp_worker_at_work_does_not_bid_until_it_is_ready_again(hall: HireHall) -> None:
    worker, tower = WmpWorker(hall, (b"skill", b"9 grind")), hall.guest(hall.door(QUIET))
    hall.submits(b"grind", DETACHED)
    worker.hears()
    (taken,) = worker.asks()
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [], "nobody knows when it will be free"
    worker.done(taken, b"ok")
    worker.says(wmp.READY, (b"role", b"grind"), (b"skill", b"9 grind")).hears()
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "9")]


def test_a_dwork_location_is_hired_and_steals_the_job_before_all_others(hall: HireHall) -> None:
    node, tower = Location(hall), hall.guest(hall.door(QUIET))
    hall.submits(b"grind", DETACHED)
    (first,) = node.asks(dwork.STEAL).tasks
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "10", "7")], "as long as a job takes by itself"
    assert node.asks(dwork.COMPLETE, [dwork.encode_task(first.name, b"")]).type == dwork.OK
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    hall.submits(b"grind", DETACHED)
    (task,) = node.asks(dwork.STEAL).tasks
    assert (task.name, task.origin) == (b"#%d" % (FIRST_JOB + 2), b"")
    assert tower.hears()[-1] == line("miller", "START", "task")
    tower.says(line("tower", "PERFORM", "task", "grind", "3"))
    assert tower.hears() == [line("miller", "PERFORMING", "task")]
    assert node.asks(dwork.COMPLETE, [dwork.encode_task(task.name, b"")]).type == dwork.OK
    assert tower.hears() == []
    (after,) = node.asks(dwork.STEAL).tasks
    assert after.name == b"#%d" % (FIRST_JOB + 3)


@pytest.mark.parametrize("end", ["gives it back", "exits", "never asks"])
def test_a_dwork_location_that_does_not_do_a_provider_s_job(hall: HireHall, end: str) -> None:
    node, tower = Location(hall), hall.guest(hall.door())
    node.asks(dwork.STEAL)
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "7")]
    if end == "never asks":
        hall.wait_s(6)
    else:
        (task,) = node.asks(dwork.STEAL).tasks
        assert tower.hears() == [line("miller", "START", "task")]
        if end == "exits":
            node.asks(dwork.EXIT)
        else:
            node.asks(dwork.TRANSFER, [dwork.encode_task(task.name, b"")])
    assert tower.hears() == [line("miller", "QUIT", "task")]


def test_a_dwork_location_that_is_unknown_or_silent_does_not_bid(hall: HireHall) -> None:
    node, tower = Location(hall), hall.guest(hall.door())
    node.asks(dwork.STEAL)
    hall.wait_s(61)
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []
    node.asks(dwork.STEAL)
    hall.scheduler.needs.set_ratings(Ratings([]))
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


def test_tasks_outside_the_hall_are_held_by_nobody_who_bids(hall: HireHall) -> None:
    hall.scheduler.needs.set_ratings(Ratings([(b"*", Rating({b"grind": 7}, 0))]))
    hall.scheduler.reports.start(JobSpec(b"grind", b"", b"k", DURABLE), b"somebody", START_US)
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


def test_a_worker_whose_job_takes_who_knows_how_long_is_not_said_to_be_free(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    hall.submits(b"grind", DETACHED)
    miller.takes()
    tower = hall.guest(hall.door(rules=Rules(soonest, perform_us=20 * SECOND_US)))

    def is_free_in() -> str:
        tower.says(line("tower", "ANNOUNCE", "task", "grind"))
        (said,) = tower.hears()
        return said.split(":")[1]

    assert is_free_in() == "20"
    hall.wait_s(15)
    assert is_free_in() == "5"
    hall.wait_s(15)
    assert is_free_in() == "30", "as long again as it has taken"


def test_a_gearman_worker_that_takes_no_such_jobs_any_more_is_said_to_quit(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert miller.session.worker is not None
    hall.scheduler.cant_do(miller.session.worker, b"grind")
    tower.says(line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "0"), line("miller", "QUIT", "task")]


def test_a_provider_on_a_bus_may_be_silent_while_a_worker_of_another_dialect_performs(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    bus = Bus(hall, hall.door(HireOptions(bus=True, posting_us=2 * SECOND_US)))
    bus.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    miller.takes()
    bus.says(line("tower", "PERFORM", "task", "grind", "10"))
    bus.hears()
    hall.wait_s(11)
    assert bus.hears() == []
    hall.wait_s(2)
    assert bus.hears() == [line("miller", "QUIT", "task")]


@pytest.mark.parametrize("end", ["goes", "dismisses"])
def test_a_client_s_job_with_the_id_of_a_posting_is_its_own(hall: HireHall, end: str) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "roof-7", "grind"), line("tower", "HIRE", "miller", "roof-7"))
    miller.takes()
    job = hall.scheduler.submit(JobSpec(b"grind", b"precious", b"roof-7", DURABLE), None)
    tower.says(line("tower", "PERFORM", "roof-7", "grind", "10"))
    if end == "goes":
        tower.leaves()
    else:
        tower.says(line("tower", "DISMISS", "miller", "roof-7"))
    hall.end()
    assert (job.state, job.payload) == (QUEUED, b"precious")


def test_a_bid_can_be_taken_back(hall: HireHall) -> None:
    door = hall.door(rules=Rules(soonest, window_us=1000))
    smith, tower = hall.guest(door), hall.guest(door)
    job = hall.submits(b"bake", DETACHED)
    hall.end()
    smith.says(line("smith", "AVAIL", "job1", "0", "1"), line("smith", "QUIT", "job1"))
    hall.wait_s(0.001)
    assert job.state == QUEUED
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"), line("smith", "QUIT", "task"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears()[-3:] == [
        line("smith", "AVAIL", "task", "0", "1"),
        line("smith", "QUIT", "task"),
        line("smith", "QUIT", "task"),
    ]


def test_what_a_queue_needs_is_asked_of_those_who_bid_for_a_posting(hall: HireHall) -> None:
    hall.scheduler.needs.need(b"guard", 5, 60 * SECOND_US)
    door = hall.door()
    smith, baker, tower = (hall.guest(door) for _ in range(3))
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "4"))
    baker.says(line("baker", "AVAIL", "task", "0", "5"))
    assert tower.hears() == [line("baker", "AVAIL", "task", "0", "5")]
    (worker,) = (worker for worker in hall.scheduler.workers if worker.name == UUIDS["baker"].encode())
    hall.scheduler.needs.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "baker", "task"))
    assert tower.hears() == [line("baker", "QUIT", "task")]


def test_one_who_has_too_little_time_is_dismissed_in_place_of_performing(hall: HireHall) -> None:
    door = hall.door()
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    (worker,) = hall.scheduler.workers
    hall.scheduler.needs.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "smith", "task"))
    smith.says(line("smith", "START", "task"))
    tower.reads()
    tower.says(line("tower", "PERFORM", "task", "guard", "60"))
    assert smith.hears()[-1] == line("tower", "DISMISS", "smith", "task")
    assert tower.hears() == [line("smith", "QUIT", "task")]


def test_whose_announcements_are_over_is_forgotten_on_a_bus(hall: HireHall) -> None:
    options = HireOptions(bus=True, posting_us=2 * SECOND_US, idle_us=2 * SECOND_US, participants_max=2)
    bus = Bus(hall, hall.door(options))
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("castle", "ANNOUNCE", "roof-7", "guard"))
    bus.hears()
    hall.wait_s(3)
    bus.says(line("smith", "ANNOUNCE", "roof-8", "guard"))
    assert bus.hears() == [line("smith", "ANNOUNCE", "roof-8", "guard")]


def test_long_engagements_do_not_keep_what_is_over(hall: HireHall) -> None:
    door = hall.door(HireOptions(posting_us=2 * SECOND_US))
    door.hire_bus.relay.postings.postings_max = 4
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    for number in range(3):
        tower.says(line("tower", "ANNOUNCE", f"roof-{number}", "guard"))
    hall.wait_s(1)
    tower.says(line("tower", "ANNOUNCE", "roof-0", "guard"))
    tower.reads()
    hall.wait_s(1.5)
    tower.says(line("tower", "ANNOUNCE", "one-more", "guard"))
    assert tower.hears() == []
    assert list(door.hire_bus.relay.postings.by_job) == [
        b"roof-0",
        UUIDS["task"].encode(),
        b"one-more",
    ]


def test_a_provider_s_job_that_ended_is_told_from_one_that_was_called_off(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    (job,) = hall.scheduler.jobs.values()
    miller.takes()
    miller.completes()
    hall.end()
    assert (job.state, job.key) == (DONE, UUIDS["task"].encode())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    (job,) = hall.scheduler.jobs.values()
    tower.leaves()
    assert job.state == CANCELLED
