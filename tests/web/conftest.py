"""A real hall with its web process, and an HTTP client, for each module of tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parents[1] / "system"))

from web_process import WebHall

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from hiringhall import Hall


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHall]:
    with WebHall(tmp_path_factory.mktemp("hall")) as hall:
        yield hall


@pytest.fixture
def api(hall: WebHall) -> Iterator[httpx.Client]:
    with hall.api() as api:
        yield api


@pytest.fixture
def sdk(hall: WebHall) -> Iterator[Hall]:
    with hall.sdk() as sdk:
        yield sdk
