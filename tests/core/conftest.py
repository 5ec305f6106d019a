"""Every story gets a hall; at its end nobody may have heard what the story did not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hall_recorder import Hall

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hall() -> Iterator[Hall]:
    hall = Hall()
    yield hall
    hall.close()
