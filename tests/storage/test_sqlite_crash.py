"""A process dies in the middle of its commits: what it had acknowledged is there when the file is opened."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from hiringhall.storage.contract import HistoryQuery, Retention
from hiringhall.storage.sqlite import SqliteStore

ROUNDS = 6
PROGRAM = Path(__file__).with_name("commit_forever.py")


def run_and_kill(path: Path, lines_min: int) -> list[str]:
    """All whole lines that the process wrote before SIGKILL reached it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([path for path in sys.path if path])}
    with subprocess.Popen([sys.executable, PROGRAM, path], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(lines_min)]
        process.kill()
        lines += process.stdout.readlines()
    return [line.decode() for line in lines if line.endswith(b"\n")]


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    path = tmp_path / "hall.db"
    chance = random.Random(7)
    taken: set[int] = set()
    ended: set[int] = set()
    for _ in range(ROUNDS):
        for line in run_and_kill(path, chance.randint(2, 40)):
            (taken if line[0] == "+" else ended).update(map(int, line[1:].split()))
        warned: list[str] = []
        store = SqliteStore(path, Retention(), warned.append)
        loaded = store.load(0)
        (warning,) = warned
        assert "is taken over from another hall" in warning
        live = {row.id for row in loaded.jobs}
        history = {row.id for row in store.history(HistoryQuery(limit=10**9))}
        assert store.count() == (len(live), len(history))
        store.close()
        assert not live & history
        assert taken <= live | history
        assert ended <= history
        assert loaded.fired["tick"].due_us == max(live | history) + 1
