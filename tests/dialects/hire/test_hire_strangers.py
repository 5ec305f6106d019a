"""Providers, and workers of other dialects for whom the hall speaks: whose result is whose, who can be hired,
and who is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hire_room import FIRST_JOB, SECOND_US, START_US, Bus, GearmanWorker, Room, line
from hire_script import UUIDS

from hiringhall.core.jobs import JobSpec
from hiringhall.core.markets import Rules
from hiringhall.core.peer import Peer
from hiringhall.core.policies import soonest
from hiringhall.core.ratings import Rating, Ratings
from hiringhall.core.states import CANCELLED, DONE, QUEUED
from hiringhall.core.terms import Terms
from hiringhall.dialects.dwork import wire as dwork
from hiringhall.dialects.dwork.context import DworkContext, DworkOptions
from hiringhall.dialects.dwork.session import DworkSession
from hiringhall.dialects.hire.context import HireOptions
from hiringhall.dialects.pingpong.context import PingPongContext, PingPongOptions
from hiringhall.dialects.pingpong.session import WorkerSession
from hiringhall.dialects.session import Caller
from hiringhall.dialects.wmp import wire as wmp
from hiringhall.dialects.wmp.session import WmpContext, WmpOptions, WmpSession

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

DETACHED = Terms(detached=True)
DURABLE = Terms(durable=True, detached=True)
QUIET = HireOptions(queues=frozenset([b"bake"]))
"""Jobs of the hall are not announced there, unless somebody is to bake."""


class Client(Peer):
    """Waits for results."""

    def __init__(self) -> None:
        super().__init__()
        self.results: dict[bytes, bytes] = {}

    def ended(self, job: Job) -> None:
        self.results[job.payload] = job.result


class PingPongWorker:
    """Says what it is told to say, and hears jobs."""

    def __init__(self, room: Room) -> None:
        self.room = room
        door = PingPongContext(room.hall, PingPongOptions(queue=b"grind"))
        self.session = WorkerSession(Caller("127.0.0.1", -1, (b"pong", b"")), door)
        self.session.outbox = room.outbox

    def says(self, body: bytes) -> list[bytes]:
        """What it hears then."""
        self.session.receive(body)
        self.room.end_turn()
        said = list(self.session.out)
        self.room.taken(self.session)
        return said


def test_a_pingpong_worker_that_is_hired_while_it_works_does_one_after_the_other(room: Room) -> None:
    client, worker, tower = Client(), PingPongWorker(room), room.guest(room.door())
    for payload in (b"one", b"two"):
        room.hall.submit(JobSpec(b"grind", payload), client)
    assert worker.says(b"READY") == [b"one"]
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    assert worker.says(b"result of one") == [b""], "what a provider has it for comes before all else"
    assert tower.hears()[-1] == line("miller", "START", "task")
    assert worker.says(b"result of the task") == [b"two"]
    assert worker.says(b"result of two") == []
    assert client.results == {b"one": b"result of one", b"two": b"result of two"}


class WmpWorker:
    """Says what it is told to say, and hears commands."""

    def __init__(self, room: Room, *ready: tuple[bytes, bytes]) -> None:
        self.room = room
        door = WmpContext(room.hall, WmpOptions(), bytes(32))
        self.session = WmpSession(Caller("127.0.0.1", -1, (b"w", b"", b"")), door)
        self.session.outbox = room.outbox
        self.says(wmp.READY, (b"role", b"grind"), *ready)

    def says(self, command: bytes, *headers: tuple[bytes, bytes]) -> list[wmp.Message]:
        """What it hears then."""
        self.session.receive(wmp.encode_body(command, list(headers)))
        return self.hears()

    def hears(self) -> list[wmp.Message]:
        self.room.end_turn()
        said = [wmp.parse_body(text) for text in self.session.out]
        self.room.taken(self.session)
        return said

    def done(self, taken: wmp.Message, status: bytes) -> list[wmp.Message]:
        headers = [(name, taken.first(name)) for name in (b"manager", b"job")]
        return self.says(wmp.DONE, *headers, (b"status", status))


def test_a_wmp_worker_whose_skill_is_not_known_does_not_bid(room: Room) -> None:
    WmpWorker(room)
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


@pytest.mark.parametrize("role", [(), ((b"role", b"grind"),)], ids=["any role", "its role"])
def test_a_wmp_worker_is_hired_woken_and_given_the_job_before_all_others(
    room: Room, role: tuple[tuple[bytes, bytes], ...]
) -> None:
    worker, tower = WmpWorker(room, (b"skill", b"9 grind")), room.guest(room.door(QUIET))
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "9")]
    tower.says(line("tower", "HIRE", "miller", "task"))
    (wake,) = worker.hears()
    assert (wake.command, wake.first(b"role")) == (wmp.WAKE, b"grind")
    room.submits(b"grind", DETACHED)
    (taken,) = worker.says(wmp.GIVE, *role)
    assert (taken.command, taken.first(b"key"), taken.payload) == (wmp.TAKE, UUIDS["task"].encode(), b"")
    assert tower.hears() == [line("miller", "START", "task")]
    tower.says(line("tower", "PERFORM", "task", "grind", "3"))
    assert tower.hears() == [line("miller", "PERFORMING", "task")]
    worker.done(taken, b"ok")
    tower.says(line("tower", "DISMISS", "miller", "task"))
    assert tower.hears() == []
    room.wait(61)
    assert not [worker for worker in room.hall.workers if worker.leases or worker.promise is not None]


@pytest.mark.parametrize("end", ["declines", "fails", "is silent", "ignores the WAKE", "is dismissed"])
def test_a_wmp_worker_that_does_not_do_a_provider_s_job(room: Room, end: str) -> None:
    worker, tower = WmpWorker(room, (b"skill", b"9 grind")), room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    worker.hears()
    tower.hears()
    if end == "ignores the WAKE":
        room.wait(6)
    else:
        (taken,) = worker.says(wmp.GIVE)
        assert tower.hears() == [line("miller", "START", "task")]
        if end == "is silent":
            room.wait(61)
        elif end == "is dismissed":
            tower.says(line("tower", "DISMISS", "miller", "task"))
            (cancel,) = worker.hears()
            assert (cancel.command, cancel.first(b"job")) == (wmp.CANCEL, taken.first(b"job"))
        else:
            worker.done(taken, b"declined" if end == "declines" else b"failed")
    assert tower.hears() == ([] if end == "is dismissed" else [line("miller", "QUIT", "task")])


def test_a_wmp_worker_at_work_does_not_bid_until_it_is_ready_again(room: Room) -> None:
    worker, tower = WmpWorker(room, (b"skill", b"9 grind")), room.guest(room.door(QUIET))
    room.submits(b"grind", DETACHED)
    worker.hears()
    (taken,) = worker.says(wmp.GIVE)
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [], "nobody knows when it will be free"
    worker.done(taken, b"ok")
    worker.says(wmp.READY, (b"role", b"grind"), (b"skill", b"9 grind"))
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "9")]


class Location:
    """A dwork worker: one location."""

    def __init__(self, room: Room, *, skill: int = 7) -> None:
        self.room = room
        room.hall.needs.know(Ratings([(b"node-1", Rating({b"grind": skill}, 0))]))
        self.session = DworkSession(
            Caller("127.0.0.1", -1), DworkContext(room.hall, DworkOptions(queue=b"grind"))
        )
        self.session.outbox = room.outbox

    def asks(self, request: int, tasks: list[bytes] | None = None) -> dwork.Query:
        self.session.receive(dwork.encode(request, tasks or [], location=b"node-1"))
        self.room.end_turn()
        (answer,) = self.session.out
        self.room.taken(self.session)
        return dwork.parse(answer)


def test_a_dwork_location_is_hired_and_steals_the_job_before_all_others(room: Room) -> None:
    node, tower = Location(room), room.guest(room.door(QUIET))
    room.submits(b"grind", DETACHED)
    (first,) = node.asks(dwork.STEAL).tasks
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "10", "7")], "as long as a job takes by itself"
    assert node.asks(dwork.COMPLETE, [dwork.encode_task(first.name, b"")]).type == dwork.OK
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    room.submits(b"grind", DETACHED)
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
def test_a_dwork_location_that_does_not_do_a_provider_s_job(room: Room, end: str) -> None:
    node, tower = Location(room), room.guest(room.door())
    node.asks(dwork.STEAL)
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "7")]
    if end == "never asks":
        room.wait(6)
    else:
        (task,) = node.asks(dwork.STEAL).tasks
        assert tower.hears() == [line("miller", "START", "task")]
        if end == "exits":
            node.asks(dwork.EXIT)
        else:
            node.asks(dwork.TRANSFER, [dwork.encode_task(task.name, b"")])
    assert tower.hears() == [line("miller", "QUIT", "task")]


def test_a_dwork_location_that_is_unknown_or_silent_does_not_bid(room: Room) -> None:
    node, tower = Location(room), room.guest(room.door())
    node.asks(dwork.STEAL)
    room.wait(61)
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []
    node.asks(dwork.STEAL)
    room.hall.needs.know(Ratings([]))
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


def test_tasks_outside_the_hall_are_held_by_nobody_who_bids(room: Room) -> None:
    room.hall.needs.know(Ratings([(b"*", Rating({b"grind": 7}, 0))]))
    room.hall.reports.start(JobSpec(b"grind", b"", b"k", DURABLE), b"somebody", START_US)
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == []


def test_a_worker_whose_job_takes_who_knows_how_long_is_not_said_to_be_free(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    room.submits(b"grind", DETACHED)
    miller.takes()
    tower = room.guest(room.door(rules=Rules(soonest, perform_us=20 * SECOND_US)))

    def is_free_in() -> str:
        tower.says(line("tower", "ANNOUNCE", "task", "grind"))
        (said,) = tower.hears()
        return said.split(":")[1]

    assert is_free_in() == "20"
    room.wait(15)
    assert is_free_in() == "5"
    room.wait(15)
    assert is_free_in() == "30", "as long again as it has taken"


def test_a_gearman_worker_that_takes_no_such_jobs_any_more_is_said_to_quit(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert miller.session.worker is not None
    room.hall.cant_do(miller.session.worker, b"grind")
    tower.says(line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "0", "0"), line("miller", "QUIT", "task")]


def test_a_provider_on_a_bus_may_be_silent_while_a_worker_of_another_dialect_performs(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    bus = Bus(room, room.door(HireOptions(bus=True, posting_us=2 * SECOND_US)))
    bus.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    miller.takes()
    bus.says(line("tower", "PERFORM", "task", "grind", "10"))
    bus.hears()
    room.wait(11)
    assert bus.hears() == []
    room.wait(2)
    assert bus.hears() == [line("miller", "QUIT", "task")]


@pytest.mark.parametrize("end", ["goes", "dismisses"])
def test_a_client_s_job_with_the_id_of_a_posting_is_its_own(room: Room, end: str) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "roof-7", "grind"), line("tower", "HIRE", "miller", "roof-7"))
    miller.takes()
    job = room.hall.submit(JobSpec(b"grind", b"precious", b"roof-7", DURABLE), None)
    tower.says(line("tower", "PERFORM", "roof-7", "grind", "10"))
    if end == "goes":
        tower.goes()
    else:
        tower.says(line("tower", "DISMISS", "miller", "roof-7"))
    room.end_turn()
    assert (job.state, job.payload) == (QUEUED, b"precious")


def test_a_bid_can_be_taken_back(room: Room) -> None:
    door = room.door(rules=Rules(soonest, window_us=1000))
    smith, tower = room.guest(door), room.guest(door)
    job = room.submits(b"bake", DETACHED)
    room.end_turn()
    smith.says(line("smith", "AVAIL", "job1", "0", "1"), line("smith", "QUIT", "job1"))
    room.wait(0.001)
    assert job.state == QUEUED
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"), line("smith", "QUIT", "task"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears()[-3:] == [
        line("smith", "AVAIL", "task", "0", "1"),
        line("smith", "QUIT", "task"),
        line("smith", "QUIT", "task"),
    ]


def test_what_a_queue_needs_is_asked_of_those_who_bid_for_a_posting(room: Room) -> None:
    room.hall.needs.need(b"guard", 5, 60 * SECOND_US)
    door = room.door()
    smith, baker, tower = (room.guest(door) for _ in range(3))
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "4"))
    baker.says(line("baker", "AVAIL", "task", "0", "5"))
    assert tower.hears() == [line("baker", "AVAIL", "task", "0", "5")]
    (worker,) = (worker for worker in room.hall.workers if worker.name == UUIDS["baker"].encode())
    room.hall.needs.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "baker", "task"))
    assert tower.hears() == [line("baker", "QUIT", "task")]


def test_one_who_has_too_little_time_is_dismissed_in_place_of_performing(room: Room) -> None:
    door = room.door()
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    (worker,) = room.hall.workers
    room.hall.needs.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "smith", "task"))
    smith.says(line("smith", "START", "task"))
    tower.reads()
    tower.says(line("tower", "PERFORM", "task", "guard", "60"))
    assert smith.hears()[-1] == line("tower", "DISMISS", "smith", "task")
    assert tower.hears() == [line("smith", "QUIT", "task")]


def test_whose_announcements_are_over_is_forgotten_on_a_bus(room: Room) -> None:
    options = HireOptions(bus=True, posting_us=2 * SECOND_US, idle_us=2 * SECOND_US, participants_max=2)
    bus = Bus(room, room.door(options))
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("castle", "ANNOUNCE", "roof-7", "guard"))
    bus.hears()
    room.wait(3)
    bus.says(line("smith", "ANNOUNCE", "roof-8", "guard"))
    assert bus.hears() == [line("smith", "ANNOUNCE", "roof-8", "guard")]


def test_long_engagements_do_not_keep_what_is_over(room: Room) -> None:
    door = room.door(HireOptions(posting_us=2 * SECOND_US))
    door.hire_bus.relay.postings.postings_max = 4
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    for number in range(3):
        tower.says(line("tower", "ANNOUNCE", f"roof-{number}", "guard"))
    room.wait(1)
    tower.says(line("tower", "ANNOUNCE", "roof-0", "guard"))
    tower.reads()
    room.wait(1.5)
    tower.says(line("tower", "ANNOUNCE", "one-more", "guard"))
    assert tower.hears() == []
    assert list(door.hire_bus.relay.postings.by_job) == [
        b"roof-0",
        UUIDS["task"].encode(),
        b"one-more",
    ]


def test_a_provider_s_job_that_ended_is_told_from_one_that_was_called_off(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    (job,) = room.hall.jobs.values()
    miller.takes()
    miller.completes()
    room.end_turn()
    assert (job.state, job.key) == (DONE, UUIDS["task"].encode())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    (job,) = room.hall.jobs.values()
    tower.goes()
    assert job.state == CANCELLED
