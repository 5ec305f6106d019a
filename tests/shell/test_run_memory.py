"""A long run takes no more memory than a short one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hall_process import HallProcess, wait_until

if TYPE_CHECKING:
    from shell_stage import ShellStage

JOBS = 100_000
GROWTH_BYTES_MAX = 8 << 20
STUB = Path(__file__).parent / "stub_worker.py"


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_hundred_thousand_commands_take_no_more_memory_than_the_first_thousands(
    stage: ShellStage, server: HallProcess, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(JOBS)))
    counted = tmp_path / "counted"
    counted.touch()
    stub = subprocess.Popen([sys.executable, STUB, str(server.port), stage.queue, counted])
    try:
        with (tmp_path / "output").open("wb") as output:
            words = ("run", "--hall", stage.url, "--queue", stage.queue, "-a", "lines", "echo")
            process = stage.popen(*words, stdout=output)
            wait_until(lambda: counted.stat().st_size >= 20, "20,000 jobs are done", 100)
            early = resident_bytes(process.pid)
            wait_until(lambda: counted.stat().st_size >= JOBS // 1000 - 3, "almost all jobs are done", 100)
            late = resident_bytes(process.pid)
            assert process.wait(60) == 0
    finally:
        stub.kill()
        stub.wait()
    assert (tmp_path / "output").read_bytes() == b"out\n" * JOBS
    assert late < early + GROWTH_BYTES_MAX
