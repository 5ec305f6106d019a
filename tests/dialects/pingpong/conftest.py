"""The hall of every test of the PING/PONG door."""

import pytest

from stage.pingpong import PingPongHall


@pytest.fixture
def hall() -> PingPongHall:
    return PingPongHall()
