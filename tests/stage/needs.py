"""The programs that a test needs. Where one is missing the test is skipped, which is a failure in CI."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def skip_without(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}; get it with scripts/install-test-clients")


def skip_without_networks() -> None:
    """Where no network namespace can be made, as by a user without rights."""
    skip_without("ip")
    name = f"hall-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"missing: network namespaces, which need root: {made.stderr.strip()}")
    subprocess.run(["ip", "netns", "delete", name], check=True)
