"""Which files have changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hiringhall.worker.reloading import Files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_change_is_told_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("1")
    second.write_text("2")
    files = Files()
    files.watch([str(first), str(second)])
    assert files.changed() == []
    os.utime(first, ns=(1, 1))
    assert files.changed() == [str(first)]
    assert files.changed() == []


def test_a_file_that_goes_and_comes_has_changed_twice(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("1")
    files = Files()
    files.watch([str(file)])
    file.unlink()
    assert files.changed() == [str(file)]
    file.write_text("1")
    assert files.changed() == [str(file)]


def test_watching_again_does_not_hide_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("1")
    files = Files()
    files.watch([str(file)])
    file.write_text("12")
    files.watch([str(file)])
    assert files.changed() == [str(file)]
