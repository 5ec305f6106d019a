"""Providers, and workers of other dialects for whom the hall speaks: whose result is whose, who can be hired,
and who is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hire_room import SECOND_US, Bus, GearmanWorker, Room, line
from hire_script import UUIDS

from hiringhall.core.auctions import Rules
from hiringhall.core.jobs import CANCELLED, DONE, QUEUED, JobSpec, Terms
from hiringhall.core.peer import Peer
from hiringhall.core.policies import soonest
from hiringhall.dialects.hire.door import HireOptions
from hiringhall.dialects.pingpong.door import PingPongDoor, PingPongOptions
from hiringhall.dialects.pingpong.session import WorkerSession
from hiringhall.dialects.session import Caller
from hiringhall.dialects.wmp import wire as wmp
from hiringhall.dialects.wmp.session import WmpDoor, WmpOptions, WmpSession

if TYPE_CHECKING:
    from hiringhall.core.jobs import Job

DETACHED = Terms(detached=True)
DURABLE = Terms(durable=True, detached=True)


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
        door = PingPongDoor(room.hall, PingPongOptions(queue=b"grind"))
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


def test_a_wmp_worker_is_not_entered(room: Room) -> None:
    session = WmpSession(Caller("127.0.0.1", -1, (b"w", b"", b"")), WmpDoor(room.hall, WmpOptions(), bytes(32)))
    session.outbox = room.outbox
    session.receive(wmp.encode_body(wmp.READY, [(b"role", b"grind")]))
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
    room.hall.need(b"guard", 5, 60 * SECOND_US)
    door = room.door()
    smith, baker, tower = (room.guest(door) for _ in range(3))
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "4"))
    baker.says(line("baker", "AVAIL", "task", "0", "5"))
    assert tower.hears() == [line("baker", "AVAIL", "task", "0", "5")]
    (worker,) = (worker for worker in room.hall.workers if worker.name == UUIDS["baker"].encode())
    room.hall.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "baker", "task"))
    assert tower.hears() == [line("baker", "QUIT", "task")]


def test_one_who_has_too_little_time_is_dismissed_in_place_of_performing(room: Room) -> None:
    door = room.door()
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    (worker,) = room.hall.workers
    room.hall.stay(worker, 30 * SECOND_US)
    tower.says(line("tower", "HIRE", "smith", "task"))
    smith.says(line("smith", "START", "task"))
    tower.reads()
    tower.says(line("tower", "PERFORM", "task", "guard", "60"))
    assert smith.hears()[-1] == line("tower", "DISMISS", "smith", "task")
    assert tower.hears() == [line("smith", "QUIT", "task")]


def test_whose_announcements_are_over_is_forgotten_on_a_bus(room: Room) -> None:
    options = HireOptions(bus=True, posting_us=2 * SECOND_US, idle_us=2 * SECOND_US, speakers_max=2)
    bus = Bus(room, room.door(options))
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("castle", "ANNOUNCE", "roof-7", "guard"))
    bus.hears()
    room.wait(3)
    bus.says(line("smith", "ANNOUNCE", "roof-8", "guard"))
    assert bus.hears() == [line("smith", "ANNOUNCE", "roof-8", "guard")]


def test_long_engagements_do_not_keep_what_is_over(room: Room) -> None:
    door = room.door(HireOptions(posting_us=2 * SECOND_US))
    door.village.switchboard.postings_max = 4
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
    assert list(door.village.switchboard.postings) == [
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
