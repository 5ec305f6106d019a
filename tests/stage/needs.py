"""The programs that a test needs. Where one is missing the test is skipped, which is a failure in CI."""

from __future__ import annotations

import shutil

import pytest


def skip_without(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"missing: {', '.join(missing)}; get it with scripts/install-test-clients")
