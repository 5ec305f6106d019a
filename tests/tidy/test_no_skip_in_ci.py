"""The rule of tests/conftest.py bites."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STORY = """
import pytest

def test_asks():
    pytest.skip("no such client")

@pytest.mark.skipif(True, reason="no such server")
def test_marked():
    pass
"""


@pytest.mark.parametrize(("ci", "code", "summary"), [("true", 1, "1 failed, 1 error"), ("", 0, "2 skipped")])
def test_a_skip_is_a_failure_in_ci_and_only_there(tmp_path: Path, ci: str, code: int, summary: str) -> None:
    rule = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(rule.read_text())
    (tmp_path / "test_story.py").write_text(STORY)
    path = os.pathsep.join([str(rule.parent), os.environ.get("PYTHONPATH", "")])  # the rule uses the stage
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, summary in ended.stdout) == (code, True), ended.stdout
