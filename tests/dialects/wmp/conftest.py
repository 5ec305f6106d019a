"""The room that every story of the WMP door is told in."""

import pytest
from wmp_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
