"""The jobs whose instructions are counted: each round does all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from instructions import DEPTH, KINDS, player


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_submits_and_does_all_jobs(kind: str) -> None:
    play = player(kind)
    for _ in range(2):
        play.round()
    scheduler = play.hall.scheduler
    done = 0 if "create" in kind else 2 * DEPTH
    assert (len(scheduler.jobs), scheduler.counters.done) == (2 * DEPTH - done, done)
