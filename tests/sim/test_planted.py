"""The simulator proves itself: each planted bug is found within 500 seeds, or 1,000 of several
halls, with and without the core's audit.

A child process runs the sources as plain Python, because compiled classes cannot be changed. It forks for each
bug, so that the simulator is imported once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .planted import BUGS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finder() -> Iterator[subprocess.Popen[str]]:
    """Reads the name of a bug, and prints how it was found and an exit code."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sim", "--planted-from-stdin"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as finder:
        yield finder


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(finder: subprocess.Popen[str], bug: str) -> None:
    assert finder.stdin is not None
    assert finder.stdout is not None
    finder.stdin.write(f"{bug}\n")
    finder.stdin.flush()
    said = ""
    for line in finder.stdout:
        said += line
        if line.startswith("exit "):
            break
    sys.stdout.write(said)
    assert said.startswith(f"{bug}: "), said
    assert said.endswith("exit 0\n"), said
