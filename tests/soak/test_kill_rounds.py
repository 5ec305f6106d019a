"""`make soak`: a hundred kills at random moments. HALL_SOAK_SEED and HALL_SOAK_ROUNDS ask for others."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import HallProcess
from mixed_load import kill_rounds

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS: Final = 100
SEED: Final = 1


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    rounds = int(os.environ.get("HALL_SOAK_ROUNDS", ROUNDS))
    seed = int(os.environ.get("HALL_SOAK_SEED", SEED))
    with HallProcess(tmp_path) as hall:
        promises = asyncio.run(kill_rounds(hall, seed, rounds, alive_s=(0.02, 2.0)))
    print(f"seed {seed}: {rounds} kills, {len(promises.created)} promises kept")  # noqa: T201
    assert len(promises.created) > 50 * rounds
