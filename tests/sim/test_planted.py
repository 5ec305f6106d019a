"""The simulator proves itself: each planted bug is found within 500 seeds, or 1,000 of several
halls, with and without the core's audit.

A child process runs the sources as plain Python, because compiled classes cannot be changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .planted import BUGS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--planted", bug],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(found.stdout)
    assert found.returncode == 0, found.stdout + found.stderr
