"""Summaries at the native door: at most one in an interval, and only if something has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import Bounds
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest

SECOND_US = 1_000_000


def summaries(guest: NativeGuest) -> list[Any]:
    frames = guest.hears()
    assert {(kind, number) for kind, number, _ in frames} <= {(wire.SUMMARY, 0)}
    return [body for _, _, body in frames]


def subscribe(hall: NativeHall, guest: NativeGuest, interval_us: int = SECOND_US) -> Any:
    """Subscribe; the first summary."""
    assert guest.asks(wire.SUBSCRIBE, (interval_us,)) is None
    hall.wait(1)
    (first,) = summaries(guest)
    return first


def test_a_summary_counts_jobs_by_queue_and_state(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    assert subscribe(hall, guest) == {"queues": {}, "workers": 0, "busy": 0}
    bob.submits(b"a", b"b", b"c")
    bob.says(wire.SUBMIT, (0, [(b"q", b"", {}, b"", SECOND_US * 60, [])]))
    frames = bob.works(slots=1)
    hall.wait(SECOND_US)
    assert summaries(guest) == [{"queues": {b"q": [2, 1, 1, 0, False, 0, 0]}, "workers": 1, "busy": 1}]
    (lease,) = [body[0] for kind, _, body in frames if kind == wire.ASSIGN]
    frames = bob.says(wire.FINISH, (lease, b""))
    (lease,) = [body[0] for kind, _, body in frames if kind == wire.ASSIGN]
    bob.says(wire.FAIL, (lease, 1, b"", False))
    hall.wait(SECOND_US)
    assert summaries(guest) == [{"queues": {b"q": [0, 1, 1, 1, False, 1, 1]}, "workers": 1, "busy": 1}]


def test_one_summary_in_an_interval_whatever_the_load_and_none_without_a_change(
    hall: NativeHall, guest: NativeGuest
) -> None:
    bob = hall.guest()
    subscribe(hall, guest)
    for _ in range(50):
        bob.submits(b"")
        hall.wait(SECOND_US // 10)
    assert 4 <= len(summaries(guest)) <= 5
    hall.wait(SECOND_US)
    hall.wait(20 * SECOND_US)
    assert len(summaries(guest)) <= 1
    hall.wait(20 * SECOND_US)
    assert summaries(guest) == []


def test_a_slow_subscriber_is_sent_no_more_until_it_has_read(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    subscribe(hall, guest)
    guest.behind = True
    for _ in range(5):
        bob.submits(b"")
        hall.wait(SECOND_US)
    assert summaries(guest) == []
    guest.behind = False
    hall.wait(SECOND_US)
    (latest,) = summaries(guest)
    assert latest["queues"][b"q"][0] == 5


def test_a_subscriber_whose_answers_wait_for_the_store_is_sent_a_bounded_number() -> None:
    hall = NativeHall(bounds=Bounds(summary_waiting_bytes_max=100))
    guest = hall.guest()
    subscribe(hall, guest)
    hall.held = True
    guest.submits(b"a")
    bob = hall.guest()
    for number in range(20):
        bob.says(wire.SUBMIT, (0, [(b"q", b"", {"durable": False}, b"%d" % number, 0, [])]))
        hall.wait(SECOND_US)
    assert guest.session.out_bytes < 300
    hall.held = False


def test_nothing_is_computed_without_a_subscriber(hall: NativeHall) -> None:
    summaries = hall.context.services.summaries
    ann, eve = hall.guest(), hall.guest()
    ann.submits(b"a")
    hall.wait(10 * SECOND_US)
    assert summaries.made == 0
    subscribe(hall, ann)
    subscribe(hall, eve)
    assert summaries.made == 1, "both are sent the same one"
    assert ann.asks(wire.SUBSCRIBE, (0,)) is None
    eve.leaves()
    hall.wait(10 * SECOND_US)
    assert summaries.made == 1
    assert hall.scheduler.timers.armed() == []


def test_the_most_active_queues_are_shown() -> None:
    hall = NativeHall(bounds=Bounds(summary_queues_max=2))
    guest = hall.guest()
    for number in range(5):
        guest.submits(*[b"%d" % key for key in range(1 + number * 2 % 5)], queue=b"q%d" % number)
    assert sorted(subscribe(hall, guest)["queues"]) == [b"q2", b"q4"]


def test_a_second_subscribe_replaces_the_first(hall: NativeHall, guest: NativeGuest) -> None:
    subscribe(hall, guest, 60 * SECOND_US)
    assert len(subscribe(hall, guest)) == 3
    guest.submits(b"a")
    hall.wait(SECOND_US)
    assert len(summaries(guest)) == 1
