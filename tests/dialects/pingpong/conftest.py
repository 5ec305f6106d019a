"""The room that every story of the PING/PONG door is told in."""

import pytest
from pingpong_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
