"""Several doors, one hire_bus: who hears what, and whom the hall speaks for."""

from __future__ import annotations

from hire_room import SECOND_US, Bus, GearmanWorker, Room, line
from hire_script import UUIDS

from hiringhall.core.markets import Rules
from hiringhall.core.policies import soonest
from hiringhall.core.terms import Terms
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.context import HireOptions
from hiringhall.dialects.hire.postings import UNHIRED_MAX
from hiringhall.dialects.hire.relay import OTHERS_MAX

DETACHED = Terms(detached=True)


def test_who_is_not_direct_tells_everything_to_all_but_the_speaker(room: Room) -> None:
    door = room.door(HireOptions(direct=False))
    smith, baker = room.guest(door), room.guest(door)
    room.submits(b"bake", DETACHED)
    assert smith.hears() == baker.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    smith.says(line("smith", "AVAIL", "job1", "0", "1"))
    room.wait(0.1)
    assert smith.hears() == [line("hall", "HIRE", "smith", "job1")]
    assert baker.hears() == [line("smith", "AVAIL", "job1", "0", "1"), line("hall", "HIRE", "smith", "job1")]
    smith.says(line("smith", "START", "job1"))
    assert smith.hears() == [line("hall", "PERFORM", "job1", "bake", "10")]
    assert baker.hears() == [line("smith", "START", "job1"), line("hall", "PERFORM", "job1", "bake", "10")]


def test_a_provider_on_a_connection_hires_a_worker_on_the_bus(room: Room) -> None:
    door = room.door()
    bus = Bus(room, room.door(HireOptions(bus=True, compact=True)))
    tower, other = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    assert len(bus.hears()) == 1
    assert other.hears() == [line("tower", "ANNOUNCE", "task", "guard")]
    bus.says(line("smith", "AVAIL", "task", "0", "1"))
    assert tower.hears() == [line("smith", "AVAIL", "task", "0", "1")]
    tower.says(line("tower", "HIRE", "smith", "task"))
    bus.says(line("smith", "START", "task"))
    assert tower.hears() == [line("smith", "START", "task")]
    tower.says(line("tower", "PERFORM", "task", "guard", "5"))
    bus.says(line("smith", "PERFORMING", "task"))
    tower.says(line("tower", "DISMISS", "smith", "task"))
    assert [text[23] for text in bus.hears()] == list("AHSPGD")
    assert tower.hears() == [line("smith", "PERFORMING", "task")]
    assert other.reads() == b""
    assert room.hall.counters.done == 1


def test_a_provider_on_the_bus_hires_a_worker_on_a_connection(room: Room) -> None:
    door = room.door()
    bus = Bus(room, room.door(HireOptions(bus=True)))
    smith = room.guest(door)
    bus.says(line("tower", "ANNOUNCE", "task", "guard"))
    assert smith.hears() == [line("tower", "ANNOUNCE", "task", "guard")]
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    bus.says(line("tower", "HIRE", "smith", "task"))
    assert smith.hears() == [line("tower", "HIRE", "smith", "task")]
    smith.goes()
    assert bus.hears() == [
        line("tower", "ANNOUNCE", "task", "guard"),
        line("smith", "AVAIL", "task", "0", "1"),
        line("tower", "HIRE", "smith", "task"),
        line("smith", "QUIT", "task"),
    ]


def test_a_provider_on_the_bus_that_goes_on_talking_keeps_its_worker(room: Room) -> None:
    door = room.door(HireOptions(bus=True, posting_us=SECOND_US))
    bus = Bus(room, door)
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("smith", "AVAIL", "task", "0", "1"))
    bus.says(line("tower", "HIRE", "smith", "task"), line("smith", "START", "task"))
    bus.says(line("tower", "PERFORM", "task", "guard", "0"), line("smith", "PERFORMING", "task"))
    for _ in range(5):
        room.wait(0.9)
        bus.says(line("tower", "QUIT", "roof-7"))
    bus.hears()
    room.wait(1.1)
    assert bus.hears() == [line("smith", "QUIT", "task"), line("tower", "DISMISS", "smith", "task")]


def test_a_door_announces_the_types_it_names(room: Room) -> None:
    bakery = room.door(HireOptions(queues=frozenset([b"bake"])))
    anywhere = room.door()
    baker, smith = room.guest(bakery), room.guest(anywhere)
    room.submits(b"bake", DETACHED)
    room.submits(b"forge", DETACHED)
    assert baker.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    assert smith.hears() == [
        line("hall", "ANNOUNCE", "job1", "bake"),
        line("hall", "ANNOUNCE", "job2", "forge"),
    ]


def test_with_nobody_there_nothing_is_announced_and_who_comes_hears_it(room: Room) -> None:
    door = room.door()
    room.submits(b"bake", DETACHED)
    room.wait(60)
    assert room.hall.counters.announced == 0
    smith = room.guest(door)
    assert smith.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    smith.goes()
    room.wait(60)
    announced = room.hall.counters.announced
    again = room.guest(door)
    room.wait(0.01)
    assert again.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    assert room.hall.counters.announced > announced


def test_who_comes_late_hears_what_stands_announced(room: Room) -> None:
    door = room.door()
    smith, tower = room.guest(door), room.guest(door)
    room.submits(b"bake", DETACHED)
    tower.says(*[line("tower", "ANNOUNCE", job, "build") for job in ("roof", "wall")])
    smith.says(line("smith", "AVAIL", "wall", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "wall"))
    room.end_turn()
    baker = room.guest(door)
    assert baker.hears() == [
        line("hall", "ANNOUNCE", "job1", "bake"),
        line("tower", "ANNOUNCE", "roof", "build"),
    ]
    baker.says(line("baker", "AVAIL", "job1", "0", "1"), line("baker", "AVAIL", "roof", "0", "1"))
    assert tower.hears()[-1] == line("baker", "AVAIL", "roof", "0", "1")
    room.wait(0.1)
    assert baker.hears() == [line("hall", "HIRE", "baker", "job1")]


def test_who_comes_late_hears_also_of_jobs_that_nobody_wanted_so_far(room: Room) -> None:
    door = room.door()
    room.guest(door)
    room.submits(b"bake", DETACHED)
    room.submits(b"bake", DETACHED)
    room.wait(0.11)
    smith = room.guest(door)
    room.wait(0.001)
    assert sorted(smith.hears()) == [line("hall", "ANNOUNCE", job, "bake") for job in ("job1", "job2")]


def test_who_comes_late_to_a_door_hears_of_the_types_it_names(room: Room) -> None:
    room.guest(room.door())
    room.submits(b"bake", DETACHED)
    room.submits(b"forge", DETACHED)
    room.end_turn()
    door = room.door(HireOptions(queues=frozenset([b"forge"]), compact=True))
    (said,) = [wire.read_line(text.encode()) for text in room.guest(door).hears()]
    assert wire.write_line(said).decode() == line("hall", "ANNOUNCE", "job2", "forge")


def test_who_comes_late_is_told_of_so_many_and_no_more(room: Room) -> None:
    door = room.door()
    tower = room.guest(door)
    tower.says(*[line("tower", "ANNOUNCE", f"roof-{number}", "build") for number in range(UNHIRED_MAX + 5)])
    assert len(room.guest(door).hears()) == UNHIRED_MAX


def test_a_bus_to_which_nobody_listens_is_no_audience(room: Room) -> None:
    bus = Bus(room, room.door(HireOptions(bus=True)))
    bus.session.listeners_changed(0)
    room.submits(b"bake", DETACHED)
    assert bus.hears() == []
    bus.session.listeners_changed(1)
    room.wait(0.01)
    assert bus.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]


def test_a_worker_of_another_dialect_bids_when_it_will_be_free_with_its_skill(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    room.submits(b"grind", DETACHED)
    miller.takes()
    worker = miller.session.worker
    assert worker is not None
    room.hall.needs.rate(worker, b"grind", 12)
    (lease,) = worker.leases.values()
    room.hall.progress(lease, 1, 2, 3 * SECOND_US)
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "3", "12")]


def test_a_worker_of_another_dialect_that_goes_before_it_was_hired_is_said_to_quit(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    tower.hears()
    miller.goes()
    tower.says(line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "QUIT", "task")]


def test_a_worker_of_another_dialect_that_goes_while_it_is_hired_is_said_to_quit(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    miller.takes()
    miller.goes()
    assert tower.hears() == [
        line("miller", "AVAIL", "task", "0", "0"),
        line("miller", "START", "task"),
        line("miller", "QUIT", "task"),
    ]


def test_only_so_many_workers_of_other_dialects_bid(room: Room) -> None:
    for _ in range(OTHERS_MAX + 5):
        GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert len(tower.hears()) == OTHERS_MAX


def test_a_worker_that_dismisses_nobody_hears_of_its_second_hire_by_another_as_quit(room: Room) -> None:
    """A hire worker hired by the hall cannot be hired by a provider at the same time."""
    door = room.door(rules=Rules(soonest, window_us=1000))
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    room.submits(b"bake", DETACHED)
    room.end_turn()
    smith.says(line("smith", "AVAIL", "task", "0", "1"), line("smith", "AVAIL", "job1", "0", "1"))
    room.wait(0.001)
    tower.reads()
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears() == [line("smith", "QUIT", "task")]
    assert smith.hears()[-1] == line("hall", "HIRE", "smith", "job1")


def test_a_bid_for_a_posting_is_void_once_its_worker_was_hired_for_another_job(room: Room) -> None:
    door = room.door()
    smith, tower, castle = room.guest(door), room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "roof", "build"), line("tower", "ANNOUNCE", "wall", "build"))
    castle.says(line("castle", "ANNOUNCE", "moat", "dig"))
    smith.says(*[line("smith", "AVAIL", job, "0", "1") for job in ("roof", "wall", "moat")])
    tower.says(line("tower", "HIRE", "smith", "roof"))
    smith.says(line("smith", "START", "roof"))
    tower.says(line("tower", "PERFORM", "roof", "build", "10"))
    smith.says(line("smith", "PERFORMING", "roof"))
    tower.hears()
    castle.hears()
    smith.hears()
    tower.says(line("tower", "HIRE", "smith", "wall"))
    castle.says(line("castle", "HIRE", "smith", "moat"))
    assert tower.hears() == [line("smith", "QUIT", "wall")]
    assert castle.hears() == [line("smith", "QUIT", "moat")]
    smith.says(line("smith", "AVAIL", "wall", "10", "1"))
    tower.says(line("tower", "HIRE", "smith", "wall"))
    assert smith.hears() == [line("tower", "HIRE", "smith", "wall")]


def test_a_bid_of_a_worker_of_another_dialect_is_void_once_it_was_hired(room: Room) -> None:
    miller = GearmanWorker(room, b"grind")
    tower = room.guest(room.door())
    tower.says(line("tower", "ANNOUNCE", "rye", "grind"), line("tower", "ANNOUNCE", "oats", "grind"))
    tower.says(line("tower", "HIRE", "miller", "rye"))
    miller.takes()
    tower.hears()
    tower.says(line("tower", "HIRE", "miller", "oats"))
    assert tower.hears() == [line("miller", "QUIT", "oats")]


def test_announcing_again_dismisses_who_was_hired(room: Room) -> None:
    door = room.door()
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"), line("tower", "ANNOUNCE", "task", "guard"))
    assert smith.hears()[-2:] == [
        line("tower", "DISMISS", "smith", "task"),
        line("tower", "ANNOUNCE", "task", "guard"),
    ]
    assert tower.hears() == [line("smith", "AVAIL", "task", "0", "1")]


def test_nobody_is_hired_while_the_hall_closes(room: Room) -> None:
    door = room.door()
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    room.hall.close()
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears()[-1] == line("smith", "QUIT", "task")


def test_the_ends_of_providers_jobs_go_to_the_history_if_the_door_says_so(room: Room) -> None:
    door = room.door(HireOptions(log_all=True))
    smith, tower = room.guest(door), room.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    smith.says(line("smith", "START", "task"))
    tower.says(line("tower", "PERFORM", "task", "guard", "1"))
    smith.says(line("smith", "PERFORMING", "task"))
    room.end_turn()
    tower.says(line("tower", "DISMISS", "smith", "task"))
    (end,) = room.hall.seal().ends
    assert (end.queue, end.key, end.worker) == (b"guard", UUIDS["task"].encode(), UUIDS["smith"].encode())
