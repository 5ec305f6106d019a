"""Schedules: how far each has come is stored together with the job that it brought, or not at all."""

from __future__ import annotations

from hall_recorder import BACKGROUND, HOUR_US, START_US, Disk, Hall, refused

from hiringhall.core.changes import Firing
from hiringhall.core.errors import BAD_REQUEST, STORE_DOWN
from hiringhall.core.jobs import Job, JobSpec
from hiringhall.core.states import CANCELLED, DELAYED, QUEUED
from hiringhall.core.terms import Terms

PLAN = b"plan"


def firing(number: int, plan: bytes = PLAN) -> Firing:
    return Firing(START_US + number * HOUR_US, plan)


def fire(hall: Hall, name: str, number: int, key: str = "") -> Job:
    due = firing(number)
    return hall.core.firings.fire(name, due, JobSpec(b"q", name.encode(), key.encode(), BACKGROUND, due.due_us))


def reboot(hall: Hall, disk: Disk) -> Hall:
    loaded = disk.load()
    again = Hall(epoch=loaded.epoch)
    again.core.table.now_us = hall.core.now_us
    again.core.restore(loaded)
    again.turn()
    return again


def test_a_firing_and_its_job_are_one_batch(hall: Hall) -> None:
    job = fire(hall, "nightly", 1)
    assert job.state == DELAYED
    assert hall.core.firings.by_name == {"nightly": firing(1)}
    batch = hall.commit()
    assert [row.id for row in batch.inserts] == [job.id]
    assert batch.fired == {"nightly": firing(1)}
    assert hall.commit().empty


def test_a_firing_without_a_job_is_a_batch_too(hall: Hall) -> None:
    hall.core.firings.mark("nightly", firing(0))
    assert len(hall.core.ledger) == 1
    batch = hall.commit()
    assert not batch.empty
    assert (batch.fired, batch.inserts) == ({"nightly": firing(0)}, [])
    assert len(hall.core.ledger) == 0


def test_only_the_latest_counts(hall: Hall) -> None:
    for number in range(4):
        fire(hall, "hourly", number)
    batch = hall.commit()
    assert batch.fired == {"hourly": firing(3)}
    assert len(batch.inserts) == 4


def test_a_schedule_is_forgotten(hall: Hall) -> None:
    disk = Disk()
    hall.core.firings.mark("nightly", firing(0))
    hall.core.firings.mark("hourly", firing(0))
    disk.apply(hall.commit())
    hall.core.firings.mark("nightly", None)
    assert hall.core.firings.by_name == {"hourly": firing(0)}
    batch = hall.commit()
    assert batch.fired == {"nightly": None}
    disk.apply(batch)
    assert disk.fired == {"hourly": firing(0)}


def test_one_that_nobody_knew_is_forgotten_without_fuss(hall: Hall) -> None:
    disk = Disk()
    hall.core.firings.mark("unknown", None)
    disk.apply(hall.commit())
    assert (hall.core.firings.by_name, disk.fired) == ({}, {})


def test_forgotten_and_begun_anew_within_one_turn(hall: Hall) -> None:
    disk = Disk()
    hall.core.firings.mark("nightly", firing(5))
    disk.apply(hall.commit())
    hall.core.firings.mark("nightly", None)
    hall.core.firings.mark("nightly", firing(0, b"another plan"))
    disk.apply(hall.commit())
    assert disk.fired == hall.core.firings.by_name == {"nightly": firing(0, b"another plan")}


# --- a job that cannot be taken in


def test_a_job_that_is_refused_has_not_fired(hall: Hall) -> None:
    hall.core.firings.mark("nightly", firing(0))
    hall.commit()
    with refused(BAD_REQUEST):
        hall.core.firings.fire("nightly", firing(1), JobSpec(b"q", b"", b"", Terms(durable=True)))
    with refused(BAD_REQUEST):
        hall.core.firings.fire("nightly", firing(1), JobSpec(b"", b"", b"", BACKGROUND))
    assert hall.core.firings.by_name == {"nightly": firing(0)}
    assert hall.commit().empty


def test_a_job_whose_key_still_runs_is_joined(hall: Hall) -> None:
    disk = Disk()
    first = fire(hall, "hourly", 0, "k")
    disk.apply(hall.commit())
    assert fire(hall, "hourly", 1, "k") is first
    batch = hall.commit()
    assert (batch.inserts, batch.updates) == ([], [])
    disk.apply(batch)
    assert disk.fired == {"hourly": firing(1)}


# --- the store fails


def test_a_commit_that_fails_takes_both_back(hall: Hall) -> None:
    hall.core.firings.mark("nightly", firing(0))
    hall.commit()
    job = fire(hall, "nightly", 1)
    assert hall.commit_fails() == ["nightly"]
    assert job.state == CANCELLED
    assert hall.core.firings.by_name == {"nightly": firing(0)}
    with refused(STORE_DOWN):
        fire(hall, "nightly", 1)
    assert hall.core.firings.by_name == {"nightly": firing(0)}
    assert hall.commit().empty, "it is for the schedule's keeper to fire again"
    again = fire(hall, "nightly", 1)
    batch = hall.commit()
    assert [row.id for row in batch.inserts] == [again.id]
    assert batch.fired == {"nightly": firing(1)}


def test_a_new_schedule_that_could_not_be_stored_has_not_begun(hall: Hall) -> None:
    hall.core.firings.mark("nightly", firing(0))
    assert hall.commit_fails() == []
    assert hall.core.firings.by_name == {}


def test_one_that_could_not_be_forgotten_is_still_known(hall: Hall) -> None:
    hall.core.firings.mark("nightly", firing(0))
    hall.commit()
    hall.core.firings.mark("nightly", None)
    hall.commit_fails()
    assert hall.core.firings.by_name == {"nightly": firing(0)}


def test_what_fired_during_a_commit_that_fails_goes_back_too(hall: Hall) -> None:
    fire(hall, "hourly", 1)
    batch = hall.core.seal()
    fire(hall, "hourly", 2)
    fire(hall, "nightly", 1)
    assert hall.fail_commit(batch) == ["hourly", "hourly", "nightly"]
    assert hall.core.firings.by_name == {}
    assert hall.core.jobs == {}
    assert hall.commit().empty


def test_what_fired_during_a_commit_that_works_is_for_the_next(hall: Hall) -> None:
    disk = Disk()
    fire(hall, "hourly", 1)
    batch = hall.core.seal()
    fire(hall, "hourly", 2)
    hall.core.committed(batch)
    disk.apply(batch)
    assert hall.core.firings.by_name == {"hourly": firing(2)}
    second = fire(hall, "nightly", 1)
    assert hall.commit_fails() == ["hourly", "nightly"]
    assert second.state == CANCELLED
    assert hall.core.firings.by_name == {"hourly": firing(1)} == disk.fired


def test_a_firing_that_only_joined_goes_back_with_its_commit(hall: Hall) -> None:
    """The job was stored before and stays; that the schedule has fired is not true."""
    job = fire(hall, "hourly", 0, "k")
    hall.commit()
    assert fire(hall, "hourly", 1, "k") is job
    assert hall.commit_fails() == []
    assert job.state == QUEUED
    assert hall.core.firings.by_name == {"hourly": firing(0)}


# --- a new hall


def test_how_far_each_has_come_survives_a_restart(hall: Hall) -> None:
    disk = Disk()
    job = fire(hall, "nightly", 1)
    hall.core.firings.mark("hourly", firing(0))
    disk.apply(hall.commit())
    again = reboot(hall, disk)
    assert again.core.firings.by_name == {"nightly": firing(1), "hourly": firing(0)}
    assert again.core.jobs[job.id].state == DELAYED
    assert again.commit().empty
    fire(again, "nightly", 2)
    assert again.commit_fails() == ["nightly"]
    assert again.core.firings.by_name == {"nightly": firing(1), "hourly": firing(0)}


def test_what_was_not_on_disk_has_not_fired_for_the_next_hall(hall: Hall) -> None:
    disk = Disk()
    hall.core.firings.mark("nightly", firing(0))
    disk.apply(hall.commit())
    fire(hall, "nightly", 1)
    hall.core.seal()
    again = reboot(hall, disk)
    assert again.core.firings.by_name == {"nightly": firing(0)}
    assert again.core.jobs == {}
