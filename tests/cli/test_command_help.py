"""Every command explains itself with -h and --help, in any width, and completes what is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer
from rich.cells import cell_len
from running import DEADLINE_S, ENVIRONMENT, HALL, run
from typer.testing import CliRunner

from hiringhall.cli.commands import CHANGE, DATA, LOOK, RUN, SETTINGS, Entry
from hiringhall.cli.commands import COMMANDS as COMMAND_TABLE
from hiringhall.cli.loading import load
from hiringhall.cli.main import app
from hiringhall.config import template
from hiringhall.records import STATES
from hiringhall.server import DOOR_SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

LISTINGS: Final = ("history", "schedule list", "config", "check-config")


def every_command(group: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of each command and of each group, from the app itself."""
    found = [path]
    for name, command in getattr(group, "commands", {}).items():
        found += every_command(command, (*path, name))
    return found


COMMANDS: Final = every_command(typer.main.get_command(app))
ENTRIES: Final = [
    entry for each in COMMAND_TABLE for entry in ([each] if isinstance(each, Entry) else each.entries)
]


def helped(words: tuple[str, ...], width: int = 80) -> str:
    ended = CliRunner().invoke(app, words, env={"COLUMNS": str(width)}, prog_name="hall")
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


def test_the_commands_are_found() -> None:
    assert ("schedule", "add") in COMMANDS
    assert ("serve",) in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_h_is_help_without_type_placeholders_in_any_width(words: tuple[str, ...]) -> None:
    text = helped((*words, "--help"))
    assert f"Usage: {' '.join(('hall', *words))} " in text
    assert helped((*words, "-h")) == text
    assert "{" not in text.strip().partition("\n\n")[0]
    assert re.findall(r"<[a-z ]+>", text) == []
    for width in (60, 80):
        narrow = helped((*words, "-h"), width)
        assert max(map(cell_len, narrow.splitlines())) <= width
        assert "…" not in narrow, "an option or its text is cut"


@pytest.mark.parametrize("words", [(), ("flow",), ("schedule",)], ids=" ".join)
def test_a_group_without_a_command_shows_its_help_as_wrong_use(words: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, prog_name="hall")
    assert (ended.exit_code, ended.stdout) == (2, helped((*words, "-h")))


@pytest.mark.parametrize("words", LISTINGS)
def test_every_listing_has_json(words: str) -> None:
    assert "--json" in helped((*words.split(), "-h"))


def test_the_settings_are_listed_as_json(tmp_path: Path) -> None:
    printed = run(HALL, "config", "--json", cwd=tmp_path)
    facts = [json.loads(line) for line in printed.stdout.splitlines()]
    assert len(facts) == len(list(template.rows(DOOR_SETTINGS)))
    found = {(fact["setting"], fact["dialect"]): fact for fact in facts}
    assert found["hall.storage", None] == {
        "setting": "hall.storage",
        "dialect": None,
        "variable": "HALL_STORAGE",
        "default": '"sqlite"',
        "takes": 'one of "sqlite", "memory"',
        "description": found["hall.storage", None]["description"],
    }
    assert found["door.insecure", "gearman"]["takes"] == "true or false"


def test_a_check_of_the_settings_has_json(tmp_path: Path) -> None:
    (tmp_path / "hall.toml").write_text('[hall]\ndata = "d"\n', encoding="utf-8")
    printed = run(HALL, "check-config", "--json", "--door", "gearman=127.0.0.1:4731", cwd=tmp_path)
    assert json.loads(printed.stdout) == {
        "file": "hall.toml",
        "doors": [{"dialect": "gearman", "address": "127.0.0.1:4731"}],
        "storage": "sqlite",
        "data": "d",
    }


# --- completion


def completed(line: str, tmp_path: Path) -> list[str]:
    """What the completion script of bash is answered for the last word of a line."""
    words = line.split(" ")
    ended = subprocess.run(
        HALL,
        cwd=tmp_path,
        env={
            **ENVIRONMENT,
            "_HALL_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    return ended.stdout.split()


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    assert completed("hall sch", tmp_path) == ["schedule"]
    assert completed("hall schedule ", tmp_path) == ["add", "list", "remove", "pause", "resume", "run"]
    assert completed("hall history --no", tmp_path) == ["--no-pager"]
    assert completed("hall history --state ", tmp_path) == list(STATES)
    assert completed("hall history --format c", tmp_path) == ["csv"]
    assert completed("hall serve --storage ", tmp_path) == ["sqlite", "memory"]
    assert completed("hall schedule add x --missed s", tmp_path) == ["skip"]


def test_bash_completes_after_the_completion_was_installed(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "hall"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hiringhall "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
hall --install-completion || exit 1
hall --show-completion >shown || exit 1
. "$HOME/.bashrc"
COMP_WORDS=(hall history --state fa) COMP_CWORD=3
_hall_completion hall
echo "completed: ${COMPREPLY[*]}"
complete -p hall
"""
    environment = {
        **ENVIRONMENT,
        "HOME": str(tmp_path),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "bash completion installed in" in ended.stdout
    assert "completed: failed" in ended.stdout
    assert "-F _hall_completion hall" in ended.stdout
    installed = tmp_path / ".bash_completions" / "hall.sh"
    assert (tmp_path / "shown").read_text().strip() == installed.read_text().strip()


def test_the_help_of_hall_loads_no_command() -> None:
    asked = "import sys; from hiringhall.cli.main import app; app(['--help'], standalone_mode=False); "
    printed = run((sys.executable, "-c", asked + "print(*sys.modules)"))
    loaded = printed.stdout.splitlines()[-1].split()
    assert "hiringhall.cli.commands" in loaded
    assert not {"hiringhall.server", "hiringhall.cli.serve", "hiringhall.sdk.hall", "zmq"} & set(loaded)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.place)
def test_the_line_in_the_help_is_the_beginning_of_the_docstring(entry: Entry) -> None:
    assert load(entry).help.split("\n\n")[0] == entry.summary


def test_every_command_stands_in_a_panel_of_the_help() -> None:
    assert {entry.panel for entry in COMMAND_TABLE} <= {RUN, LOOK, CHANGE, DATA, SETTINGS}
