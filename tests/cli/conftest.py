"""Two small certificate authorities, and the way to the tools of the system tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "system"))

from stage.authority import Authority, make_authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the hall does not know."""
    return make_authority(tmp_path_factory.mktemp("stranger"), "theirs")
