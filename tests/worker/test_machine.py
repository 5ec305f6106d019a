"""What `--resource auto` finds, and how it goes with what was given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from hiringhall.amounts import BadAmounts, parse_totals
from hiringhall.worker.machine import found_resources, resources_of

if TYPE_CHECKING:
    from pathlib import Path


def test_the_cores_and_the_memory_of_this_machine_are_found() -> None:
    found = {name: amount for name, amount, _ in parse_totals(found_resources(environment={}).encode())}
    assert 0 < found[b"cpus"] <= len(os.sched_getaffinity(0)) * 1000
    assert found[b"mem"] > 1 << 20


def test_the_limits_of_a_control_group_count(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text(f"{64 << 20}\n")
    assert found_resources(tmp_path, tmp_path / "none", {}) == "cpus=0.5 mem=64M"
    (tmp_path / "cpu.max").write_text("max 100000\n")
    cores = len(os.sched_getaffinity(0))
    assert found_resources(tmp_path, tmp_path / "none", {}) == f"cpus={cores} mem=64M"


def test_the_gpus_are_those_of_the_driver_or_those_that_cuda_may_use(tmp_path: Path) -> None:
    gpus = tmp_path / "gpus"
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (gpus / name).mkdir(parents=True)
    assert found_resources(None, gpus, {}).endswith(" gpus=[0,1]")
    assert found_resources(None, gpus, {"CUDA_VISIBLE_DEVICES": "3, GPU-5"}).endswith(" gpus=[3,GPU-5]")
    assert "gpus" not in found_resources(None, gpus, {"CUDA_VISIBLE_DEVICES": ""})


def test_what_is_given_goes_before_what_is_found() -> None:
    assert resources_of([]) == ""
    assert resources_of(["cpus=2", "licence=1"]) == "cpus=2 licence=1"
    found = resources_of(["auto", "cpus=2", "gpus=[7]"])
    assert found.startswith("cpus=2 gpus=[7] mem=")
    with pytest.raises(BadAmounts, match="cpus"):
        resources_of(["cpus=some"])
