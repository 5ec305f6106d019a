"""Two rules for the whole suite: a test that lacks something says so and is skipped, which in CI is a failure;
and nothing is wrong with an example that a busy machine took long for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped in CI: {reason}"
    return report
