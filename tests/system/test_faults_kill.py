"""The hall is killed again and again under a mixed durable load, and keeps every promise.

The long run of the same story is tests/soak.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from mixed_load import kill_rounds

if TYPE_CHECKING:
    from hall_process import HallProcess

ROUNDS: Final = 8


@pytest.mark.parametrize("seed", [20261115])
def test_every_acknowledged_job_ends_once_although_the_hall_is_killed(hall: HallProcess, seed: int) -> None:
    promises = asyncio.run(kill_rounds(hall, seed, ROUNDS, alive_s=(0.02, 0.8)))
    assert len(promises.created) > 50 * ROUNDS, "too little was promised to prove anything"
