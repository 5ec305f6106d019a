"""Comparing two builds: what counts as dearer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from compare import Compared, Comparison
from figures import Row


@pytest.mark.parametrize(
    ("unit", "before", "after", "cost"),
    [
        ("jobs/s", [100.0, 110.0, 90.0], [50.0], 2.0),
        ("us", [10.0], [11.0, 12.0, 30.0], 1.2),
        ("jobs", [1000.0], [0.0], None),
        ("us", [0.0], [1.0], None),
    ],
)
def test_the_cost_is_above_one_when_the_later_build_is_slower(
    unit: str, before: list[float], after: list[float], cost: float | None
) -> None:
    assert Compared("one", "figure", unit, before, after).cost == cost


def test_the_halls_of_a_row_and_their_cpu_time_are_compared_apart() -> None:
    comparison = Comparison()
    for after, value in ((False, 4.0), (True, 5.0)):
        row = Row("one", "time", "us", 1, {"hall": value, "hall, in memory": 1.0}, cpu_us={"hall": 2.0})
        comparison.add(row, after=after)
    assert [(one.figure, one.cost) for one in comparison.all()] == [
        ("hall: time", 1.25),
        ("hall, in memory: time", 1.0),
        ("hall: time, CPU of a job", 1.0),
    ]
