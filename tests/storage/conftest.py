"""Every test that asks for a `house` runs once for each store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from store_house import STORES, House

from hiringhall.storage.contract import Retention

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def retention() -> Retention:
    return Retention()


@pytest.fixture
def house(kind: str, tmp_path: Path, retention: Retention) -> Iterator[House]:
    opened = House(kind, tmp_path, retention)
    yield opened
    opened.store.close()
