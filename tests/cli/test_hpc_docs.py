"""The blocks of docs/hpc.md, as they stand there, with workers from a stand-in for Slurm."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from page_blocks import DOCS, PageHall, Shell, read_blocks
from running import DEADLINE_S
from slurm_stage import SlurmPrograms

from hiringhall.cli.commands import COMMANDS
from hiringhall.cli.loading import load
from hiringhall.cli.slurm.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (DOCS / "hpc.md").read_text(encoding="utf-8")
WORKERS: Final = ("hall", "work", "--shell", "--slots", "2", "--slurm", "--poll", "1s", "--end-workers")


def test_the_blocks_print_what_the_page_says(tmp_path: Path) -> None:
    slurm = SlurmPrograms(tmp_path / "slurm")
    (tmp_path / "page").mkdir()
    shell = Shell(tmp_path / "page", {})
    shell.environment |= {**slurm.environment(shell.environment["PATH"]), "HALL_WEB_ENABLED": "false"}
    alone, serving, planned, *rest = read_blocks("hpc.md", "sh")
    [file] = read_blocks("hpc.md", "yaml")
    (shell.folder / "study.yaml").write_text(file.text, encoding="utf-8")
    shell.check(alone)
    with PageHall(shell, serving):
        shell.environment["HALL_URL"] = shell.translate("hall://127.0.0.1:4731")
        shell.check(planned)
        manager = subprocess.Popen(
            WORKERS,
            cwd=shell.folder,
            env=shell.environment,
            executable=shell.folder / "bin" / "hall",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert [block.heading for block in rest] == ["Workers from Slurm", "A flow"]
            for block in rest:
                shell.check(block)
            manager.send_signal(signal.SIGTERM)
            assert manager.wait(DEADLINE_S) == 0
        finally:
            if manager.poll() is None:
                manager.kill()
                manager.wait()
            slurm.kill_all()


def test_the_page_has_every_option() -> None:
    [work] = [load(entry) for entry in COMMANDS if entry.name == "work"]
    names = {parameter.opts[0] for parameter in work.params if parameter.name in OPTIONS}
    table = PAGE.partition("| option |")[2].partition("\n\n")[0]
    assert names <= set(re.findall(r"^\| `(--[\w-]+)", table, re.MULTILINE))


def test_the_page_has_every_event() -> None:
    source = (DOCS.parent / "src/hiringhall/cli/slurm").glob("*.py")
    told = {name for file in source for name in re.findall(r'\.event\("(\w+)"', file.read_text())}
    table = PAGE.partition("| event |")[2].partition("\n\n")[0]
    described = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert told == described
