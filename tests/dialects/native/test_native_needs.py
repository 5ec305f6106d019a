"""What a native worker states of itself: its skill in each queue, and the time it has left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.core.ratings import Rating, Ratings

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall

SECOND = 1_000_000


def assigned(frames: list[tuple[str, int, Any]]) -> list[int]:
    """The leases of the assignments among these frames."""
    return [body[0] for kind, _, body in frames if kind == "assign"]


def works(guest: NativeGuest, skill: int = 0, stays_us: int = -1) -> list[int]:
    return assigned(guest.says_numbered("work", (b"bob", 1, [(b"q", 0, skill)], stays_us, 0)))


def submits(guest: NativeGuest, **terms: int) -> None:
    guest.says_numbered("submit", (0, [(b"q", b"", terms, b"", 0, [])]))


def test_a_job_that_needs_a_skill_goes_to_a_worker_that_states_it(hall: NativeHall, guest: NativeGuest) -> None:
    submits(guest, skill=3)
    bob, carl = hall.guest(), hall.guest()
    assert works(bob) == []
    assert works(bob, skill=2) == []
    assert len(works(carl, skill=3)) == 1


def test_a_worker_gets_only_what_it_has_time_for(hall: NativeHall, guest: NativeGuest) -> None:
    submits(guest, takes_us=60 * SECOND)
    bob = hall.guest()
    assert works(bob, stays_us=59 * SECOND) == []
    assert len(works(bob, stays_us=61 * SECOND)) == 1


def test_a_worker_whose_time_is_up_gets_nothing_until_it_says_that_it_stays(
    hall: NativeHall, guest: NativeGuest
) -> None:
    bob = hall.guest()
    assert works(bob, stays_us=0) == []
    hall.wait(SECOND)
    submits(guest)
    assert bob.hears() == []
    assert len(works(bob)) == 1


def test_what_is_configured_for_its_name_counts_for_a_worker_that_says_nothing(
    hall: NativeHall, guest: NativeGuest
) -> None:
    hall.scheduler.needs.set_ratings(Ratings([(b"bob", Rating({b"q": 5}, 30 * SECOND))]))
    submits(guest, skill=5, takes_us=60 * SECOND)
    bob = hall.guest()
    assert works(bob) == [], "it stays for 30 s"
    submits(guest, skill=5, takes_us=20 * SECOND)
    (lease,) = assigned(bob.hears())
    assert bob.says("finish", (lease, b"")) == []
    assert len(works(bob, stays_us=90 * SECOND)) == 1, "what it says itself replaces that"
