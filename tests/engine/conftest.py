"""The hall of every test of the turn."""

import pytest

from stage.talker import TalkerHall


@pytest.fixture
def hall() -> TalkerHall:
    return TalkerHall()
