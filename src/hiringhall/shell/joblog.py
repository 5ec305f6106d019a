"""`--joblog`: a line for each command that has ended, with the columns of GNU parallel's job log.

Seq  Host  Starttime       JobRuntime  Send  Receive  Exitval  Signal  Command
1    :     1794935353.503       0.005     0        2        3       0  echo 3; exit 3
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from hiringhall.shell.running import Job

HEADING: Final = b"Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
_LOCAL: Final = ":"
_SIGNALS: Final = range(129, 193)
"""Codes of the shell for a command that was ended by a signal."""


class JobLog:
    """A file that is written line by line, so that others can read along."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._write(HEADING)

    def add(self, job: Job) -> None:
        """A job that has run. Raises OSError."""
        if job.state == "cancelled":
            return
        self._write(line(job))

    def close(self) -> None:
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]


def line(job: Job) -> bytes:
    """As GNU parallel writes it. A command with line ends takes several lines there; here they are blanks."""
    signal = job.code - _SIGNALS.start + 1 if job.code in _SIGNALS else 0
    code = 0 if signal else job.code
    received = job.output.stdout.size + job.output.stderr.size
    times = f"{job.started_s or 0.0:14.3f}\t{job.seconds or 0.0:10.3f}"
    head = f"{job.planned.number}\t{_LOCAL}\t{times}\t0\t{received}\t{code}\t{signal}\t"
    return head.encode() + job.planned.command.replace(b"\n", b" ") + b"\n"
