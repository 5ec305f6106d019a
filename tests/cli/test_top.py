"""`hall top` in a real terminal: what is on the screen, what its keys do, and what it leaves behind."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Final, Self

import pytest
from hall_process import wait_until
from remote_stage import RemoteStage
from rich.cells import cell_len
from running import ENVIRONMENT, HALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TMUX: Final = shutil.which("tmux") or "tmux"
ENDED: Final = "ended with"
PROMPT: Final = "ready>"


class Screen:
    """A tmux session of its own, with one command."""

    def __init__(self, command: str, width: int, height: int) -> None:
        self._socket = f"hall-test-{uuid.uuid4().hex}"
        self._command = command
        self._size = (str(width), str(height))

    def __enter__(self) -> Self:
        width, height = self._size
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", width, "-y", height, self._command)
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def wait_for(self, pattern: str) -> str:
        """The screen as soon as it has something like this."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [self.text()]
            return re.search(pattern, found[0]) is not None

        wait_until(is_there, f"the screen has {pattern}")
        return found[0]

    def _tmux(self, *words: str) -> str:
        ended = subprocess.run(
            [TMUX, "-L", self._socket, *words], capture_output=True, text=True, timeout=30, check=True
        )
        return ended.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStage]:
    with RemoteStage(tmp_path_factory.mktemp("hall")) as stage:
        stage.fill()
        yield stage


def top(stage: RemoteStage, width: int = 80, height: int = 24) -> Screen:
    environment = {**ENVIRONMENT, "HALL_URL": stage.url, "PYTHONPATH": os.pathsep.join(sys.path)}
    assignments = [f"{name}={shlex.quote(environment[name])}" for name in ("HALL_URL", "PYTHONPATH")]
    command = f"{' '.join(assignments)} {shlex.join([*HALL, 'top', '--interval', '0.25'])}"
    return Screen(f"stty -a > /dev/null; {command}; echo {ENDED} $?; exec sleep 60", width, height)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_screen_shows_queues_aligned_within_the_terminal(stage: RemoteStage, width: int) -> None:
    with top(stage, width) as screen:
        shown = screen.wait_for("q quit")
    lines = shown.splitlines()
    assert max(map(cell_len, lines)) <= width
    heading = next(line for line in lines if line.startswith("  queue"))
    rows = lines[lines.index(heading) + 1 :]
    at = heading.index("ready") + len("ready")
    assert all(row[at - 1].isdigit() for row in rows if row.startswith((">", "  nobody", "  mail")))
    assert "nobody" in shown
    assert "\\x1b[31m"[: width // 10] in shown


def test_keys_pause_a_queue_and_cancel_a_job_after_a_question(stage: RemoteStage) -> None:
    number = stage.submit(b"aaa")
    with top(stage) as screen:
        screen.wait_for("q quit")
        screen.press("s")
        screen.wait_for("sort: name")
        screen.press("j", "k", "p")
        screen.wait_for(r"Queue \S+ is paused")
        screen.press("r")
        screen.wait_for(r"Queue \S+ is not paused")
        screen.press("j")
        screen.wait_for("(?m)^> aaa")
        screen.press("Enter")
        screen.wait_for(f"> {number}")
        screen.press("c")
        screen.wait_for(f"Cancel job {number} of aaa")
        screen.press("n")
        screen.wait_for("c cancel")
        assert stage.peer.ask("job", [number])["state"] == "queued"
        screen.press("c", "y")
        screen.wait_for(f"Job {number} is cancelled")
    assert stage.peer.ask("job", [number])["state"] == "cancelled"


def test_it_follows_the_size_and_gives_the_terminal_back(stage: RemoteStage) -> None:
    with top(stage) as screen:
        screen.wait_for("q quit")
        screen.press("h")
        screen.wait_for("drain, undrain a worker")
        screen.press("Tab")
        screen.wait_for("number  name")
        screen.resize(50, 12)
        shown = screen.wait_for("(?m)^q quit")
        assert len(shown.splitlines()) <= 12
        screen.press("q")
        assert "q quit" not in screen.wait_for(f"{ENDED} 0")


def test_a_signal_gives_the_terminal_back(stage: RemoteStage) -> None:
    with top(stage) as screen:
        screen.wait_for("q quit")
        screen.press("C-c")
        assert "q quit" not in screen.wait_for(f"{ENDED} 130")


def in_a_shell(stage: RemoteStage) -> Screen:
    """A shell with job control, with the variables of `top`."""
    values = {"HALL_URL": stage.url, "PYTHONPATH": os.pathsep.join(sys.path), "PS1": PROMPT}
    assignments = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    return Screen(f"env {' '.join(assignments)} bash --norc --noprofile -i", 80, 24)


def test_it_is_stopped_and_goes_on_in_a_shell(stage: RemoteStage) -> None:
    with in_a_shell(stage) as screen:
        screen.wait_for(PROMPT)
        screen.press(shlex.join([*HALL, "top", "--interval", "0.25"]), "Enter")
        screen.wait_for("q quit")
        for width, height in ((100, 30), (60, 16)):
            screen.press("C-z")
            assert "q quit" not in screen.wait_for("Stopped")
            screen.press("stty -a", "Enter")
            assert re.search(r"(?<!-)icanon", screen.wait_for("icanon")), "the terminal is as it was before"
            screen.press("clear", "Enter")
            screen.resize(width, height)
            screen.press("fg", "Enter")
            shown = screen.wait_for("(?m)^q quit")
            assert max(map(cell_len, shown.splitlines())) <= width
            assert "Stopped" not in shown
        screen.press("q")
        screen.wait_for(PROMPT)
        screen.press("echo code $?", "Enter")
        screen.wait_for("(?m)^code 0")


def test_a_hall_that_goes_away_and_comes_back_is_shown(tmp_path: Path) -> None:
    with RemoteStage(tmp_path) as own, top(own) as screen:
        own.submit(b"kept")
        screen.wait_for("(?m)^> kept")
        own.kill()
        shown = screen.wait_for("The hall does not answer; trying again")
        assert "kept" in shown, "what was seen last stays"
        own.start()
        wait_until(lambda: "does not answer" not in screen.text(), "the hall answers again", 30.0)
        screen.wait_for("(?m)^> kept")
        screen.press("q")
        screen.wait_for(f"{ENDED} 0")


def test_any_size_is_drawn_within_its_lines_and_columns(stage: RemoteStage) -> None:
    with top(stage) as screen:
        screen.wait_for("q quit")
        for width, height in ((20, 5), (200, 50), (40, 3), (80, 24)):
            screen.resize(width, height)
            shown = screen.wait_for(r"\S")
            assert len(shown.splitlines()) <= height
            assert max(map(cell_len, shown.splitlines())) <= width
        screen.wait_for("q quit")
        screen.press("q")
        screen.wait_for(f"{ENDED} 0")


def test_without_a_terminal_it_is_one_line_and_json_works(stage: RemoteStage) -> None:
    refused = stage.command("top")
    assert refused.returncode == 2
    assert refused.stderr.decode().startswith("hall: top needs a terminal")
    [document] = stage.json("top", "--interval", "0.25")
    assert set(document) == {"queues", "jobs", "workers", "busy", "rates"}
    assert document["busy"] == 1
