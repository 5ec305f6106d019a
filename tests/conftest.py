"""Rules for the whole suite: a test that lacks something says so and is skipped, which in CI is a failure;
nothing is wrong with an example that a busy machine took long for; with EXAMPLES=few Hypothesis tries a fifth
as many; and halls have no web unless a test asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

settings.register_profile("unhurried", settings(), deadline=None)
settings.register_profile("few", settings(), deadline=None, max_examples=20)
settings.load_profile("few" if os.environ.get("EXAMPLES") == "few" else "unhurried")

# A hall of a test starts no web process, unless the test asks for it: there are hundreds of halls.
os.environ.setdefault("HALL_WEB_ENABLED", "false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped in CI: {reason}"
    return report
