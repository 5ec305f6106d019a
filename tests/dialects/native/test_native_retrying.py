"""Retrying dead letters at the native door: those in memory, and those that only the history has."""

from __future__ import annotations

import pytest

from hiringhall.core.limits import Limits
from hiringhall.dialects.native import wire
from stage.native import NativeGuest, NativeHall

COMMIT_US = 1_000_000
"""Enough for a commit that nobody waits for."""


@pytest.fixture
def hall() -> NativeHall:
    return NativeHall(limits=Limits(ended_max=2))


def fail(guest: NativeGuest, *keys: bytes) -> list[int]:
    """Submit jobs that fail at once, in this order."""
    ((_, _, jobs),) = guest.submits(*keys)
    frames = guest.works()
    for _ in keys:
        ((_, _, (lease, *_)),) = [frame for frame in frames if frame[0] == wire.ASSIGN]
        frames = guest.says(wire.FAIL, (lease, 7, b"no", False))
    guest.asks(wire.SLOTS, (0,))
    guest.hall.wait(COMMIT_US)
    return list(jobs)


def test_a_dead_letter_of_the_history_runs_again_with_its_payload(guest: NativeGuest, hall: NativeHall) -> None:
    old, *_ = fail(guest, b"a", b"b", b"c", b"d")
    assert hall.scheduler.find(old) is None, "it has left memory"
    assert guest.asks(wire.RETRY, (old,)) is None
    told = guest.asks(wire.JOB, (old,))
    assert (told["state"], told["payload"], told["failures"]) == ("queued", b"work of a", 0)
    assert [attempt[3] for attempt in told["tries"]] == [7]
    ((_, _, (lease, job, *_)),) = [frame for frame in guest.says(wire.SLOTS, (1,)) if frame[0] == wire.ASSIGN]
    assert job == old
    guest.says(wire.FINISH, (lease, b"well"))
    told = guest.asks(wire.JOB, (old,))
    assert (told["state"], told["result"], told["attempts"]) == ("done", b"well", 2)


def test_it_survives_a_restart_and_is_in_the_history_once(guest: NativeGuest, hall: NativeHall) -> None:
    jobs = fail(guest, b"a", b"b", b"c", b"d")
    hall.open()
    guest = hall.guest()
    assert guest.asks(wire.RETRY, (jobs[0],)) is None
    hall.open()
    guest = hall.guest()
    assert guest.asks(wire.JOB, (jobs[0],))["state"] == "queued"
    found, _ = guest.asks(wire.HISTORY, None)
    assert [job["id"] for job in found] == jobs[:0:-1]


def test_what_is_retried_twice_at_once_runs_once(guest: NativeGuest, hall: NativeHall) -> None:
    old, *_ = fail(guest, b"a", b"b", b"c", b"d")
    other = hall.guest()
    hall.held = True
    for asking in (guest, other, guest):
        asking.say_bytes(wire.encode(wire.RETRY, 50, (old,)))
    assert guest.hears() == other.hears() == []
    hall.held = False
    hall.end()
    answers = guest.hears() + other.hears()
    assert sorted(kind for kind, _, _ in answers) == [wire.ERROR, wire.ERROR, wire.OK]
    assert {body[0] for kind, _, body in answers if kind == wire.ERROR} == {"wrong_state"}
    assert list(hall.scheduler.jobs) == [old]


def test_only_dead_letters_can_be_retried(guest: NativeGuest, hall: NativeHall) -> None:
    ((_, _, (cancelled,)),) = guest.submits(b"x")
    guest.asks(wire.CANCEL, (cancelled, b""))
    old, *_ = fail(guest, b"a", b"b", b"c", b"d")
    assert hall.scheduler.find(cancelled) is None
    assert guest.asks(wire.RETRY, (cancelled,)) == "wrong_state"
    assert guest.asks(wire.RETRY, (1 << 62,)) == "unknown_job"
    assert guest.asks(wire.RETRY, (old - 1000,)) == "unknown_job"
    guest.submits(b"a")
    assert guest.asks(wire.RETRY, (old,)) == "wrong_state", "another job with its key is live"
    assert len(hall.scheduler.jobs) == 1


def test_an_unreadable_history_is_said_to_be_so(guest: NativeGuest, hall: NativeHall) -> None:
    old, *_ = fail(guest, b"a", b"b", b"c", b"d")
    hall.trouble = "disk full"
    assert guest.asks(wire.RETRY, (old,)) == "store_down"
    hall.trouble = ""
    assert guest.asks(wire.RETRY, (old,)) is None


def test_the_retry_of_a_job_that_never_reached_the_disk_is_refused_with_it(
    guest: NativeGuest, hall: NativeHall
) -> None:
    bob = hall.guest()
    hall.held = True
    assert guest.submits(b"a") == []
    ((_, _, (lease, job, *_)),) = bob.works()
    bob.says(wire.FAIL, (lease, 7, b"no", False))
    bob.says(wire.SLOTS, (0,))
    assert bob.says(wire.RETRY, (job,), 9) == []
    hall.turn_that_fails()
    hall.recover()
    hall.settle()
    answers = {number: kind for kind, number, _ in bob.hears()}
    assert answers[9] == wire.ERROR
    assert [(kind, body[0]) for kind, _, body in guest.hears()] == [("error", "store_down")]
