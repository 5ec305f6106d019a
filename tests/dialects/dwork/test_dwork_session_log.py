"""The log of a task: what the hall and the workers write into it, where it is told, and that it is kept."""

from __future__ import annotations

from hiringhall.dialects.dwork import wire
from stage.dwork import OK, DworkGuest, DworkHall, task
from stage.dwork_said import Said, SaidTask

Log = tuple[tuple[int, int], ...]


def steals_log(guest: DworkGuest, location: bytes = b"w") -> Log:
    (stolen,) = guest.asks(Said(wire.STEAL, location=location)).tasks
    return stolen.log


def looks_up_log(guest: DworkGuest, name: bytes) -> Log:
    (found,) = guest.looks_up(name).tasks
    return found.log


def states(log: Log) -> list[int]:
    return [state for state, _ in log]


def test_the_log_of_a_task_that_never_waited() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    created_us = hall.scheduler.now_us
    hall.wait(1000)
    log = steals_log(guest)
    assert states(log) == [wire.PENDING, wire.READY, wire.STOLEN]
    times = dict(log)
    assert times[wire.PENDING] == times[wire.READY] <= created_us
    assert times[wire.STOLEN] >= created_us + 1000


def test_the_log_of_a_task_that_waited_tells_since_when_it_was_ready() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"p", task(b"t", b"p"))
    guest.steals(b"w")
    hall.wait(1000)
    guest.completes(b"w", b"p")
    hall.wait(1000)
    log = steals_log(guest)
    assert states(log) == [wire.PENDING, wire.WAITING, wire.READY, wire.STOLEN]
    times = dict(log)
    assert times[wire.PENDING] == times[wire.WAITING]
    assert times[wire.READY] - times[wire.WAITING] >= 1000
    assert times[wire.STOLEN] - times[wire.READY] >= 1000


def test_what_the_worker_says_is_kept_and_told_by_lookup() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    at_us = steals_log(guest)[-1][1]
    told = ((wire.COPYING, at_us + 5), (wire.STARTED, at_us + 10), (wire.DONE, at_us + 20))
    hall.wait(30)
    assert guest.asks(Said(wire.COMPLETE, (SaidTask(b"t", b"", log=told),), location=b"w")) == OK
    log = looks_up_log(guest, b"t")
    assert set(told) <= set(log)
    assert sorted(states(log)) == sorted([*states(told), wire.PENDING, wire.READY, wire.STOLEN, wire.RECORDED])
    assert dict(log)[wire.RECORDED] >= at_us + 30
    assert looks_up_log(hall.restart(), b"t") == log


def test_what_the_creator_says_is_kept_and_told_to_the_worker() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.asks(Said(wire.CREATE, (SaidTask(b"t", b"o", log=((wire.PENDING, 17),)),)))
    log = steals_log(guest)
    assert (wire.PENDING, 17) in log
    assert states(log).count(wire.PENDING) == 2
    assert looks_up_log(hall.restart(), b"t") == log


def test_what_the_hall_says_and_gets_back_is_not_said_twice() -> None:
    """A worker gives a task back as it was given, with its own entries behind the others."""
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    told = (*steals_log(guest), (wire.STARTED, 1), (wire.DONE, 2))
    guest.asks(Said(wire.COMPLETE, (SaidTask(b"t", b"", log=told),), location=b"w"))
    log = looks_up_log(guest, b"t")
    assert len(log) == len(set(log)) == len(told) + 1


def test_a_task_that_is_created_again_keeps_what_its_worker_said() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    guest.steals(b"w")
    guest.asks(Said(wire.TRANSFER, (SaidTask(b"t", b"", log=((wire.STARTED, 7),)),), location=b"w"))
    guest = hall.restart()
    assert (wire.STARTED, 7) in steals_log(guest)


def test_the_log_grows_by_what_was_said_and_no_more() -> None:
    """Each time the task is given back as it was given, with one entry more."""
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"t")
    rounds = 10
    for number in range(rounds):
        told = (*steals_log(guest), (wire.STARTED, number))
        assert guest.asks(Said(wire.TRANSFER, (SaidTask(b"t", b"", log=told),), location=b"w")) == OK
    log = steals_log(guest)
    assert states(log).count(wire.STARTED) == rounds


def test_times_survive_a_restart() -> None:
    hall = DworkHall()
    guest = hall.guest()
    guest.creates(b"p", task(b"t", b"p"), task(b"u", b"t"))
    guest.steals(b"w")
    hall.wait(1000)
    guest.completes(b"w", b"p")
    ready_us = hall.scheduler.now_us
    guest = hall.restart()
    log = steals_log(guest)
    assert states(log) == [wire.PENDING, wire.WAITING, wire.READY, wire.STOLEN]
    assert ready_us - 10 <= dict(log)[wire.READY] <= ready_us
    guest = hall.restart()
    assert looks_up_log(guest, b"t") == log
