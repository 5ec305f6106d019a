"""The page on workers: its programs run as they stand there, and its tables have every option."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import typer
from page_blocks import DOCS, PageHall, Shell, read_blocks
from worker_process import WorkerProcess

from hiringhall.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "workers.md"


def test_the_programs_print_what_the_page_says(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {})
    module, serve, work, *programs = read_blocks(PAGE)
    (tmp_path / "app.py").write_text(module.text)
    with PageHall(shell, serve):
        url = f"hall://127.0.0.1:{shell.places['4731']}"
        shell.environment["HALL_URL"] = url
        command, name, target = shlex.split(work.text)
        assert (command, name) == ("hall", "work")
        with WorkerProcess(url, "--processes", "2", target=target, folder=tmp_path):
            assert len(programs) == 2
            for program in programs:
                shell.check(program)


def test_the_page_has_every_option() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    page = (DOCS / PAGE).read_text()
    for name in ("work", "dev"):
        for option in commands[name].params:
            words = [word for word in option.opts if word.startswith("--") and word != "--help"]
            for word in words:
                assert f"`{word}" in page, f"docs/{PAGE} does not tell of {word} of hall {name}"


def test_the_page_has_the_events_of_the_code() -> None:
    page = (DOCS / PAGE).read_text()
    sources = "".join(
        (DOCS.parent / "src/hiringhall/worker" / name).read_text() for name in ("board.py", "supervisor.py")
    )
    names = set(re.findall(r'\.tell\(\s*"(\w+)"', sources)) | set(re.findall(r'_job\(task, "(\w+)"', sources))
    assert names >= {"serving", "failed", "draining", "stuck"}
    assert sorted(name for name in names if f"`{name}`" not in page) == []
