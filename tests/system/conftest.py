"""A real hall for each module of tests, a worker of our own in it, and the rule for missing clients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hall_process import Gearmand, HallProcess, Server
from house_worker import HouseWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Called with what is missing, if anything; see tests/conftest.py for what becomes of it."""

    def check(missing: str) -> None:
        if missing:
            pytest.skip(f"missing: {missing}; get it with scripts/install-test-clients and `make test`")

    return check


@pytest.fixture(scope="session")
def server_kind() -> type[Server]:
    """The hall; or gearmand with HALL_TEST_SERVER=gearmand, to see what of a test the original does."""
    return Gearmand if os.environ.get("HALL_TEST_SERVER") == "gearmand" else HallProcess


@pytest.fixture(scope="module")
def server(server_kind: type[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that leave it as they found it."""
    with server_kind(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def house(server: Server) -> Iterator[HouseWorker]:
    """A worker of ours that does every function of `foreign.py`."""
    with HouseWorker(server.address) as house:
        server.wait_for_workers("gate")
        yield house


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    """A hall for one test, which may do to it what it likes."""
    with HallProcess(tmp_path) as hall:
        yield hall
