"""docs/sdk.md and docs/coming-from.md: every block runs on a real hall, and prints what its page says."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING, Final

import pytest
from foreign import Program, missing_program
from hall_process import HallProcess
from page_blocks import DOCS, Shell, normalized, read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from page_blocks import Block

BLOCKS: Final = {"sdk.md": 23, "coming-from.md": 11}
"""How many blocks of code each page has."""
SERVERS: Final = re.compile(r"hall (?:serve|work \w+|dev \w+)\s*")
"""Blocks that the test runs in its own way."""
FILE: Final = re.compile(r"# (\w+)\.py\n")
"""The first line of a block that is a file."""

RUN_ALL: Final = """
import contextlib, io, json, pathlib

said = []
for program in json.loads(pathlib.Path("programs.json").read_text()):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "a block", "exec"), {"__name__": "__main__"})
    said.append(printed.getvalue())
print(json.dumps(said))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell at a hall of its own, which has a Gearman door and a native one."""
    more = '\n[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n'
    folder = tmp_path / "server"
    folder.mkdir()
    with HallProcess(folder, more=more) as hall:
        gearman, native = hall.ports
        at = f"gearman -h 127.0.0.1 -p {gearman}"
        shell = Shell(tmp_path, {"gearman -f": f"{at} -f", "gearman -w": f"{at} -w"})
        shell.environment |= {
            "HALL_URL": f"hall://127.0.0.1:{native}",
            # The code under test need not be installed, so pytest may not find its plugin by itself.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p hiringhall.pytest_plugin -p no:cacheprovider",
        }
        yield shell


def run_page(shell: Shell, page: str, workers: contextlib.ExitStack) -> None:
    """Write the files of a page, start a worker for each, and run the other blocks."""
    programs: list[Block] = []
    for block in read_blocks(page, "sh", "python"):
        file = FILE.match(block.text)
        if file:
            (shell.folder / f"{file[1]}.py").write_text(block.text)
            if not file[1].startswith("test_"):
                workers.enter_context(worker_of(shell, file[1]))
        elif block.language == "python":
            programs.append(block)
        elif not SERVERS.fullmatch(block.text):
            shell.check(block)
    said = run_programs(shell, programs)
    assert said == [block.printed or [] for block in programs]


def run_programs(shell: Shell, programs: list[Block]) -> list[list[str]]:
    """What each program prints. They run in one process, one after the other, since a process costs more."""
    (shell.folder / "programs.json").write_text(json.dumps([block.text for block in programs]))
    return [normalized(said) for said in json.loads(shell.run_python(RUN_ALL))]


def worker_of(shell: Shell, module: str) -> Program:
    """`hall work` for a module of the folder."""
    url = shell.environment["HALL_URL"]
    command = [sys.executable, "-m", "hiringhall", "work", module, "--processes", "1", "--json", "--hall", url]
    return Program(command, shell.folder)


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_prints_what_its_page_says(page: str, shell: Shell, need: Callable[[str], None]) -> None:
    need(missing_program("gearman", "rev"))
    with contextlib.ExitStack() as workers:
        run_page(shell, page, workers)


@pytest.mark.parametrize(("page", "count"), BLOCKS.items())
def test_every_block_is_known(page: str, count: int) -> None:
    blocks: list[Block] = read_blocks(page)
    assert len(blocks) == count
    assert (DOCS / page).read_text().count("\n```") == 2 * count
