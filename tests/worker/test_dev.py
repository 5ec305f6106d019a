"""`hall dev`: a hall, a worker and reloading in one command."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING

from hall_process import wait_until
from worker_process import WorkerProcess, is_alive

from hiringhall import Hall

if TYPE_CHECKING:
    from pathlib import Path

RESULT_S = 30.0
CODE = """
from hiringhall import Hall

hall = Hall()

@hall.job
def inner() -> int:
    return 1

@hall.job
def outer() -> int:
    # The jobs of a function go to the same hall.
    return inner.submit().result(timeout=20) + 10
"""


def started(folder: Path, *words: str) -> WorkerProcess:
    (folder / "dev_jobs.py").write_text(CODE)
    return WorkerProcess(
        "",
        "--port",
        "0",
        "--no-web",
        "--processes",
        "2",
        *words,
        target="dev_jobs",
        folder=folder,
        command="dev",
    )


def test_it_runs_reloads_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    with started(tmp_path) as dev:
        url = dev.wait_for("hall")["url"]
        dev.wait_for("connected")
        pids = dev.children()
        with Hall(url) as hall:
            assert hall.function("dev_jobs.outer").submit().result(RESULT_S) == 11
            (tmp_path / "dev_jobs.py").write_text(CODE.replace("return 1\n", "return 222\n"))
            dev.wait_for("reload")
            dev.wait_for("serving")
            outer = hall.function("dev_jobs.outer")
            wait_until(lambda: outer.submit().result(RESULT_S) == 232, "the new code runs")
        dev.signal(signal.SIGINT)
        assert dev.wait() == 0
    wait_until(lambda: not any(map(is_alive, pids)), "all processes are gone")
    assert (tmp_path / ".hall-dev").is_dir()


def test_the_hall_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "--data", "elsewhere") as dev:
        dev.wait_for("connected")
        pids = dev.children()
        assert pids
        dev.signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)), "all processes are gone")
    assert (tmp_path / "elsewhere").is_dir()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    (tmp_path / "dev_jobs.py").write_text(CODE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("--no-web", "--port", str(taken.getsockname()[1]))
        with WorkerProcess("", *words, target="dev_jobs", folder=tmp_path, command="dev") as dev:
            assert dev.wait() == 1
            assert "If one runs already, use `hall work`" in dev.printed()
