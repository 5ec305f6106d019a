"""A real hall for each module of tests, with a native door, and a worker for its functions."""

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with HallProcess(tmp_path_factory.mktemp("hall"), door={"dialect": "native"}) as server:
        yield server


@pytest.fixture
def url(server: HallProcess) -> str:
    return f"hall://{server.address}"


@pytest.fixture
def hall(url: str) -> Iterator[Hall]:
    with Hall(url) as hall:
        yield hall
