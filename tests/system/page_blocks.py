"""Runs the code blocks of the pages under docs as they are written: commands in a shell, programs in Python.

Only places differ: each path, address and port that a page names is replaced by one of the test's own. The
blocks run in a folder of the test. Its `bin` has `hall`, `hall-gearmand` and `python`, which run the code under
test.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from hall_process import CODE, START_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
COMMAND_S: Final = 60.0
_HEADING_OR_BLOCK: Final = re.compile(
    r"^## (?P<heading>[^\n]+)$|"
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$"
    r"(?:\n\nprints[^\n]*\n\n(?P<printed>(?:    [^\n]*\n)+)|\n\nshows (?P<shown>[^.]*)\.)?",
    re.DOTALL | re.MULTILINE,
)
_PROGRAMS: Final = {
    "hall": "-m hiringhall",
    "hall-gearmand": "-c 'from hiringhall.cli.gearmand import main; main()'",
    "python": "-W error",
    "python3": "-W error",
}


class Block(NamedTuple):
    """One block of code, and what the page says about its output."""

    heading: str
    """The section that it is in."""
    language: str
    text: str
    printed: list[str] | None = None
    """The lines that it prints; None: the page says nothing."""
    shown: tuple[str, ...] = ()
    """Words that are somewhere in its output."""


def read_blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of a page that are marked with one of these languages, or with any, in order."""
    found: list[Block] = []
    heading = ""
    for match in _HEADING_OR_BLOCK.finditer((DOCS / page).read_text()):
        if match["heading"] is not None:
            heading = match["heading"]
        elif not languages or match["language"] in languages:
            printed = None if match["printed"] is None else normalized(match["printed"])
            shown = tuple(re.findall(r"`([^`]+)`", match["shown"] or ""))
            found.append(Block(heading, match["language"], match["text"], printed, shown))
    return found


def normalized(text: str) -> list[str]:
    """Lines, with one space where there are several, or tabs."""
    return [" ".join(line.split()) for line in text.splitlines()]


class Shell:
    """A folder where the blocks of a page run."""

    def __init__(self, folder: Path, places: Mapping[str, str]) -> None:
        self.folder = folder
        self.places = dict(places)
        """What a page says, and what replaces it here."""
        programs = folder / "bin"
        programs.mkdir()
        for name, arguments in _PROGRAMS.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
            program.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HALL_", "GEARMAN"))}
        self.environment = {**kept, "PYTHONPATH": CODE, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def translate(self, text: str) -> str:
        """The same text with the places of this test."""
        for written, place in self.places.items():
            text = re.sub(rf"(?<!\w){re.escape(written)}(?!\w)", place.replace("\\", r"\\"), text)
        return text

    def run(self, text: str) -> str:
        """The output of shell commands. Each of them must succeed."""
        return self._run(["bash", "-eu", "-o", "pipefail", "-c"], text)

    def run_python(self, text: str) -> str:
        """The output of a program, which must succeed."""
        return self._run(["python", "-c"], text)

    def run_block(self, block: Block) -> str:
        return (self.run if block.language == "sh" else self.run_python)(block.text)

    def check(self, block: Block) -> None:
        """Run a block and compare its output with what the page says."""
        if block.shown:
            words = set(block.shown)
            wait_until(
                lambda: words <= set(self.run_block(block).split()),
                f"{block.text.strip()} shows {', '.join(block.shown)}",
                COMMAND_S,
            )
        else:
            printed = [self.translate(line) for line in block.printed or []]
            assert normalized(self.run_block(block)) == printed, block.text

    def _run(self, command: list[str], text: str) -> str:
        ended = subprocess.run(
            [*command, self.translate(text)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert ended.returncode == 0, f"{text}\nended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        return ended.stdout


class PageHall:
    """The `hall serve` command of a page as a process, on ports that the system chooses."""

    def __init__(self, shell: Shell, block: Block) -> None:
        command = block.text.strip()
        assert command.startswith("hall serve "), command
        self._shell = shell
        self._written = re.findall(r"127\.0\.0\.1:(\d+)", command)
        self._command = [*shlex.split(re.sub(r"(127\.0\.0\.1):\d+", r"\1:0", command)), "--json"]

    def __enter__(self) -> Self:
        errors_path = self._shell.folder / "serve.stderr"
        with errors_path.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._shell.folder,
                env=self._shell.environment,
                executable=self._shell.folder / "bin" / "hall",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_S)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self._stop()
            raise AssertionError(f"the hall did not open:\n{errors_path.read_text()}")
        opened = [door["address"].rpartition(":")[2] for door in json.loads(line)["doors"]]
        self._shell.places.update(zip(self._written, opened, strict=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
