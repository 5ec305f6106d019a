"""The hall of every test of the draft's door."""

import pytest

from stage.draft import DraftHall


@pytest.fixture
def hall() -> DraftHall:
    return DraftHall()
