"""The hall of every test of the Gearman door."""

import pytest

from stage.gearman import GearmanHall


@pytest.fixture
def hall() -> GearmanHall:
    return GearmanHall()
