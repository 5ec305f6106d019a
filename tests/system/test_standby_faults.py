"""Small runs of tests/soak/cluster.py: several halls on PostgreSQL keep their promises under every fault.

Each has a PostgreSQL and halls of its own, and takes up to a minute: they are a part of `make soak`.
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

from stage.needs import skip_without_networks

RUNNER = Path(__file__).parents[1] / "soak" / "cluster.py"
LIVE = 300

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]


def play(name: str, rounds: int) -> dict[str, Any]:
    """The verdict of a scenario."""
    command = [sys.executable, str(RUNNER), name, "--rounds", str(rounds), "--live", str(LIVE)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": CODE}
    )
    assert done.returncode == 0, done.stderr[-6000:]
    verdict: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])[name]
    return verdict


def test_clients_and_workers_of_every_dialect_use_a_standby_and_come_again_when_the_active_hall_is_killed() -> (
    None
):
    kept = play("doors", 1)
    assert len(kept["dialects"]) == 8
    assert kept["lost"] == 0


def test_a_hall_that_was_stopped_and_replaced_writes_and_hands_out_nothing_when_it_goes_on() -> None:
    kept = play("stops", 1)
    assert (kept["late_writes"], kept["handed_out_late"]) == (0, 0)


def test_whether_a_commit_is_kept_is_found_out_if_its_connection_is_cut() -> None:
    assert sum(play("cuts", 15)["cuts"].values()) >= 15


def test_one_hall_is_active_while_networks_are_cut_off_from_each_other() -> None:
    skip_without_networks()
    kept = play("networks", 2)
    assert (kept["late_commits"], kept["overlaps"], kept["lost"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "rounds", "found"),
    [
        ("kills", 1, {"kills": 1, "live": LIVE}),
        ("away", 1, {"take_overs": 0}),
        ("switches", 2, {"switches": 2, "lost": 0}),
        ("failover", 1, {"fail_overs": 1, "lost": 0}),
        ("failover-async", 1, {"lost": 0}),
    ],
)
def test_promises_are_kept_under_other_faults(name: str, rounds: int, found: dict[str, object]) -> None:
    assert play(name, rounds).items() >= found.items()


def test_without_the_fence_a_hall_that_was_stopped_writes_late_and_that_is_found_out() -> None:
    assert play("stops-unfenced", 2)["late_writes"] > 0


def test_without_the_fence_a_hall_that_was_cut_off_writes_late_and_that_is_found_out() -> None:
    skip_without_networks()
    assert play("networks-unfenced", 3)["late_commits"] > 0
