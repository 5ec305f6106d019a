"""The room that every story of the hire doors is told in."""

import pytest
from hire_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
