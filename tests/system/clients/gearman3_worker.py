"""PyPI gearman3's GearmanWorker with the functions of tests/system/foreign.py."""

from __future__ import annotations

import sys
from typing import Any

from gearman3_today import gearman


def say(word: str) -> None:
    sys.stdout.write(f"> {word}\n")
    sys.stdout.flush()


def count(worker: Any, job: Any) -> str:
    for step in (1, 2, 3):
        worker.send_job_status(job, step, 3)
    return "counted"


def chunks(worker: Any, job: Any) -> str:
    worker.send_job_data(job, "one")
    worker.send_job_data(job, "two")
    return "three"


def warn(worker: Any, job: Any) -> str:
    worker.send_job_warning(job, "careful")
    return "warned"


def fail(worker: Any, job: Any) -> str:
    raise ValueError("the library keeps this to itself and reports a failure")


def gate(worker: Any, job: Any) -> str:
    worker.send_job_status(job, 3, 7)
    say("gate")
    sys.stdin.readline()
    return "opened"


class Worker(gearman.GearmanWorker):  # type: ignore[misc]
    def on_job_exception(self, current_job: Any, exc_info: Any) -> bool:
        """As its documentation shows it: tell the exception, which sends a failure after it, and go on."""
        if current_job.task == b"raise":
            self.send_job_exception(current_job, "boom")
            return True
        return bool(super().on_job_exception(current_job, exc_info))


def main() -> None:
    worker = Worker([sys.argv[1]])
    worker.set_client_id("gearman3")
    worker.register_task(b"reverse", lambda worker, job: job.data[::-1])
    worker.register_task(b"count", count)
    worker.register_task(b"chunks", chunks)
    worker.register_task(b"warn", warn)
    worker.register_task(b"fail", fail)
    worker.register_task(b"raise", fail)
    worker.register_task(b"unique", lambda worker, job: job.unique)
    worker.register_task(b"gate", gate)
    say("ready")
    worker.work()


main()
