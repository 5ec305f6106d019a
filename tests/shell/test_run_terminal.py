"""`hall run` on a terminal: a bar, and no control character of a job."""

from __future__ import annotations

import os
import pty
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shell_stage import ShellStage

BAR = re.compile(r"\[[#.]{20}\] [0-9]/3")


def test_a_bar_is_shown_and_output_is_escaped(stage: ShellStage) -> None:
    main, other = pty.openpty()
    with stage.worker():
        words = (
            "run",
            "--hall",
            stage.url,
            "--queue",
            stage.queue,
            "-k",
            r"printf 'a\033[31mb\007\n'; echo {}",
        )
        process = stage.popen(
            *words, ":::", "1", "2", "\x1b]0;title\x07", stdin=other, stdout=other, stderr=other
        )
        os.close(other)
        said = b""
        while True:
            try:
                said += os.read(main, 65536)
            except OSError:
                # The other side has been closed by everybody.
                break
        assert process.wait(60) == 0
    os.close(main)
    text = said.decode()
    assert BAR.search(text)
    assert text.count(r"a\x1b[31mb\x07") == 3
    assert r"\x1b]0;title\x07" in text
    # What is left are the bar's own sequences.
    assert re.findall("\x1b[^K]{1,3}", text.replace("\x1b[K", "")) == []
    assert "\x07" not in text


def test_arguments_from_a_terminal_are_asked_for(stage: ShellStage) -> None:
    main, other = pty.openpty()
    process = stage.popen("run", "--dry-run", "echo", stdin=other, stdout=-1, stderr=-1)
    os.close(other)
    assert process.stderr is not None
    assert process.stdout is not None
    assert b"Ctrl-D ends them" in process.stderr.readline()
    os.write(main, b"one\n\x04")
    assert process.stdout.read() == b"echo one\n"
    assert process.wait(60) == 0
    os.close(main)
    process.stdout.close()
    process.stderr.close()


def test_without_a_terminal_there_is_no_bar(stage: ShellStage) -> None:
    with stage.worker():
        found = stage.hall("run", "--hall", stage.url, "--queue", stage.queue, "true", ":::", "1")
    assert (found.stdout, found.stderr) == (b"", b"")


def test_a_hall_without_workers_is_told(stage: ShellStage) -> None:
    words = ("run", "--hall", stage.url, "--queue", stage.queue, "--json", "echo", ":::", "1")
    process = stage.popen(*words, stderr=-1, stdout=-1)
    assert process.stderr is not None
    assert process.stdout is not None
    assert b"hall work --shell" in process.stderr.readline()
    with stage.worker():
        assert b'"state":"done"' in process.stdout.read()
        assert process.wait(60) == 0
    process.stderr.close()
    process.stdout.close()
