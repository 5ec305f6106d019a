"""Every command: with hostile names, in narrow terminals, without colour, into a closed pipe, and as JSON."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from command_server import CommandServer
from every_command import CASES, NAME, Case, Setting
from remote_stage import RemoteStage
from rich.cells import cell_len
from running import ENVIRONMENT

from hiringhall.cli.commands import COMMANDS, LOOK, Group
from hiringhall.cli.loading import load

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS: Final = Path(__file__).parents[2] / "docs"
ENTRIES: Final = {
    " ".join([*([each.name] if isinstance(each, Group) else []), entry.name]): entry
    for each in COMMANDS
    for entry in (each.entries if isinstance(each, Group) else (each,))
}
CONTROLS: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
STYLES: Final = re.compile("\x1b\\[[0-9;]*m")
"""What a command may send to a terminal that has colours."""
BAR: Final = re.compile("\r|\x1b\\[(?:\\?25[lh]|[0-9]*A|2?K)")
"""What a progress bar sends to any terminal."""
ON_A_SCREEN: Final = {"top", "work", "dev"}
"""These move the cursor of a terminal."""


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with (
        RemoteStage(tmp_path_factory.mktemp("hall")) as stage,
        closing(Setting(stage, tmp_path_factory.mktemp("cwd"))) as setting,
    ):
        yield setting


@pytest.fixture(scope="module")
def server(setting: Setting) -> Iterator[CommandServer]:
    with CommandServer({**ENVIRONMENT, "HALL_URL": setting.stage.url, "PAGER": "cat"}) as server:
        yield server


def words_of(case: Case, setting: Setting, *more: str) -> list[str]:
    return [*case.command.split(), *more, *case.words(setting)]


def test_every_command_has_a_case() -> None:
    assert sorted(case.command for case in CASES) == sorted(ENTRIES)


@pytest.mark.parametrize("command", ENTRIES)
def test_every_command_has_json(command: str) -> None:
    options = [option for parameter in load(ENTRIES[command]).params for option in parameter.opts]
    assert "--json" in options


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command)
def test_json_has_the_documented_fields_and_no_control_character(
    setting: Setting, server: CommandServer, case: Case
) -> None:
    words = words_of(case, setting, "--json")
    ended = server.piped(words, setting.folder, until=case.until_json.encode())
    assert ended.code == 0, ended.stderr.decode()
    text = ended.stdout.decode()
    assert CONTROLS.search(text) is None
    fields, *others = [
        {field.removesuffix("_base64") for field in json.loads(line)} for line in text.splitlines()
    ]
    assert fields >= set(case.fields) if case.command == "history" else fields == set(case.fields)
    page = (DOCS / case.page).read_text(encoding="utf-8")
    undocumented = [name for name in fields.union(*others) if not re.search(f'["`]{name}["`]', page)]
    assert undocumented == []


@pytest.mark.parametrize(("width", "coloured"), [(40, False), (80, True)], ids=["40", "80"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command)
def test_no_control_character_of_a_name_reaches_the_terminal(
    setting: Setting, server: CommandServer, case: Case, width: int, coloured: bool
) -> None:
    words = words_of(case, setting)
    more = {} if coloured else {"NO_COLOR": "1"}
    ended = server.on_a_terminal(words, setting.folder, width, until=case.until.encode(), more=more)
    text = ended.stdout.decode()
    assert ended.code == (143 if case.command == "top" else 0), text
    assert "Traceback" not in text
    if case.command in ON_A_SCREEN:
        assert "\x1b[2J\x1b]" not in text
        assert "\x1b]" not in text
        assert re.search("[\x07\x7f-\x9f]", text) is None
        return
    plain = BAR.sub("\n", STYLES.sub("", text) if coloured else text)
    assert CONTROLS.search(plain) is None
    if case.fits:
        assert max(map(cell_len, plain.splitlines())) <= width, plain


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.command not in {"top", "work", "dev"}],
    ids=lambda case: case.command,
)
def test_a_closed_pipe_ends_a_command_with_one_line_at_most(
    setting: Setting, server: CommandServer, case: Case, flags: tuple[str, ...]
) -> None:
    ended = server.into_a_closed_pipe(words_of(case, setting, *flags), setting.folder)
    assert ended.code == 1
    said = ended.stderr.decode()
    assert "Traceback" not in said
    told = [line for line in said.splitlines() if line.startswith("hall: ")]
    assert len(told) == (0 if ENTRIES[case.command].panel == LOOK else 1), said


def test_top_ends_at_a_closed_pipe_or_says_that_it_needs_a_terminal(
    setting: Setting, server: CommandServer
) -> None:
    ended = server.into_a_closed_pipe(["top", "--json", "--interval", "0.25"], setting.folder)
    assert (ended.code, ended.stderr) == (1, b"")
    ended = server.into_a_closed_pipe(["top"], setting.folder)
    assert (ended.code, ended.stderr.count(b"\n")) == (2, 1)


@pytest.mark.parametrize("command", ["work", "dev"])
def test_a_worker_goes_on_when_nobody_reads_what_it_prints(
    setting: Setting, server: CommandServer, command: str
) -> None:
    [case] = [case for case in CASES if case.command == command]
    words = words_of(case, setting, "--json")
    (setting.folder / f"{words[2]}.py").write_text(
        "import sys\n"
        "from hiringhall import Hall\n"
        "hall = Hall()\n"
        "sys.stderr.write('imported')\n"
        "@hall.job\n"
        "def nothing() -> None: ...\n",
        encoding="utf-8",
    )
    ended = server.into_a_closed_pipe(words, setting.folder, until=b"imported")
    assert (ended.code, b"Traceback" in ended.stderr) == (0, False)


@pytest.mark.parametrize("command", ENTRIES)
def test_a_refused_name_is_told_without_its_control_characters(
    setting: Setting, server: CommandServer, command: str
) -> None:
    ended = server.on_a_terminal([*command.split(), f"--nothing{NAME}", NAME], setting.folder, 40)
    text = ended.stdout.decode()
    assert ended.code == 2
    assert CONTROLS.search(STYLES.sub("", text)) is None


def test_a_hall_that_does_not_stand_by_is_told_without_its_control_characters(
    setting: Setting, server: CommandServer
) -> None:
    words = ["switch-over", "--data", setting.database.url, "--to", NAME]
    ended = server.on_a_terminal(words, setting.folder, 40)
    text = ended.stdout.decode()
    assert ended.code == 1
    assert "no hall stands by as" in text
    assert CONTROLS.search(STYLES.sub("", text)) is None
