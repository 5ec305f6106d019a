"""A real hall with a PING/PONG door, and workers as processes beside it, for tests that break both."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Final

from foreign import PROGRAMS, Program
from hall_process import HallProcess, free_port, wait_until

from hiringhall.peers.pingpong import Client

if TYPE_CHECKING:
    from pathlib import Path

EXPIRE_S: Final = 1.0
JOB_TIMEOUT_S: Final = 3.0
PING_S: Final = 0.2
BROKER_TIMEOUT_S: Final = 1.0
N_TIMEOUTS: Final = 2
SILENCE_S: Final = BROKER_TIMEOUT_S * N_TIMEOUTS
SLACK_S: Final = 3.0
"""What a busy machine may add to a time of the protocol, besides the time in which it stands still."""


class PingPongHall(HallProcess):
    """`hall serve` with a PING/PONG door, in a hurry; both its ports stay the same over a restart."""

    def __init__(self, folder: Path, **door: object) -> None:
        hasty = {"worker_expire_s": EXPIRE_S, "job_timeout_s": JOB_TIMEOUT_S, "losses_max": 0}
        frontend = f"127.0.0.1:{free_port()}"
        super().__init__(folder, door={"dialect": "pingpong", "frontend": frontend, **hasty, **door})
        self.frontend = ""

    def _first_line(self) -> bytes:
        line = super()._first_line()
        backend, frontend = json.loads(line)["doors"]
        assert (backend["role"], frontend["role"]) == ("backend", "frontend")
        self.frontend = self._door["frontend"] = frontend["address"]
        return line

    def job_client(self, timeout_s: float = 20.0, retries: int = 0) -> Client:
        return Client(self.frontend, timeout_s=timeout_s, retries=retries)

    def open_worker(self) -> Program:
        """A worker in a process of its own; see `clients/pingpong_worker.py` for what it does."""
        command = [sys.executable, str(PROGRAMS / "pingpong_worker.py"), self.address]
        command += [str(PING_S), str(BROKER_TIMEOUT_S), str(N_TIMEOUTS)]
        worker = Program(command, self.folder, answers_only=True)
        assert worker.line() == "ready"
        return worker

    def audit(self) -> None:
        """Have the hall check itself."""
        before = self.errors().count("audit clean")
        self.signal(signal.SIGUSR2)
        wait_until(lambda: self.errors().count("audit clean") > before, "the audit is clean")
        assert "broken" not in self.errors()
