"""The guard ends the command of a worker that was killed at the worst moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from hall_process import CODE, wait_until
from worker_process import is_alive

PROGRAM = """
import os, signal
from hiringhall.shell.guard import Guard

guard = Guard(2, 0.1)
reading, writing = os.pipe2(os.O_CLOEXEC)
guard.starts(2, os.fstat(reading).st_ino)
streams = [(os.POSIX_SPAWN_DUP2, writing, 1)]
command = "trap '' TERM; echo $$; sleep 600"
os.posix_spawn("/bin/sh", ["/bin/sh", "-c", command], os.environ, file_actions=streams, setsid=True)
os.write(1, os.read(reading, 100))
os.kill(os.getpid(), signal.SIGKILL)
"""
"""A worker that is killed when it has started a command and not noted its process group."""


def test_a_command_whose_worker_was_killed_as_it_started_it_is_ended() -> None:
    environment = {**os.environ, "PYTHONPATH": CODE}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    pid = int(ended.stdout)
    wait_until(lambda: not is_alive(pid), "the command has ended")
