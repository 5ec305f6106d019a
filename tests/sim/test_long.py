"""A long run counts what it played, names each seed that breaks a law, and ends with 1 if any did."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from . import long, turnlaws
from .scenario import Run
from .world import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from .hall import Hall
    from .laws import Laws

ROOT = Path(__file__).parents[2]
SEEDS = range(4, 10)


def test_a_long_run_counts_turns_and_jobs_on_several_cores() -> None:
    turns = jobs = 0
    for seed in SEEDS:
        run = Run(seed)
        run.play()
        turns += run.hall.turns
        jobs += run.laws.jobs_seen
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--long", "--seed", str(SEEDS.start), "--seeds", str(len(SEEDS))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()[-1]
    assert said == f"{len(SEEDS)} seeds from 4 on, {turns:,} turns, {jobs:,} jobs: 0 broke a law"
    assert jobs > len(SEEDS)


def test_a_long_run_names_the_seeds_that_break_a_law_and_plays_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = turnlaws.check

    def break_some(laws: Laws, hall: Hall) -> None:
        if laws.world.seed in (5, 8):
            raise Violation("planted", f"seed {laws.world.seed} is to break")
        check(laws, hall)

    monkeypatch.setattr(turnlaws, "check", break_some)
    said = io.StringIO()

    assert long.run(SEEDS.start, len(SEEDS), 1, Console(file=said, width=200)) == 1
    lines = said.getvalue().splitlines()
    assert "seed 5 breaks a law: planted: seed 5 is to break" in lines
    assert "planted: 5, 8" in lines
    assert lines[-1].startswith("6 seeds from 4 on, ")
    assert lines[-1].endswith(": 2 broke a law")


def test_a_long_run_that_is_interrupted_tells_what_it_came_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(chunks: list[range], processes: int) -> Iterator[long.Tally]:
        yield long.Tally(seeds=10, turns=20, jobs=30)
        raise KeyboardInterrupt

    monkeypatch.setattr(long, "_tallies", interrupted)
    said = io.StringIO()

    assert long.run(1, 100, 1, Console(file=said)) == 1
    assert said.getvalue().splitlines()[-1] == "10 seeds from 1 on, 20 turns, 30 jobs: 0 broke a law"
