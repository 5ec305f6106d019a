"""Rules for the whole suite: a test that lacks something says so and is skipped, which in CI is a failure;
nothing is wrong with an example that a busy machine took long to make or to try; with EXAMPLES=few Hypothesis
tries a fifth as many; halls have no web unless a test asks; and tests of the files of SQLite are left out where
halls keep their data in PostgreSQL.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from hiringhall.core import lanes
from stage.databases import ON_POSTGRES, stop_postgres
from stage.forking import stop_server
from stage.rewriting import rewrite_share

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unhurried", unhurried)
settings.register_profile("few", unhurried, max_examples=20)
settings.load_profile("few" if os.environ.get("EXAMPLES") == "few" else "unhurried")

# A hall of a test starts no web process, unless the test asks for it: there are hundreds of halls.
os.environ.setdefault("HALL_WEB_ENABLED", "false")


@pytest.fixture(scope="session", autouse=True)
def _servers_are_stopped() -> Iterator[None]:
    """Not at the exit of the process: a worker of pytest-xdist ends without it."""
    yield
    stop_server()
    stop_postgres()


def pytest_sessionstart(session: pytest.Session) -> None:
    rewrite_share(session.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if ON_POSTGRES and item.get_closest_marker("sqlite")]
    if lanes.__file__.endswith(".so"):
        left_out += [item for item in items if item.get_closest_marker("plain")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing is skipped in CI: {reason}"
    return report
