"""Random and mutated frames: see `native_fuzz`, which also runs alone and for longer."""

from __future__ import annotations

import pytest
from native_fuzz import Fuzz

FRAMES = 3000


@pytest.mark.parametrize("seed", range(4))
def test_honest_peers_are_served_beside_random_and_mutated_frames(seed: int) -> None:
    fuzz = Fuzz(seed)
    fuzz.run(FRAMES)
    assert fuzz.closed > 100
