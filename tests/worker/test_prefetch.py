"""How many jobs may wait for a process, by what the processes have finished."""

from __future__ import annotations

import pytest

from hiringhall.worker.prefetch import PREFETCH_MAX, STALL_TICKS, TICK_US, Prefetch


@pytest.mark.parametrize(
    ("processes", "finished", "expected"),
    [
        # Jobs that each process finishes in a tick, and how many may wait for it after the ticks.
        (1, [0], [0]),
        (1, [1, 1, 1], [0, 0, 0]),
        (1, [2, 2], [2, 2]),
        (1, [9, 9, 9], [4, 8, 8]),
        (1, [500] * 6, [4, 8, 16, 32, 64, 64]),
        (4, [2000] * 6, [4, 8, 16, 32, 64, 64]),
        (4, [4, 8], [0, 2]),
        (2, [100, 100, 100, 2], [4, 8, 16, 0]),
        (0, [0], [0]),
    ],
)
def test_it_follows_what_was_finished(processes: int, finished: list[int], expected: list[int]) -> None:
    prefetch = Prefetch()
    assert [prefetch.tick(processes, count, TICK_US) for count in finished] == expected


def test_a_late_tick_counts_for_the_time_that_has_passed() -> None:
    prefetch = Prefetch()
    assert prefetch.tick(1, 10, 10 * TICK_US) == 0
    assert prefetch.tick(1, 30, 10 * TICK_US) == 2


def test_after_a_stall_nothing_waits_for_a_while() -> None:
    prefetch = Prefetch()
    for _ in range(6):
        prefetch.tick(1, 500, TICK_US)
    assert prefetch.each == PREFETCH_MAX
    prefetch.stalled()
    assert prefetch.each == 0
    assert [prefetch.tick(1, 500, TICK_US) for _ in range(STALL_TICKS)] == [0] * STALL_TICKS
    assert prefetch.tick(1, 500, TICK_US) == 4
