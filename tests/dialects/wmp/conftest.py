"""The hall of every test of the WMP door."""

import pytest

from stage.wmp import WmpHall


@pytest.fixture
def hall() -> WmpHall:
    return WmpHall()
