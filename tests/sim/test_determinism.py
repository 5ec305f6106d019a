"""One seed, one run: the log is the same to the byte, whatever the hashes of the process are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .clusterworld import CLUSTER_SEEDS_FROM
from .runs import play
from .scenario import Run

ROOT = Path(__file__).parents[2]


def _digest(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--seed", "0", "--seeds", "40"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()[-1]


def test_same_log_under_any_hash_seed() -> None:
    digests = [_digest(hash_seed) for hash_seed in ("0", "1", "4711")]

    assert digests[0].startswith("digest ")
    assert digests == [digests[0]] * 3


def test_same_log_in_one_process() -> None:
    seeds = [*range(5), *range(CLUSTER_SEEDS_FROM, CLUSTER_SEEDS_FROM + 5)]
    assert [play(seed) for seed in seeds] == [play(seed) for seed in seeds]


def test_seeds_differ() -> None:
    logs = []
    for seed in range(5):
        run = Run(seed)
        run.play()
        logs.append(tuple(run.world.log))

    assert len(set(logs)) == 5
