"""The pytest plugin of hiringhall: the fixture `hall_stage`. pytest finds it where hiringhall is installed.

Invariant: who does not use the fixture pays nothing: no part of the hall is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.testing import Stage


@pytest.fixture
def hall_stage() -> Iterator[Stage]:
    """A hall in memory in the place of the real one, for every `Hall` of the program: see docs/sdk.md."""
    from hiringhall.testing import use  # noqa: PLC0415 (it imports the hall)

    with use() as stage:
        yield stage
