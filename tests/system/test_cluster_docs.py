"""The page about several halls: its settings and commands, as they stand there, with two halls."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hall_process import START_S, wait_until
from page_blocks import Shell, read_blocks

from stage.databases import postgres_url
from stage.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "cluster.md"
DATABASE = "postgresql://hall@db.example.org/hall"


def serve(stack: ExitStack, shell: Shell, settings: str, command: str, name: str) -> list[str]:
    """A member in a folder of its own: what it has told about its role."""
    folder = shell.folder / name
    folder.mkdir()
    config = re.sub(r"0\.0\.0\.0:\d+", f"127.0.0.1:{free_port()}", shell.translate(settings))
    (folder / "hall.toml").write_text(config)
    words = [*shlex.split(command), "--json", "--set", f"hall.name={name}", "--set", "hall.folder=files"]
    told = folder / "told"
    with told.open("wb") as out, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=shell.environment,
            executable=shell.folder / "bin" / "hall",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_until(told.read_text, f"{name} opens", START_S)
    return roles(shell, name)


def roles(shell: Shell, name: str) -> list[str]:
    lines = (shell.folder / name / "told").read_text().splitlines()
    return ["standby" if json.loads(line)["standby"] else "active" for line in lines]


def test_the_settings_and_commands_of_the_page_work_as_they_are_written(tmp_path: Path) -> None:
    (settings,) = read_blocks(PAGE, "toml")
    start, listing, switch = read_blocks(PAGE, "sh")
    shell = Shell(tmp_path, {DATABASE: postgres_url(tmp_path)})
    with ExitStack() as stack:
        serve(stack, shell, settings.text, start.text, "first")
        wait_until(lambda: roles(shell, "first")[-1] == "active", "the first is active", START_S)
        assert serve(stack, shell, settings.text, start.text, "second") == ["standby"]
        shell.check(listing)
        assert "second" in shell.run_block(switch)
        wait_until(lambda: roles(shell, "first")[-1] == "standby", "the first stands by", START_S)
        assert roles(shell, "second") == ["standby", "active"]
