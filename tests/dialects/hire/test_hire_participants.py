"""Several doors, one hire_bus: who hears what, and whom the hall speaks for."""

from __future__ import annotations

from hire_script import UUIDS, line
from hire_strangers import GearmanWorker

from hiringhall.core.bidding.markets import Rules
from hiringhall.core.bidding.policies import soonest
from hiringhall.core.terms import Terms
from hiringhall.dialects.hire import wire
from hiringhall.dialects.hire.context import HireOptions
from hiringhall.dialects.hire.postings import UNHIRED_MAX
from hiringhall.dialects.hire.relay import OTHERS_MAX
from hiringhall.engine.deadlines import LINGER_US
from hiringhall.storage.contract import HistoryQuery
from stage.hall import SECOND_US
from stage.hire import Bus, HireHall

DETACHED = Terms(detached=True)


def test_who_is_not_direct_tells_everything_to_all_but_the_speaker(hall: HireHall) -> None:
    door = hall.door(HireOptions(direct=False))
    smith, baker = hall.guest(door), hall.guest(door)
    hall.submits(b"bake", DETACHED)
    assert smith.hears() == baker.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    smith.says(line("smith", "AVAIL", "job1", "0", "1"))
    hall.wait_s(0.1)
    assert smith.hears() == [line("hall", "HIRE", "smith", "job1")]
    assert baker.hears() == [line("smith", "AVAIL", "job1", "0", "1"), line("hall", "HIRE", "smith", "job1")]
    smith.says(line("smith", "START", "job1"))
    assert smith.hears() == [line("hall", "PERFORM", "job1", "bake", "10")]
    assert baker.hears() == [line("smith", "START", "job1"), line("hall", "PERFORM", "job1", "bake", "10")]


def test_a_provider_on_a_connection_hires_a_worker_on_the_bus(hall: HireHall) -> None:
    door = hall.door()
    bus = Bus(hall, hall.door(HireOptions(bus=True, compact=True)))
    tower, other = hall.guest(door), hall.guest(door)
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
    assert hall.scheduler.counters.done == 1


def test_a_provider_on_the_bus_hires_a_worker_on_a_connection(hall: HireHall) -> None:
    door = hall.door()
    bus = Bus(hall, hall.door(HireOptions(bus=True)))
    smith = hall.guest(door)
    bus.says(line("tower", "ANNOUNCE", "task", "guard"))
    assert smith.hears() == [line("tower", "ANNOUNCE", "task", "guard")]
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    bus.says(line("tower", "HIRE", "smith", "task"))
    assert smith.hears() == [line("tower", "HIRE", "smith", "task")]
    smith.leaves()
    assert bus.hears() == [
        line("tower", "ANNOUNCE", "task", "guard"),
        line("smith", "AVAIL", "task", "0", "1"),
        line("tower", "HIRE", "smith", "task"),
        line("smith", "QUIT", "task"),
    ]


def test_a_provider_on_the_bus_that_goes_on_talking_keeps_its_worker(hall: HireHall) -> None:
    door = hall.door(HireOptions(bus=True, posting_us=SECOND_US))
    bus = Bus(hall, door)
    bus.says(line("tower", "ANNOUNCE", "task", "guard"), line("smith", "AVAIL", "task", "0", "1"))
    bus.says(line("tower", "HIRE", "smith", "task"), line("smith", "START", "task"))
    bus.says(line("tower", "PERFORM", "task", "guard", "0"), line("smith", "PERFORMING", "task"))
    for _ in range(5):
        hall.wait_s(0.9)
        bus.says(line("tower", "QUIT", "roof-7"))
    bus.hears()
    hall.wait_s(1.1)
    assert bus.hears() == [line("smith", "QUIT", "task"), line("tower", "DISMISS", "smith", "task")]


def test_a_door_announces_the_types_it_names(hall: HireHall) -> None:
    bakery = hall.door(HireOptions(queues=frozenset([b"bake"])))
    anywhere = hall.door()
    baker, smith = hall.guest(bakery), hall.guest(anywhere)
    hall.submits(b"bake", DETACHED)
    hall.submits(b"forge", DETACHED)
    assert baker.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    assert smith.hears() == [
        line("hall", "ANNOUNCE", "job1", "bake"),
        line("hall", "ANNOUNCE", "job2", "forge"),
    ]


def test_with_nobody_there_nothing_is_announced_and_who_comes_hears_it(hall: HireHall) -> None:
    door = hall.door()
    hall.submits(b"bake", DETACHED)
    hall.wait_s(60)
    assert hall.scheduler.counters.announced == 0
    smith = hall.guest(door)
    assert smith.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    smith.leaves()
    hall.wait_s(60)
    announced = hall.scheduler.counters.announced
    again = hall.guest(door)
    hall.wait_s(0.01)
    assert again.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]
    assert hall.scheduler.counters.announced > announced


def test_who_comes_late_hears_what_stands_announced(hall: HireHall) -> None:
    door = hall.door()
    smith, tower = hall.guest(door), hall.guest(door)
    hall.submits(b"bake", DETACHED)
    tower.says(*[line("tower", "ANNOUNCE", job, "build") for job in ("roof", "wall")])
    smith.says(line("smith", "AVAIL", "wall", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "wall"))
    hall.end()
    baker = hall.guest(door)
    assert baker.hears() == [
        line("hall", "ANNOUNCE", "job1", "bake"),
        line("tower", "ANNOUNCE", "roof", "build"),
    ]
    baker.says(line("baker", "AVAIL", "job1", "0", "1"), line("baker", "AVAIL", "roof", "0", "1"))
    assert tower.hears()[-1] == line("baker", "AVAIL", "roof", "0", "1")
    hall.wait_s(0.1)
    assert baker.hears() == [line("hall", "HIRE", "baker", "job1")]


def test_who_comes_late_hears_also_of_jobs_that_nobody_wanted_so_far(hall: HireHall) -> None:
    door = hall.door()
    hall.guest(door)
    hall.submits(b"bake", DETACHED)
    hall.submits(b"bake", DETACHED)
    hall.wait_s(0.11)
    smith = hall.guest(door)
    hall.wait_s(0.001)
    assert sorted(smith.hears()) == [line("hall", "ANNOUNCE", job, "bake") for job in ("job1", "job2")]


def test_who_comes_late_to_a_door_hears_of_the_types_it_names(hall: HireHall) -> None:
    hall.guest(hall.door())
    hall.submits(b"bake", DETACHED)
    hall.submits(b"forge", DETACHED)
    hall.end()
    door = hall.door(HireOptions(queues=frozenset([b"forge"]), compact=True))
    (said,) = [wire.read_line(text.encode()) for text in hall.guest(door).hears()]
    assert wire.write_line(said).decode() == line("hall", "ANNOUNCE", "job2", "forge")


def test_who_comes_late_is_told_of_so_many_and_no_more(hall: HireHall) -> None:
    door = hall.door()
    tower = hall.guest(door)
    tower.says(*[line("tower", "ANNOUNCE", f"roof-{number}", "build") for number in range(UNHIRED_MAX + 5)])
    assert len(hall.guest(door).hears()) == UNHIRED_MAX


def test_a_bus_to_which_nobody_listens_is_no_audience(hall: HireHall) -> None:
    bus = Bus(hall, hall.door(HireOptions(bus=True)))
    bus.session.listeners_changed(0)
    hall.submits(b"bake", DETACHED)
    assert bus.hears() == []
    bus.session.listeners_changed(1)
    hall.wait_s(0.01)
    assert bus.hears() == [line("hall", "ANNOUNCE", "job1", "bake")]


def test_a_worker_of_another_dialect_bids_when_it_will_be_free_with_its_skill(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    hall.submits(b"grind", DETACHED)
    miller.takes()
    worker = miller.session.worker
    assert worker is not None
    hall.scheduler.needs.rate(worker, b"grind", 12)
    (lease,) = worker.leases.values()
    hall.scheduler.progress(lease, 1, 2, 3 * SECOND_US)
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert tower.hears() == [line("miller", "AVAIL", "task", "3", "12")]


def test_a_worker_of_another_dialect_that_goes_before_it_was_hired_is_said_to_quit(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    tower.hears()
    miller.leaves()
    tower.says(line("tower", "HIRE", "miller", "task"))
    assert tower.hears() == [line("miller", "QUIT", "task")]


def test_a_worker_of_another_dialect_that_goes_while_it_is_hired_is_said_to_quit(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"), line("tower", "HIRE", "miller", "task"))
    miller.takes()
    miller.leaves()
    assert tower.hears() == [
        line("miller", "AVAIL", "task", "0", "0"),
        line("miller", "START", "task"),
        line("miller", "QUIT", "task"),
    ]


def test_only_so_many_workers_of_other_dialects_bid(hall: HireHall) -> None:
    for _ in range(OTHERS_MAX + 5):
        GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "task", "grind"))
    assert len(tower.hears()) == OTHERS_MAX


def test_a_worker_that_dismisses_nobody_hears_of_its_second_hire_by_another_as_quit(hall: HireHall) -> None:
    """A hire worker hired by the hall cannot be hired by a provider at the same time."""
    door = hall.door(rules=Rules(soonest, window_us=1000))
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    hall.submits(b"bake", DETACHED)
    hall.end()
    smith.says(line("smith", "AVAIL", "task", "0", "1"), line("smith", "AVAIL", "job1", "0", "1"))
    hall.wait_s(0.001)
    tower.reads()
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears() == [line("smith", "QUIT", "task")]
    assert smith.hears()[-1] == line("hall", "HIRE", "smith", "job1")


def test_a_bid_for_a_posting_is_void_once_its_worker_was_hired_for_another_job(hall: HireHall) -> None:
    door = hall.door()
    smith, tower, castle = hall.guest(door), hall.guest(door), hall.guest(door)
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


def test_a_bid_of_a_worker_of_another_dialect_is_void_once_it_was_hired(hall: HireHall) -> None:
    miller = GearmanWorker(hall, b"grind")
    tower = hall.guest(hall.door())
    tower.says(line("tower", "ANNOUNCE", "rye", "grind"), line("tower", "ANNOUNCE", "oats", "grind"))
    tower.says(line("tower", "HIRE", "miller", "rye"))
    miller.takes()
    tower.hears()
    tower.says(line("tower", "HIRE", "miller", "oats"))
    assert tower.hears() == [line("miller", "QUIT", "oats")]


def test_announcing_again_dismisses_who_was_hired(hall: HireHall) -> None:
    door = hall.door()
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"), line("tower", "ANNOUNCE", "task", "guard"))
    assert smith.hears()[-2:] == [
        line("tower", "DISMISS", "smith", "task"),
        line("tower", "ANNOUNCE", "task", "guard"),
    ]
    assert tower.hears() == [line("smith", "AVAIL", "task", "0", "1")]


def test_nobody_is_hired_while_the_hall_closes(hall: HireHall) -> None:
    door = hall.door()
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    hall.scheduler.close()
    tower.says(line("tower", "HIRE", "smith", "task"))
    assert tower.hears()[-1] == line("smith", "QUIT", "task")


def test_the_ends_of_providers_jobs_go_to_the_history_if_the_door_says_so(hall: HireHall) -> None:
    door = hall.door(HireOptions(log_all=True))
    smith, tower = hall.guest(door), hall.guest(door)
    tower.says(line("tower", "ANNOUNCE", "task", "guard"))
    smith.says(line("smith", "AVAIL", "task", "0", "1"))
    tower.says(line("tower", "HIRE", "smith", "task"))
    smith.says(line("smith", "START", "task"))
    tower.says(line("tower", "PERFORM", "task", "guard", "1"))
    smith.says(line("smith", "PERFORMING", "task"))
    hall.end()
    tower.says(line("tower", "DISMISS", "smith", "task"))
    hall.wait(LINGER_US)
    (end,) = hall.store.history(HistoryQuery())
    assert (end.queue, end.key, end.worker) == (b"guard", UUIDS["task"].encode(), UUIDS["smith"].encode())
