"""Paused schedules: due times within a pause never fire, and a pause survives the hall."""

from __future__ import annotations

from pathlib import Path

import pytest
from keeper_stage import MOMENT_US, KeeperHall

from hiringhall.core.limits import SECOND_US
from hiringhall.schedules.book import Book, BookError
from hiringhall.schedules.pauses import PAUSES_MAX, Pause, PauseError, PauseList, changed
from hiringhall.schedules.plan import Missed, Plan
from hiringhall.storage.data_folder import DataFolder


def every(interval_us: int, missed: Missed = "latest") -> Plan:
    return Plan(name="x", queue="q", every_us=interval_us, payload="{due:%M:%S}", missed=missed)


def set_paused(hall: KeeperHall, paused: bool, name: str = "x") -> None:
    hall.begin()
    at_us = hall.keeper.time_us()
    if hall.book is not None:
        hall.keeper.apply_pauses(hall.book.pauses.change(name, paused=paused, at_us=at_us))
    else:
        hall.keeper.apply_pauses(changed(hall.keeper.pauses, name, paused=paused, at_us=at_us))
    hall.end()


@pytest.mark.parametrize("missed", ["latest", "all", "skip"])
def test_due_times_within_a_pause_do_not_fire_also_not_later(missed: Missed) -> None:
    hall = KeeperHall([every(10 * SECOND_US, missed)])
    hall.pass_time(12 * SECOND_US)
    assert hall.fired() == ["00:10"]
    set_paused(hall, True)
    hall.pass_time(600 * SECOND_US)
    assert hall.fired() == ["00:10"]
    set_paused(hall, False)
    hall.pass_time(20 * SECOND_US)
    assert hall.fired() == ["00:10", "10:20", "10:30"]


def test_a_pause_survives_the_hall_and_so_does_its_end(tmp_path: Path) -> None:
    hall = KeeperHall([every(10 * SECOND_US, "all")], Book(DataFolder(tmp_path)))
    hall.pass_time(12 * SECOND_US)
    set_paused(hall, True)
    hall.pass_time(MOMENT_US)
    hall.reopen_after(60 * SECOND_US)
    hall.pass_time(60 * SECOND_US)
    assert hall.fired() == ["00:10"]
    # Resumed by command while no hall is running.
    Book(DataFolder(tmp_path)).pauses.change("x", paused=False, at_us=hall.now_us)
    hall.reopen_after(15 * SECOND_US)
    hall.pass_time(10 * SECOND_US)
    assert hall.fired() == ["00:10", "02:20", "02:30"], "what was due after the pause was missed, and fires"


def test_the_list_tells_of_the_pause_and_of_the_latest_job() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(12 * SECOND_US)
    (known,) = hall.keeper.known()
    assert (known.paused, known.last_id, known.last_state) == (False, next(iter(hall.scheduler.jobs)), "queued")
    set_paused(hall, True)
    (known,) = hall.keeper.known()
    assert known.paused


def test_a_schedule_that_is_run_by_hand_keeps_its_due_times() -> None:
    hall = KeeperHall([every(10 * SECOND_US)])
    hall.pass_time(3 * SECOND_US)
    set_paused(hall, True)
    hall.begin()
    job = hall.keeper.run("x")
    assert hall.keeper.run("nobody") is None
    hall.end()
    assert job is not None
    assert (job.payload, job.terms.durable) == (b"00:03", True)
    set_paused(hall, False)
    hall.pass_time(10 * SECOND_US)
    assert hall.fired() == ["00:03", "00:10"]


def test_a_schedule_is_paused_or_resumed_once() -> None:
    pauses = changed({}, "x", paused=True, at_us=5)
    assert pauses == {"x": Pause(5)}
    assert changed(pauses, "x", paused=True, at_us=6) is pauses
    over = changed(pauses, "x", paused=False, at_us=7)
    assert over == {"x": Pause(5, 7)}
    assert changed(over, "x", paused=False, at_us=8) is over
    assert changed({}, "x", paused=False, at_us=8) == {}
    with pytest.raises(PauseError, match="as many as are kept"):
        changed({f"{number}": Pause(1) for number in range(PAUSES_MAX)}, "x", paused=True, at_us=1)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"pauses": {"x": 1}}', b"\xff", b'{"version": 2}'])
def test_a_file_that_was_not_written_by_us_is_refused_and_kept(tmp_path: Path, data: bytes) -> None:
    file = PauseList(DataFolder(tmp_path))
    Path(file.where).write_bytes(data)
    with pytest.raises(PauseError, match="was not written by"):
        file.change("x", paused=True, at_us=1)
    assert Path(file.where).read_bytes() == data
    with pytest.raises(BookError, match="was not written by"):
        KeeperHall([every(SECOND_US)], Book(DataFolder(tmp_path)))


def test_a_new_pause_file_belongs_to_its_owner_only(tmp_path: Path) -> None:
    file = PauseList(DataFolder(tmp_path / "new"))
    file.change("x", paused=True, at_us=7)
    assert Path(file.where).stat().st_mode & 0o777 == 0o600
    assert file.read() == {"x": Pause(7)}
