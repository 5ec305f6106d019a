"""A very full hall: ten thousand workers sleep, one job comes, one worker is woken."""

from __future__ import annotations

import resource
import sys
from typing import TYPE_CHECKING

from foreign import PROGRAMS, Program
from hall_process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from hall_process import HallProcess

WORKERS = 10_000
DESCRIPTORS = WORKERS + 200
CONNECTION_BYTES_MAX = 12 * 1024


def test_one_job_wakes_one_of_ten_thousand(
    hall: HallProcess,
    need: Callable[[str], None],
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need("" if hard >= DESCRIPTORS else f"a limit of at least {DESCRIPTORS} open files (ulimit -n)")
    with hall.client() as client:
        assert client.echo(b"warm") == b"warm"
        before_bytes = hall.rss_bytes()
        command = [sys.executable, str(PROGRAMS / "idle_workers.py"), hall.address, "idle", str(WORKERS)]
        with Program(command, hall.folder, answers_only=True) as crowd:
            assert crowd.line(60) == f"asleep {WORKERS}"
            hall.wait_for_workers("idle", WORKERS)
            connection_bytes = (hall.rss_bytes() - before_bytes) / WORKERS
            crowd.say("count")
            assert crowd.line(30) == "noops 0"

            receipt = client.submit_background("idle", b"x")
            wait_until(lambda: not client.status(receipt).known, "the job is done")
            crowd.say("count")
            assert crowd.line(30) == "noops 1"

            assert client.run("idle", b"x") == b"done"
            crowd.say("count")
            assert crowd.line(30) == "noops 2"
    with capsys.disabled():
        sys.stdout.write(f"\n{connection_bytes:.0f} bytes of memory for each idle worker\n")
    record_property("idle_connection_bytes", round(connection_bytes))
    assert connection_bytes < CONNECTION_BYTES_MAX
