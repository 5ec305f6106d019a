"""docs/command.md has every command, and every field that `--json` prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from remote_stage import RemoteStage

from hiringhall.cli.commands import CHANGE, COMMANDS, LOOK

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = (Path(__file__).parents[2] / "docs" / "command.md").read_text(encoding="utf-8")
HEADINGS: Final = re.findall("^### (.*)$", PAGE, re.MULTILINE)
DOCUMENTED_ELSEWHERE: Final = ("serve", "work", "dev", "web", "device", "run", "flow")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStage]:
    with RemoteStage(tmp_path_factory.mktemp("hall")) as stage:
        stage.fill()
        yield stage


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS if entry.name not in DOCUMENTED_ELSEWHERE])
def test_a_command_has_a_heading(name: str) -> None:
    assert any(f"hall {name}" in heading.split(", ") for heading in HEADINGS)


@pytest.mark.parametrize(
    "words",
    [
        ("top", "--interval", "0.25"),
        ("queues",),
        ("jobs",),
        ("job", "failed"),
        ("workers",),
        ("doors",),
        ("version",),
    ],
    ids=" ".join,
)
def test_the_fields_of_json_are_those_of_the_page(stage: RemoteStage, words: tuple[str, ...]) -> None:
    [first, *_] = stage.json(*[str(stage.ids.get(word, word)) for word in words])
    names = set(re.findall(r"`\"?([a-z_]+)\"?`", PAGE)) | set(re.findall(r"\"([a-z_]+)\"", PAGE))
    assert {name for name in first if not name.endswith("_base64")} <= names


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS if entry.panel in {LOOK, CHANGE}])
def test_a_command_that_looks_or_changes_has_json(stage: RemoteStage, name: str) -> None:
    assert "--json" in stage.run(name, "-h").stdout
