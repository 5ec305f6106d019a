"""Somebody pauses, resumes and runs schedules at the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from running import HALL, Running, run

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

CONFIG = '[[schedule]]\nname = "filed"\nqueue = "q"\nevery = "1h"\n'


def schedule(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(HALL, "schedule", *words, cwd=folder)


def listed(folder: Path) -> list[dict[str, object]]:
    ended = schedule(folder, "list", "--json")
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_schedule_is_paused_and_resumed_while_no_hall_is_running(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG)
    schedule(tmp_path, "add", "often", "--queue", "q", "--every", "1h")
    for name in ("often", "filed"):
        ended = schedule(tmp_path, "pause", name)
        assert ended.returncode == 0, ended.stderr
        assert f'schedule "{name}" is paused; no hall is running' in ended.stdout
    assert [(line["paused"], line["next"]) for line in listed(tmp_path)] == [(True, [])] * 2
    assert "paused" in schedule(tmp_path, "list").stdout
    assert "is paused already" in schedule(tmp_path, "pause", "often").stdout
    assert "fires again" in schedule(tmp_path, "resume", "often").stdout
    assert "is not paused" in schedule(tmp_path, "resume", "often").stdout
    assert [line["paused"] for line in listed(tmp_path)] == [True, False]
    ended = schedule(tmp_path, "pause", "oftn")
    assert (ended.returncode, "did you mean often?" in ended.stderr) == (1, True)
    ended = schedule(tmp_path, "run", "often")
    assert (ended.returncode, "no hall is running" in ended.stderr) == (1, True)


def test_a_running_hall_is_told_of_a_pause_and_runs_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text(CONFIG + '[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n')
    with Running(HALL, "serve", "--json", cwd=tmp_path) as hall:
        hall.opened()
        assert "was notified" in schedule(tmp_path, "pause", "filed").stdout
        ended = schedule(tmp_path, "run", "filed")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.startswith('schedule "filed" was run: job ')
        ended = schedule(tmp_path, "run", "nobody")
        assert (ended.returncode, 'there is no schedule "nobody"' in ended.stderr) == (1, True)
