import pytest
from gearman_room import Room


@pytest.fixture
def room() -> Room:
    return Room()
