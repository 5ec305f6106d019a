"""Small runs of tests/soak/cluster.py: several halls on PostgreSQL keep their promises under every fault.

They wait more than they compute, so they run side by side, each with a PostgreSQL and halls of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hall_process import CODE

RUNNER = Path(__file__).parents[1] / "soak" / "cluster.py"
SMALL = {"kills": 1, "stops": 1, "stops-unfenced": 1, "cuts": 15, "failover": 1}
"""How many rounds of each."""
LIVE = 300


def start(name: str, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(RUNNER), name, "--rounds", str(rounds), "--live", str(LIVE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": CODE},
    )


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_promises_are_kept_under_every_kind_of_fault_and_not_without_the_fence() -> None:
    running = {name: start(name, rounds) for name, rounds in SMALL.items()}
    kept: dict[str, Any] = {}
    try:
        for process in running.values():
            said, progress = process.communicate()
            assert process.returncode == 0, progress[-6000:]
            kept |= json.loads(said.splitlines()[-1])
    finally:
        for process in running.values():
            if process.poll() is None:
                process.terminate()  # it ends its halls
                process.communicate()
    assert (kept["kills"]["kills"], kept["kills"]["live"]) == (1, LIVE)
    assert kept["stops"]["late_writes"] == 0
    assert kept["stops-unfenced"]["late_writes"] > 0
    assert sum(kept["cuts"]["cuts"].values()) >= SMALL["cuts"]
    assert kept["failover"]["lost"] == 0
