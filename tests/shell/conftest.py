"""A real hall for the tests of shell jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path += [str(Path(__file__).parents[1] / name) for name in ("system", "worker")]

from hall_process import HallProcess
from shell_stage import ShellStage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """A hall with a native door, shared by the tests."""
    with HallProcess(tmp_path_factory.mktemp("hall"), door={"dialect": "native"}) as server:
        yield server


@pytest.fixture
def stage(server: HallProcess, tmp_path: Path) -> Iterator[ShellStage]:
    """A client of it, and a queue of this test alone."""
    with ShellStage(server.port, tmp_path) as stage:
        yield stage
