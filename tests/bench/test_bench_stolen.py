"""How much CPU time the host took during a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from stolen import StolenTime


def test_the_share_is_of_what_was_wanted_since_then(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 9000 10 0 5 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    stolen = StolenTime(stat)
    assert stolen.share == 0.0
    stat.write_text("cpu  150 0 70 9900 90 0 15 27 40 0\n")
    assert stolen.share == pytest.approx(20 / (50 + 20 + 10 + 20))


@pytest.mark.parametrize("text", ["", "cpu  100 0 50 9000\n", "cpu  a b\n"])
def test_where_the_kernel_does_not_tell_nothing_is_known(tmp_path: Path, text: str) -> None:
    stat = tmp_path / "stat"
    stat.write_text(text)
    assert StolenTime(stat).share == 0.0


def test_without_the_file_nothing_is_known(tmp_path: Path) -> None:
    assert StolenTime(tmp_path / "none").share == 0.0
