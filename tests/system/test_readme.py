"""The README's first jobs, as they stand there, on a real hall."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from foreign import Program, missing_program
from hall_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from hall_process import HallProcess

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_python_example_prints_what_it_says(hall: HallProcess) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (promised,) = re.findall(r"# (b'.*')$", example, re.MULTILINE)
    program = example.replace("127.0.0.1:4730", hall.address)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout.strip()) == (0, promised), ended.stderr
    wait_until(hall.history, "the background job is in the history")
    (line,) = hall.history()
    assert (line.queue, line.result) == (b"reverse", b"tpek si taht boj a")


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
