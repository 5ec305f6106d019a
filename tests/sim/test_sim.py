"""A thousand seeds: no law is broken while there are faults, and everything drains when they stop."""

from __future__ import annotations

import pytest

from .scenario import play

SEEDS = 1000
CHUNK = 25


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_seed_breaks_a_law(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play(seed)
