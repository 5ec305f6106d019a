"""The hall is killed again and again under a durable load of all dialects, and keeps every promise.

The long run of the same story is tests/soak.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
from every_load import EveryDoor, EveryLoad
from mixed_load import kill_rounds

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS: Final = 6


@pytest.mark.parametrize("seed", [20261115])
@pytest.mark.timeout(300)
def test_every_acknowledged_job_of_every_dialect_ends_once_although_the_hall_is_killed(
    tmp_path: Path, seed: int
) -> None:
    async def story(hall: EveryDoor) -> EveryLoad:
        load = EveryLoad(hall, seed)
        await kill_rounds(load, ROUNDS, alive_s=(0.1, 0.8))
        return load

    with EveryDoor(tmp_path) as hall:
        load = asyncio.run(story(hall))
    load.proves_something(ROUNDS)
