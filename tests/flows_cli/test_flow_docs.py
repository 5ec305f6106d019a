"""The blocks of docs/flows.md, as they stand there, on a real hall with a worker for commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from flow_stage import FlowStage
from page_blocks import DOCS, Shell, read_blocks

from hiringhall.cli.commands import FLOW
from hiringhall.flows.tasks import TASKS_MAX
from hiringhall.flows.yaml_tasks import TASK_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = (DOCS / "flows.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowStage]:
    with FlowStage(tmp_path_factory.mktemp("hall")) as stage:
        yield stage


def test_the_blocks_print_what_the_page_says(stage: FlowStage) -> None:
    shell = Shell(stage.work, {})
    shell.environment["HALL_URL"] = stage.url
    [file] = read_blocks("flows.md", "yaml")
    stage.file("nightly.yaml", file.text)
    blocks = read_blocks("flows.md", "sh")
    assert len(blocks) == 2
    for block in blocks:
        shell.check(block)
    assert (stage.work / "report").read_text().split() == ["3", "1", "2", "3"]


def test_the_page_has_every_field_of_a_task() -> None:
    table = PAGE.partition("## The fields of a file")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(TASK_FIELDS)


def test_the_page_has_the_json_of_every_command() -> None:
    table = PAGE.partition("| command | `--json` |")[2]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [entry.name for entry in FLOW.entries]


def test_the_page_says_how_many_tasks_a_flow_may_have() -> None:
    assert f"A flow may have {TASKS_MAX:,} tasks" in PAGE
