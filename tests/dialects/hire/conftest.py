"""The hall of every test of the hire doors."""

import pytest

from stage.hire import HireHall


@pytest.fixture
def hall() -> HireHall:
    return HireHall()
