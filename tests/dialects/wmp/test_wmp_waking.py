"""Whom a job wakes when those who are ready do not answer."""

from __future__ import annotations

from wmp_room import SECOND_US, Path, Room

from hiringhall.dialects.wmp.session import WmpOptions

STEP_US = WmpOptions().wake_step_us


def woken(paths: list[Path]) -> int:
    return sum(len(path.hears()) for path in paths)


def test_a_free_path_behind_nineteen_busy_ones_has_the_job_within_100_ms(room: Room) -> None:
    free, *busy = [room.path().is_ready(b"f") for _ in range(20)]
    room.client().submits(b"f")
    began_us = room.hall.now_us
    while not (woken(busy), told := free.hears())[1]:
        room.wait(STEP_US)
    assert [message.first(b"role") for message in told] == [b"f"]
    free.takes(b"f")
    assert room.hall.now_us - began_us <= SECOND_US // 10


def test_paths_behind_a_device_that_are_gone_hold_nobody_up_twice(room: Room) -> None:
    """Nobody tells the hall that they are gone. Each is woken once, in vain, and not for the next job."""
    here = room.path().is_ready(b"f")
    gone = [room.path().is_ready(b"f") for _ in range(20)]
    room.client().submits(b"f")
    for _ in range(4):
        room.wait(STEP_US)
    assert woken(gone) == 20
    here.is_woken(b"f").takes(b"f")
    here.is_ready(b"f")
    room.client().submits(b"f")
    here.is_woken(b"f")
    room.wait(SECOND_US)
    assert woken(gone) == 0


def test_a_path_that_cannot_be_sent_to_counts_for_nothing(room: Room) -> None:
    first, second = room.path().is_ready(b"f"), room.path().is_ready(b"f")
    room.client().submits(b"f")
    second.is_woken(b"f").is_cut()
    first.is_woken(b"f")


def test_a_ready_that_comes_some_time_after_an_unanswered_wake_counts(room: Room) -> None:
    """The worker was at work elsewhere when it was woken, and is free now."""
    room.client().submits(b"f")
    path = room.path().is_ready(b"f").is_woken(b"f")
    path.is_ready(b"f").hears_nothing()
    room.wait(STEP_US)
    path.is_ready(b"f").is_woken(b"f").takes(b"f")
