"""Whom a job wakes when those who are ready do not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiringhall.dialects.wmp.session import WmpOptions
from stage.hall import SECOND_US

if TYPE_CHECKING:
    from stage.wmp import Path, WmpHall

STEP_US = WmpOptions().wake_step_us


def woken(paths: list[Path]) -> int:
    return sum(len(path.hears()) for path in paths)


def test_a_free_path_behind_nineteen_busy_ones_has_the_job_within_100_ms(hall: WmpHall) -> None:
    free, *busy = [hall.path().is_ready(b"f") for _ in range(20)]
    hall.client().submits(b"f")
    began_us = hall.scheduler.now_us
    while not (woken(busy), told := free.hears())[1]:
        hall.wait(STEP_US)
    assert [message.first(b"role") for message in told] == [b"f"]
    free.takes(b"f")
    assert hall.scheduler.now_us - began_us <= SECOND_US // 10


def test_paths_behind_a_device_that_are_gone_hold_nobody_up_twice(hall: WmpHall) -> None:
    """Nobody tells the hall that they are gone. Each is woken once, in vain, and not for the next job."""
    here = hall.path().is_ready(b"f")
    gone = [hall.path().is_ready(b"f") for _ in range(20)]
    hall.client().submits(b"f")
    for _ in range(4):
        hall.wait(STEP_US)
    assert woken(gone) == 20
    here.is_woken(b"f").takes(b"f")
    here.is_ready(b"f")
    hall.client().submits(b"f")
    here.is_woken(b"f")
    hall.wait(SECOND_US)
    assert woken(gone) == 0


def test_a_path_that_cannot_be_sent_to_counts_for_nothing(hall: WmpHall) -> None:
    first, second = hall.path().is_ready(b"f"), hall.path().is_ready(b"f")
    hall.client().submits(b"f")
    second.is_woken(b"f").leaves()
    first.is_woken(b"f")


def test_a_ready_that_comes_some_time_after_an_unanswered_wake_counts(hall: WmpHall) -> None:
    """The worker was at work elsewhere when it was woken, and is free now."""
    hall.client().submits(b"f")
    path = hall.path().is_ready(b"f").is_woken(b"f")
    path.is_ready(b"f").hears_nothing()
    hall.wait(STEP_US)
    path.is_ready(b"f").is_woken(b"f").takes(b"f")
