"""A job that says how long the history keeps it, at the native door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.core.limits import Limits
from hiringhall.core.states import PARENT_FAILED
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest

SECOND = 1_000_000


def submitted(guest: NativeGuest, parents: list[Any] | None = None, **terms: Any) -> int:
    jobs: list[int] = guest.asks(
        "submit", (0, [(b"q", b"", terms, b"k" if not parents else b"", 0, parents or [])])
    )
    return jobs[0]


def done(hall: NativeHall, result: bytes = b"result") -> None:
    """A worker does the next job."""
    bob = hall.guest()
    ((_, _, (lease, *_)),) = bob.works()
    assert bob.asks("finish", (lease, result)) is None
    bob.leaves()


def expire(hall: NativeHall) -> None:
    """What the hall does when it is idle and lines are due."""
    assert hall.store.next_expiry_us() <= hall.now_us
    hall.begin()
    hall.engine.expire()
    hall.end()


def test_its_result_is_there_until_then_and_the_hall_says_that_it_is_not_kept(
    hall: NativeHall, guest: NativeGuest
) -> None:
    job = submitted(guest, keep_us=60 * SECOND)
    done(hall)
    hall.wait(59 * SECOND)
    assert guest.asks("job", (job,))["result"] == b"result"
    assert hall.store.next_expiry_us() > hall.now_us
    hall.wait(2 * SECOND)
    expire(hall)
    assert guest.asks("job", (job,)) == "not_kept"
    assert hall.store.count() == (0, 0)


def test_a_dead_letter_stays(hall: NativeHall, guest: NativeGuest) -> None:
    job = submitted(guest, keep_us=SECOND)
    bob = hall.guest()
    ((_, _, (lease, *_)),) = bob.works()
    assert bob.asks("fail", (lease, 1, b"trouble", False)) is None
    hall.wait(3600 * SECOND)
    expire(hall)
    assert guest.asks("job", (job,))["state"] == "failed"


def test_a_parent_whose_line_was_dropped_counts_while_memory_has_it(
    hall: NativeHall, guest: NativeGuest
) -> None:
    parent = submitted(guest, keep_us=SECOND)
    done(hall)
    hall.wait(10 * SECOND)
    expire(hall)
    child = submitted(guest, [parent])
    assert guest.asks("job", (child,))["state"] == "queued"


def test_a_parent_that_neither_memory_nor_the_history_has_counts_as_failed() -> None:
    """As any parent whose line was dropped."""
    hall = NativeHall(limits=Limits(ended_max=1))
    guest = hall.guest()
    parent = submitted(guest, keep_us=SECOND)
    done(hall)
    submitted(guest)
    done(hall)
    hall.wait(10 * SECOND)
    expire(hall)
    child = guest.asks("job", (submitted(guest, [parent]),))
    assert (child["state"], child["code"]) == ("failed", PARENT_FAILED)
