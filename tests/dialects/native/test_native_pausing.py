"""Queues that a client of the native door pauses and resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stage.native import NativeGuest, NativeHall


def test_a_paused_queue_gives_out_nothing_and_says_so(hall: NativeHall, guest: NativeGuest) -> None:
    ((_, _, (job,)),) = guest.submits(b"a")
    assert guest.asks("pause", (b"q",)) is None
    bob = hall.guest()
    assert bob.works() == []
    (listed,) = guest.asks("queues", (0, 10))
    assert (listed["name"], listed["ready"], listed["paused"]) == (b"q", 1, True)
    assert guest.asks("job", (job,))["why"] == "its queue is paused"
    assert guest.asks("resume", (b"q",)) is None
    assert [kind for kind, _, _ in bob.hears()] == ["assign"]
    (listed,) = guest.asks("queues", (0, 10))
    assert (listed["running"], listed["paused"]) == (1, False)


def test_the_answer_comes_when_it_is_on_disk(hall: NativeHall, guest: NativeGuest) -> None:
    hall.held = True
    assert guest.says("pause", (b"q",), 7) == []
    hall.held = False
    assert guest.hears() == [("ok", 7, None)]
    assert guest.says("pause", (b"q",), 8) == [("ok", 8, None)]
    hall.open()
    assert hall.scheduler.is_paused(b"q")


def test_a_failed_commit_delays_the_answer_and_the_next_request_is_refused(
    hall: NativeHall, guest: NativeGuest
) -> None:
    hall.trouble = "disk full"
    assert guest.says("pause", (b"q",), 7) == []
    eve = hall.guest()
    assert eve.asks("resume", (b"q",)) == "store_down"
    assert hall.scheduler.is_paused(b"q")
    hall.recover()
    assert guest.hears() == [("ok", 7, None)]


def test_a_summary_tells_of_paused_queues(guest: NativeGuest, hall: NativeHall) -> None:
    guest.asks("pause", (b"q",))
    frames = guest.says_numbered("subscribe", (250_000,))
    hall.wait(1_000_000)
    frames += guest.hears()
    summaries = [body["queues"] for kind, _, body in frames if kind == "summary"]
    assert [summary[b"q"][4] for summary in summaries] == [True]


def test_wrong_requests_are_refused(guest: NativeGuest) -> None:
    assert guest.asks("pause", (b"",)) == "bad_request"
    assert guest.asks("pause", b"q") == "bad_request"
    assert guest.asks("resume", (1,)) == "bad_request"
    assert guest.asks("pause", (b"q" * 600,)) == "too_large"
    assert guest.asks("resume", (b"never seen",)) is None
