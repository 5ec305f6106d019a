"""A WMP worker in a process of its own, which writes down what it runs.

    wmp_worker.py NAME JOURNAL MANAGER...

The journal has a line for each begin and each end of a job, written before anybody can be told of it. SIGUSR1
makes it say on stdout, as a line of JSON, what of its resources is used and locked; SIGTERM ends it when its
jobs are done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

from hiringhall.peers.wmp import Job, Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOTS: Final = 4
_SHORT_S: Final = 0.002
_LONG_S: Final = 0.2
_LONG_EVERY: Final = 50


class Journal:
    """A file of lines, each of them whole in it even if the process is killed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._number = 0

    def begin(self) -> int:
        self._number += 1
        return self._number

    def note(self, what: str, number: int, payload: bytes) -> None:
        line = f"{what} {time.monotonic():.6f} {number} {payload.decode()}\n"
        os.write(self._file, line.encode())


async def main(name: str, journal_path: str, managers: Sequence[str]) -> None:
    journal = Journal(journal_path)

    async def work(job: Job) -> bytes:
        number = journal.begin()
        journal.note("begin", number, job.payload)
        try:
            await asyncio.sleep(_SHORT_S if number % _LONG_EVERY else _LONG_S)
        finally:
            journal.note("end", number, job.payload)
        return b"done " + job.payload

    async def linger(job: Job) -> bytes:
        """Shows progress and data, and never returns."""
        number = journal.begin()
        journal.note("begin", number, job.payload)
        await job.progress(1, 4)
        await job.send(b"piece")
        try:
            await asyncio.Event().wait()
        finally:
            journal.note("end", number, job.payload)
        return b""

    worker = Worker(
        managers,
        {"work": work, "linger": linger},
        slots=SLOTS,
        name=name,
        lock_timeout_s=2.0,
        ready_first_s=0.2,
        ready_max_s=1.0,
        beat_s=1.0,
    )

    def report() -> None:
        crew = worker.state
        crew.audit()
        state = {"used": crew.used, "locked": crew.locked, "free": crew.free, "malformed": crew.malformed}
        sys.stdout.write(json.dumps(state) + "\n")
        sys.stdout.flush()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, report)
    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    report()
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
