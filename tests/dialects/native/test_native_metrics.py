"""The answer to `metrics`: what was counted, in a map of bounded size, made at most once a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiringhall.core.histograms import BOUNDS_US, BUCKETS
from hiringhall.dialects.native import wire
from hiringhall.dialects.native.bounds import Bounds
from stage.native import NativeHall

if TYPE_CHECKING:
    from stage.native import NativeGuest

SECOND_US = 1_000_000
TOTALS = ("submitted_total", "done_total", "failed_total", "cancelled_total", "retried_total", "lost_total")


def metrics(hall: NativeHall, guest: NativeGuest) -> Any:
    hall.wait(SECOND_US)
    return guest.asks(wire.METRICS, None)


def leases(frames: list[tuple[str, int, Any]]) -> list[int]:
    return [body[0] for kind, _, body in frames if kind == wire.ASSIGN]


def test_an_empty_hall_has_all_parts_of_the_map(hall: NativeHall, guest: NativeGuest) -> None:
    answer = metrics(hall, guest)
    assert (answer["queues"], answer["workers"], answer["jobs"], answer["store_trouble"]) == ({}, {}, 0, "")
    assert answer["bounds_us"] == list(BOUNDS_US)
    assert [answer["other"][name] for name in ("queues", "ready", *TOTALS)] == [0] * 8
    assert answer["other"]["run"] == [0, [0] * BUCKETS]


def test_a_queue_has_its_depths_its_counts_and_its_times(hall: NativeHall, guest: NativeGuest) -> None:
    bob = hall.guest()
    bob.submits(b"a", b"b", b"c", b"d")
    bob.says(wire.SUBMIT, (0, [(b"q", b"", {}, b"", SECOND_US * 60, [])]))
    ready_us = hall.scheduler.now_us
    hall.wait(2 * SECOND_US)
    (lease,) = leases(bob.works(slots=1))
    hall.wait(5 * SECOND_US)
    (lease,) = leases(bob.says(wire.FINISH, (lease, b"")))
    (lease,) = leases(bob.says(wire.FAIL, (lease, 1, b"", False)))
    answer = metrics(hall, guest)
    queue = answer["queues"][b"q"]
    assert [queue[name] for name in ("ready", "running", "held", "delayed", "failed", "workers", "paused")] == [
        1, 1, 0, 1, 1, 1, False,
    ]  # fmt: skip
    assert 0 < queue["oldest_us"] <= ready_us
    assert [queue[name] for name in TOTALS] == [5, 1, 1, 0, 0, 0]
    (wait_us, waits), (run_us, runs) = queue["wait"], queue["run"]
    assert (sum(waits), sum(runs)) == (2, 2)
    assert 9 * SECOND_US <= wait_us < 10 * SECOND_US
    assert 5 * SECOND_US <= run_us < 6 * SECOND_US
    assert runs[BOUNDS_US.index(10_000_000)] == 1
    counters = answer["counters"]
    assert [counters[name] for name in ("submitted", "taken", "done", "failed")] == [5, 3, 1, 1]
    assert answer["workers"] == {"native": [1, 0]}


def test_retries_and_losses_are_counted(hall: NativeHall, guest: NativeGuest) -> None:
    bob, eve = hall.guest(), hall.guest()
    bob.says(wire.SUBMIT, (0, [(b"q", b"", {"retries": 1, "backoff_us": 1000}, b"", 0, [])]))
    (lease,) = leases(bob.works())
    bob.says(wire.FAIL, (lease, 1, b"", True))
    bob.leaves()
    hall.wait(SECOND_US)
    eve.works()
    eve.leaves()
    queue = metrics(hall, guest)["queues"][b"q"]
    assert [queue[name] for name in TOTALS] == [1, 0, 0, 0, 1, 1]


def test_all_who_ask_within_a_second_get_one_answer(hall: NativeHall, guest: NativeGuest) -> None:
    made = hall.context.services.metrics
    first = metrics(hall, guest)
    hall.guest().submits(b"a")
    assert [hall.guest().asks(wire.METRICS, None) for _ in range(10)] == [first] * 10
    assert made.made == 1
    assert metrics(hall, guest)["jobs"] == 1
    assert made.made == 2


def test_queues_beyond_the_limit_are_summed_and_no_sum_falls(guest: NativeGuest) -> None:
    hall = NativeHall(bounds=Bounds(metrics_queues_max=2))
    guest, bob = hall.guest(), hall.guest()
    for number in range(4):
        bob.submits(*[b"%d" % key for key in range(number + 1)], queue=b"q%d" % number)
    answer = metrics(hall, guest)
    assert sorted(answer["queues"]) == [b"q2", b"q3"]
    assert [answer["other"][name] for name in ("queues", "ready", "submitted_total")] == [2, 3, 3]
    eve = hall.guest()
    frames = eve.works(queue=b"q0")
    eve.says(wire.FINISH, (leases(frames)[0], b""))
    eve.leaves()
    hall.scheduler.length_limits.drop(hall.scheduler.queues[b"q0"])
    other = metrics(hall, guest)["other"]
    assert [other[name] for name in ("queues", "ready", "submitted_total", "done_total")] == [1, 2, 3, 1]
    assert sum(other["run"][1]) == 1


def test_a_body_that_is_not_nil_is_refused(guest: NativeGuest) -> None:
    assert guest.asks(wire.METRICS, [1]) == "bad_request"
