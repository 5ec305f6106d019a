"""Small runs of tests/soak/cluster.py: several halls on PostgreSQL keep their promises under every fault.

They wait more than they compute, so they run side by side, each with a PostgreSQL and halls of its own.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "soak"))

import cluster

SMALL = {"kills": 1, "stops": 1, "stops-unfenced": 1, "cuts": 15, "failover": 1}
"""How many rounds of each."""


@pytest.mark.timeout(400)
def test_promises_are_kept_under_every_kind_of_fault_and_not_without_the_fence() -> None:
    with ThreadPoolExecutor(len(SMALL)) as pool:
        played = {
            name: pool.submit(cluster.play, name, 1, rounds, 300, quiet=True) for name, rounds in SMALL.items()
        }
    kept: dict[str, Any] = {name: each.result() for name, each in played.items()}
    assert kept["kills"]["kills"] == 1
    assert kept["kills"]["live"] == 300
    assert kept["stops"]["late_writes"] == 0
    assert kept["stops-unfenced"]["late_writes"] > 0
    assert sum(kept["cuts"]["cuts"].values()) >= 15
    assert kept["failover"]["lost"] == 0
