"""A very full hall: ten thousand workers sleep, one job comes, one worker is woken."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from foreign import PROGRAMS, Program
from hall_process import HallProcess, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

WORKERS = 10_000
DESCRIPTORS = WORKERS + 200
CONNECTION_BYTES_MAX = 6 * 1024
PATIENCE_US = 60_000_000
"""The hall wakes the next worker when one does not answer; on a busy machine that must not blur the count."""


def test_one_job_wakes_one_of_ten_thousand(
    tmp_path: Path,
    need: Callable[[str], None],
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need("" if hard >= DESCRIPTORS else f"a limit of at least {DESCRIPTORS} open files (ulimit -n)")
    with HallProcess(tmp_path, limits={"wake_us": PATIENCE_US}) as hall, hall.client() as client:
        assert client.echo(b"warm") == b"warm"
        before_bytes = hall.rss_bytes()
        command = [sys.executable, str(PROGRAMS / "idle_workers.py"), hall.address, "idle", str(WORKERS)]
        with Program(command, hall.folder, answers_only=True) as crowd:
            assert crowd.line(60) == f"asleep {WORKERS}"
            hall.wait_for_workers("idle", WORKERS)
            connection_bytes = (hall.rss_bytes() - before_bytes) / WORKERS
            crowd.say("count")
            assert crowd.line(60) == "noops 0"

            receipt = client.submit_background("idle", b"x")
            wait_until(lambda: not client.status(receipt).known, "the job is done")
            crowd.say("count")
            assert crowd.line(60) == "noops 1"

            assert client.run("idle", b"x") == b"done"
            crowd.say("count")
            assert crowd.line(60) == "noops 2"
    with capsys.disabled():
        sys.stdout.write(f"\n{connection_bytes:.0f} bytes of memory for each idle worker\n")
    record_property("idle_connection_bytes", round(connection_bytes))
    assert connection_bytes < CONNECTION_BYTES_MAX
