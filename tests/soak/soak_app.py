"""The job functions of the soak of the SDK. Each run of a job leaves a line: id, attempt and start."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hiringhall import Hall, current_job

MODULUS = 1_000_003
RUNS = Path(os.environ.get("SOAK_FOLDER", ".")) / "runs"

hall = Hall()


def _note_run() -> None:
    job = current_job()
    line = f"{job.id} {job.attempt} {time.time_ns() // 1000}\n"
    # One write to a file that is open to append: lines of several processes do not mix.
    descriptor = os.open(RUNS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@hall.job(losses_max=0)
def square(number: int) -> int:
    _note_run()
    return number * number


@hall.job(losses_max=0)
def node(number: int, parents: list[int]) -> int:
    _note_run()
    return node_value(number, parents)


def node_value(number: int, parents: list[int]) -> int:
    return (number + 7 * sum(parents)) % MODULUS
