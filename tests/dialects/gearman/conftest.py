"""The room that every story of the Gearman door is told in."""

import pytest
from gearman_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
