"""Ends the commands of a worker that was killed: a process that outlives it by a moment.

Invariant: the guard knows the process groups of all commands that run, since it shares memory with the
worker. It does nothing until the worker has gone, however that ended, and ends when they have ended. A worker
may be killed after it has started a command and before it has noted the process group: the guard finds that
command by its standard output.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import time
from typing import Final

STEP_S: Final = 0.05
_NUMBER_BYTES: Final = 8


class Guard:
    """Make it before there are threads: it is a fork of this process."""

    def __init__(self, slots: int, grace_s: float) -> None:
        """`grace_s`: between SIGTERM and SIGKILL."""
        self._groups = memoryview(mmap.mmap(-1, slots * _NUMBER_BYTES)).cast("q")
        reading, self._writing = os.pipe2(os.O_CLOEXEC)
        if os.fork() == 0:
            try:
                _guard(reading, self._groups, grace_s)
            finally:
                os._exit(0)
        os.close(reading)

    def starts(self, slot: int, stdout: int) -> None:
        """A command will be started in this slot, from 1 on; the number of the pipe that it writes to."""
        self._groups[slot - 1] = -stdout

    def begins(self, slot: int, pid: int) -> None:
        """It runs."""
        self._groups[slot - 1] = pid

    def ends(self, slot: int) -> None:
        """It has ended, or could not be started."""
        self._groups[slot - 1] = 0


def _guard(reading: int, groups: memoryview[int], grace_s: float) -> None:
    """Wait for the end of the worker, and end what it has left."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Nobody must wait for the end of a stream that the guard holds.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.closerange(3, reading)
    os.closerange(reading + 1, os.sysconf("SC_OPEN_MAX"))
    # A command that is being started holds the other end until it has its own streams.
    os.read(reading, 1)
    left = [pid for pid in groups if pid > 1] + _find({-number for number in groups if number < 0})
    until_s = time.monotonic() + grace_s
    for pid in left:
        _signal(pid, signal.SIGTERM)
        _signal(pid, signal.SIGCONT)
    while left and time.monotonic() < until_s:
        time.sleep(STEP_S)
        left = [pid for pid in left if _signal(pid, 0)]
    for pid in left:
        _signal(pid, signal.SIGKILL)


def _find(pipes: set[int]) -> list[int]:
    """The leaders of sessions that write to one of these pipes."""
    names = {f"pipe:[{number}]" for number in pipes}
    found: list[int] = []
    if names:
        with contextlib.suppress(OSError):  # a system without /proc
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):  # noqa: PTH208 (names)
                with contextlib.suppress(OSError):  # it has ended, or is another user's
                    if os.readlink(f"/proc/{pid}/fd/1") in names and os.getsid(pid) == pid:  # noqa: PTH115
                        found.append(pid)
    return found


def _signal(pid: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        return True
    return False
