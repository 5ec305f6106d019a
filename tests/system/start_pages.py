"""Runs the pages of docs/start as they stand there: commands in a shell, programs with this Python.

Only port numbers are replaced. The commands run in a folder of the test. Its `bin` has `hall`, `hall-gearmand`
and `python`, which run the code under test.
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

PAGES: Final = Path(__file__).parents[2] / "docs" / "start"
BLOCK: Final = re.compile(
    r"^```(?P<language>sh|python)\n(?P<text>.*?)^```\n"
    r"(?:\nprints[^\n]*\n\n(?P<printed>(?:    [^\n]*\n)+)|\nshows (?P<shown>[^.]*)\.)?",
    re.DOTALL | re.MULTILINE,
)
COMMAND_S: Final = 60.0
_PROGRAMS: Final = {
    "hall": "-m hiringhall",
    "hall-gearmand": "-c 'from hiringhall.cli.gearmand import main; main()'",
    "python": "-W error",
}


class Block(NamedTuple):
    """One block of code, and what the page says about its output."""

    language: str
    text: str
    printed: list[str] | None
    """The lines that it prints; None: the page says nothing."""
    shown: list[str]
    """Words that are somewhere in its output."""


def read_blocks(page: str) -> list[Block]:
    """All blocks of a page. A fence that is not one of ours is an error."""
    text = (PAGES / page).read_text()
    found = list(BLOCK.finditer(text))
    assert text.count("\n```") == 2 * len(found), f"{page} has a block that is neither sh nor python"
    return [
        Block(
            match["language"],
            match["text"],
            None if match["printed"] is None else normalized(match["printed"]),
            re.findall(r"`([^`]+)`", match["shown"] or ""),
        )
        for match in found
    ]


def normalized(text: str) -> list[str]:
    """Lines, with one space where there are several, or tabs."""
    return [" ".join(line.split()) for line in text.splitlines()]


class Desk:
    """A folder where the commands of a page run. Ports are replaced as `ports` says."""

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        self.folder = folder
        self.ports = dict(ports)
        programs = folder / "bin"
        programs.mkdir()
        for name, arguments in _PROGRAMS.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
            program.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HALL_", "GEARMAN"))}
        self.environment = {**kept, "PYTHONPATH": CODE, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def translate(self, text: str) -> str:
        """The same text with the ports of this test."""
        return re.sub(r"\b\d{4}\b", lambda match: str(self.ports.get(match[0], match[0])), text)

    def run(self, block: Block) -> str:
        """The output of a block that succeeds."""
        shell = ["bash", "-e", "-o", "pipefail", "-c"] if block.language == "sh" else ["python", "-c"]
        ended = subprocess.run(
            [*shell, self.translate(block.text)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert ended.returncode == 0, f"{block.text}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def check(self, block: Block) -> None:
        """Run a block and compare its output with what the page says."""
        if block.shown:
            words = set(block.shown)
            wait_until(
                lambda: words <= set(self.run(block).split()),
                f"{block.text.strip()} shows {', '.join(block.shown)}",
                COMMAND_S,
            )
        else:
            printed = [self.translate(line) for line in block.printed or []]
            assert normalized(self.run(block)) == printed, block.text


class PageHall:
    """The `hall serve` command of a page as a process, on ports that the system chooses."""

    def __init__(self, desk: Desk, block: Block) -> None:
        command = block.text.strip()
        assert command.startswith("hall serve "), command
        self._desk = desk
        self._written = re.findall(r"127\.0\.0\.1:(\d+)", command)
        self._command = [*shlex.split(re.sub(r"(127\.0\.0\.1):\d+", r"\1:0", command)), "--json"]

    def __enter__(self) -> Self:
        errors_path = self._desk.folder / "serve.stderr"
        with errors_path.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._desk.folder,
                env=self._desk.environment,
                executable=self._desk.folder / "bin" / "hall",
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
        self._desk.ports.update(zip(self._written, map(int, opened), strict=True))
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
