"""The room that every story of the draft's door is told in."""

import pytest
from draft_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
