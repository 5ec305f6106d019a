"""`hall bench` measures, prints one screen, and leaves nothing behind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from running import HALL, run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_measurement_has_all_its_numbers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ended = run(HALL, "bench", "--seconds", "0.2", "--folder", str(tmp_path), "--json", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    assert set(found) == {
        *("hiringhall", "python", "cpus"),
        *("fsync_s", "submits_s", "memory_submits_s", "round_trip_ms"),
    }
    assert all(found[name] > 0 for name in found if name.endswith(("_s", "_ms")))
    assert list(tmp_path.iterdir()) == []
