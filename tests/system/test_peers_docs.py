"""The examples of docs/peers.md and of the page on WMP, as they stand there, on a real hall."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest
from hall_process import CODE, HallProcess

DOCS: Final = Path(__file__).parents[2] / "docs"
EXAMPLE: Final = re.compile(r"```python\n(.*?)```\n\nprints\n\n((?:    [^\n]*\n)+)", re.DOTALL)
DOORS: Final = {"127.0.0.1:5556": "pingpong", "127.0.0.1:5814": "wmp", "127.0.0.1:7430": "hire"}
FREE: Final = ("127.0.0.1:5815", "127.0.0.1:5600")
"""Where the examples themselves listen."""


def examples(page: str) -> list[tuple[str, str]]:
    return EXAMPLE.findall((DOCS / page).read_text())


class House(HallProcess):
    """The hall of the page, at ports that the system chooses."""

    def __init__(self, folder: Path) -> None:
        doors = [f'[[door]]\ndialect = "{dialect}"\naddress = "127.0.0.1:0"\n' for dialect in DOORS.values()]
        doors[0] += 'frontend = "127.0.0.1:0"\n'
        super().__init__(folder, more="".join(doors))
        self.places: dict[str, str] = dict.fromkeys(FREE, "127.0.0.1:0")
        """Where in truth is what the page says."""

    def _first_line(self) -> bytes:
        line = super()._first_line()
        opened = {(door["dialect"], door["role"]): door["address"] for door in json.loads(line)["doors"]}
        self.places["127.0.0.1:4730"] = opened["gearman", ""]
        self.places["127.0.0.1:5555"] = opened["pingpong", "frontend"]
        for written, dialect in DOORS.items():
            self.places[written] = opened[dialect, "backend" if dialect == "pingpong" else ""]
        return line

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        for written, found in self.places.items():
            program = program.replace(written, found)
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": CODE},
        )


@pytest.mark.parametrize(("page", "count"), [("peers.md", 6), ("protocols/wmp.md", 1)])
def test_every_example_prints_what_it_says(tmp_path: Path, page: str, count: int) -> None:
    found = examples(page)
    assert len(found) == count == (DOCS / page).read_text().count("```python\n")
    with House(tmp_path) as house:
        for program, promised in found:
            ended = house.run(program)
            assert (ended.returncode, ended.stdout) == (0, textwrap.dedent(promised)), ended.stderr
