"""The blocks of docs/faq.md, as they stand there, on a real hall."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from foreign import missing_program
from hall_process import CODE, HallProcess, wait_until

from hiringhall.peers.gearman import Job, ServerError, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE: Final = (Path(__file__).parents[2] / "docs" / "faq.md").read_text()
SECTION: Final = re.compile(r"^## (.*?)$(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```\n(?:\nprints\n\n((?:    [^\n]*\n)+))?", re.DOTALL)
SHOWN: Final = {
    "How do I see what waits and what runs?": ("resize\t", "photo-8", "photo-9"),
    "How do I see failed jobs?": ("photo-7", '"payload": "an image"'),
    "How do I run a job every night?": ("nightly", "30 3 * * *", "Europe/Vienna", "backup"),
}
"""What the shell blocks of a question must show."""


class Block(NamedTuple):
    question: str
    language: str
    text: str
    promised: str


def blocks(language: str) -> list[Block]:
    return [
        Block(question, kind, text, textwrap.dedent(promised))
        for question, section in SECTION.findall(PAGE)
        for kind, text, promised in BLOCK.findall(section)
        if kind == language
    ]


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    """A hall in which one picture has failed, one waits, and one is being worked on."""

    def resize(job: Job) -> bytes:
        if job.unique == b"photo-9":
            closing.wait(300)
        raise ValueError("no disk")

    closing = threading.Event()
    with HallProcess(tmp_path_factory.mktemp("faq")) as hall:
        worker = Worker(hall.address)
        worker.register("resize", resize)
        with worker, hall.client() as client:
            client.submit_background("resize", b"an image", unique="photo-7")
            wait_until(lambda: [row.key for row in hall.history()] == [b"photo-7"], "photo-7 failed")
            client.submit_background("resize", b"an image", unique="photo-9")
            client.submit_background("resize", b"an image", unique="photo-8")
            wait_until(lambda: "photo-9" in said(hall, "hall history --state running"), "photo-9 runs")
            yield hall
            closing.set()


def run(hall: HallProcess, command: list[str]) -> subprocess.CompletedProcess[str]:
    tools = hall.folder / "tools"
    tools.mkdir(exist_ok=True)
    at = f"--host=127.0.0.1 --port={hall.port}"
    programs = {"hall": f"{shlex.quote(sys.executable)} -m hiringhall"}
    programs |= {name: f"{found} {at}" for name in ("gearman", "gearadmin") if (found := shutil.which(name))}
    for name, words in programs.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (tools / name).chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=hall.folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": CODE, "COLUMNS": "200"},
    )


def said(hall: HallProcess, script: str) -> str:
    ended = run(hall, ["bash", "-eu", "-o", "pipefail", "-c", script])
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_block_of_the_page_is_run_here() -> None:
    found = {name: len(blocks(name)) for name in ("sh", "python", "toml")}
    assert found == {"sh": len(SHOWN), "python": 3, "toml": 2}
    assert PAGE.count("```") == 2 * sum(found.values())
    assert 12 <= len(SECTION.findall(PAGE)) <= 18


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.question)
def test_a_shell_block_shows_what_it_is_for(
    hall: HallProcess, need: Callable[[str], None], block: Block
) -> None:
    need(missing_program("bash", "gearadmin"))
    shown = said(hall, block.text)
    assert [word for word in SHOWN[block.question] if word not in shown] == []


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.question)
def test_a_python_block_prints_what_it_says(hall: HallProcess, block: Block) -> None:
    program = block.text.replace("127.0.0.1:4730", hall.address).replace('"hall-data"', repr(hall.place))
    ended = run(hall, [sys.executable, "-W", "error", "-c", program])
    assert (ended.returncode, ended.stdout) == (0, block.promised), ended.stderr
    assert block.promised


@pytest.mark.parametrize("block", blocks("toml"), ids=lambda block: block.question)
def test_settings_of_the_page_are_valid(hall: HallProcess, block: Block) -> None:
    (hall.folder / "page.toml").write_text(block.text)
    said(hall, "hall check-config --config page.toml")


def test_a_second_hall_on_the_same_data_folder_is_refused(hall: HallProcess) -> None:
    ended = run(hall, [sys.executable, "-m", "hiringhall", "serve", "--door", "gearman=127.0.0.1:0"])
    assert ended.returncode == 1
    assert f"process {hall.pid}" in ended.stderr


def test_a_payload_over_64_mib_is_refused_by_name(hall: HallProcess) -> None:
    with hall.client() as client, pytest.raises(ServerError, match="payload_bytes_max"):
        client.submit_background("huge", bytes(64 * 1024 * 1024 + 1))
