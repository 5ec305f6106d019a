"""The example for dwork, as its README tells people to run it, on a real hall."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foreign import missing_program
from hall_process import HallProcess

from hiringhall.core.states import DONE

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[2] / "examples" / "dwork"
WAITS_FOR: dict[str, list[str]] = {
    "shop": [],
    "chop": ["shop"],
    "boil": ["shop"],
    "stir": ["chop", "boil"],
    "eat": ["stir"],
}


def run(command: list[str], folder: Path) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_the_example_does_every_task_after_those_it_waits_for(
    tmp_path: Path, need: Callable[[str], None]
) -> None:
    need(missing_program("protoc"))
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*_pb2.py", "__pycache__"))
    serve, generate, start = re.findall(r"^    (.+)$", (folder / "README.md").read_text(), re.MULTILINE)
    assert serve == "../../.venv/bin/hall serve --door dwork=127.0.0.1:6125 &"
    run(generate.split(), folder)
    with HallProcess(tmp_path, door={"dialect": "dwork"}) as hall:
        python, script, address = start.split()
        assert (python, address) == ("python", "tcp://127.0.0.1:6125")
        command = [sys.executable, "-W", "error", script, f"tcp://{hall.address}"]
        for _ in range(2):  # the names of tasks that are done can be used again
            lines = run(command, folder).splitlines()
            assert lines[0] == "created " + " ".join(WAITS_FOR)
            assert lines[-1] == "all is done"
            done = [line.removeprefix("doing ") for line in lines[1:-1]]
            assert sorted(done) == sorted(WAITS_FOR)
            for at, task in enumerate(done):
                assert set(WAITS_FOR[task]) <= set(done[:at])
        rows = hall.history()
    assert sorted(row.key.decode() for row in rows) == sorted(2 * list(WAITS_FOR))
    assert {(row.queue, row.state, row.worker) for row in rows} == {(b"dwork", DONE, b"kitchen")}
