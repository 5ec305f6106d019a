"""Any module of the compiled packages may be the first that a program imports.

Compiled, a module whose types are not there yet does not raise: it takes the process down.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "hiringhall"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for folder in ("core", "dialects", "engine")
    for path in (PACKAGE / folder).rglob("*.py")
)


@pytest.mark.parametrize("module", MODULES)
def test_it_can_come_first(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr or f"it ended by signal {-done.returncode}"
