"""A small run of tests/soak/flows.py: a flow ends complete and in order while its parts are killed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "soak"))

import flows


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_flow_ends_complete_and_in_order_while_hall_workers_and_client_are_killed(
    tmp_path: Path, seed: int
) -> None:
    kept = flows.soak(tmp_path, tasks=2000, kills=8, seed=seed)
    assert kept.tasks == 2000
    assert kept.begun >= 2000
    assert kept.kills >= 2
