"""The README's first jobs, as they stand there, on a real hall."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foreign import Program, missing_program
from hall_process import STOP_S, free_port
from page_blocks import Shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from hall_process import HallProcess

README = (Path(__file__).parents[2] / "README.md").read_text()


TYPED_MAX: Final = 12


def test_the_first_minute_prints_what_it_says(tmp_path: Path) -> None:
    """The lines as they are typed. In place of a new environment, `.venv` has the code under test."""
    block, promised = re.findall(r"```sh\n(.*?)```\n\nprints\n\n    (.*?)\n", README, re.DOTALL)[0]
    typed = block.splitlines()
    assert len(typed) <= TYPED_MAX
    environment, install, *file, dev, call = typed
    assert (environment, install) == ("python3 -m venv .venv", "HALL_COMPILE=0 .venv/bin/pip install .")
    port = free_port()
    shell = Shell(tmp_path, {})
    (tmp_path / ".venv").symlink_to(tmp_path)
    shell.environment["HALL_URL"] = f"hall://127.0.0.1:{port}"
    shell.run("\n".join(file))
    with Program(["sh", "-c", f"exec {dev} --processes 1 --json --port {port}"], tmp_path) as served:
        while json.loads(served.line())["event"] != "serving":
            pass
        assert shell.run(call) == f"{promised}\n"
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(STOP_S) == 0


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert README.count("\n") < 150


def test_the_first_job_with_debians_tool(
    hall: HallProcess, tmp_path: Path, need: Callable[[str], None]
) -> None:
    need(missing_program("gearman", "rev"))
    (worker,) = re.findall(r"^    (gearman -w .*?) +&", README, re.MULTILINE)
    (text, client, promised) = re.findall(r"^    echo (\w+) \| (gearman .*?) +# (\w+)", README, re.MULTILINE)[0]
    at = ["-h", "127.0.0.1", "-p", str(hall.port)]
    with Program(["gearman", *at, *worker.split()[1:]], tmp_path):
        hall.wait_for_workers("rev")
        ended = subprocess.run(
            ["gearman", *at, *client.split()[1:]],
            input=f"{text}\n",
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert ended.stdout.strip() == promised, ended.stderr
