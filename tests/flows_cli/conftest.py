"""The way to the tools of other tests: halls as processes, and a hall for commands."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "system"), str(TESTS / "cli")]
