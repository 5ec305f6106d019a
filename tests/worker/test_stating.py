"""What a worker states of itself."""

from __future__ import annotations

from hiringhall.worker.messages import Served
from hiringhall.worker.stating import Stated


def test_a_worker_has_no_skill_and_does_not_leave_unless_it_was_told() -> None:
    stated = Stated()
    assert (stated.skill(b"app.resize"), stated.left_us) == (0, -1)


def test_the_whole_name_of_a_function_counts_before_the_last_part_and_that_before_the_rest() -> None:
    stated = Stated(1, {"resize": 2, "app.resize": 3, "app.zero": 0})
    names = (b"app.resize", b"other.resize", b"resize", b"app.crop", b"app.zero", b"\xff")
    assert [stated.skill(name) for name in names] == [3, 2, 2, 1, 0, 1]


def test_names_that_no_function_has_are_told() -> None:
    stated = Stated(0, {"resize": 1, "app.crop": 1, "crop.app": 1})
    served = [Served(queue, is_async=False, codec="json") for queue in (b"app.resize", b"app.crop")]
    assert stated.unknown(served) == ["crop.app"]


def test_the_time_that_is_left_is_counted_from_the_start_and_ends_at_nothing() -> None:
    stated = Stated(stays_s=60)
    first_us = stated.left_us
    assert 0 < stated.left_us <= first_us <= 60_000_000
    assert Stated(stays_s=0).left_us == 0
