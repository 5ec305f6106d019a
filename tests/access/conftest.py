"""A gate for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from access_stage import GateStage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GateStage]:
    with monkeypatch.context() as patched:
        stage = GateStage(tmp_path, patched)
        yield stage
        stage.close()
