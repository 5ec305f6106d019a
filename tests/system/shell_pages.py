"""The shell blocks of a page for operators, run as they stand there.

Only the places differ: each path and address that a page names is replaced by one of the test's own.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hall_process import CODE

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
RUN_S: Final = 60.0
_HEADING_OR_BLOCK: Final = re.compile(r"^## ([^\n]+)$|^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    heading: str
    """The section that it is in."""
    language: str
    text: str


def shell_blocks(page: str) -> list[Block]:
    """The blocks marked as shell of a page under docs, in order."""
    return [block for block in marked_blocks(page) if block.language == "sh"]


def marked_blocks(page: str) -> list[Block]:
    """The blocks of a page under docs that are marked with their language, in order."""
    found: list[Block] = []
    heading = ""
    for match in _HEADING_OR_BLOCK.finditer((ROOT / "docs" / page).read_text()):
        if match[1] is not None:
            heading = match[1]
        else:
            found.append(Block(heading, match[2], match[3]))
    return found


class Shell:
    """Runs blocks in a folder, with `hall` and `python3` those of the test."""

    def __init__(self, folder: Path, places: Mapping[str, str]) -> None:
        self.folder = folder
        self.places = dict(places)
        """What a page says, and what stands for it here."""
        programs = folder / "bin"
        programs.mkdir()
        python = shlex.quote(sys.executable)
        for name, command in (("hall", f"{python} -m hiringhall"), ("python3", python)):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            program.chmod(0o755)
        self._environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": CODE,
        }

    def translate(self, text: str) -> str:
        for written, place in self.places.items():
            text = text.replace(written, place)
        return text

    def run(self, text: str) -> str:
        """What the block writes to stdout; it must succeed, each of its commands too."""
        return self._run(["bash", "-eu", "-o", "pipefail", "-c"], text)

    def run_python(self, text: str) -> str:
        """What the program writes to stdout; it must succeed."""
        return self._run([sys.executable, "-W", "error", "-c"], text)

    def _run(self, command: list[str], text: str) -> str:
        ended = subprocess.run(
            [*command, self.translate(text)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        assert ended.returncode == 0, f"{text}\nended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout
