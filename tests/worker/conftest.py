"""A real hall for the tests of workers, and its client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parents[1] / "system"))

from hall_process import HallProcess

from hiringhall import Hall

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """A hall with a native door, shared by the tests."""
    with HallProcess(tmp_path_factory.mktemp("hall"), door={"dialect": "native"}) as server:
        yield server


@pytest.fixture
def url(server: HallProcess) -> str:
    return f"hall://{server.address}"


@pytest.fixture
def hall(url: str) -> Iterator[Hall]:
    """A client of it."""
    with Hall(url) as hall:
        yield hall
