"""PyPI gear's Worker with the functions of tests/system/foreign.py."""

from __future__ import annotations

import sys
from typing import Any

import gear  # type: ignore[import-untyped]


def say(word: str) -> None:
    sys.stdout.write(f"> {word}\n")
    sys.stdout.flush()


def do(job: Any) -> None:
    if job.name == "reverse":
        job.sendWorkComplete(job.arguments[::-1])
    elif job.name == "count":
        for step in (1, 2, 3):
            job.sendWorkStatus(step, 3)
        job.sendWorkComplete(b"counted")
    elif job.name == "chunks":
        job.sendWorkData(b"one")
        job.sendWorkData(b"two")
        job.sendWorkComplete(b"three")
    elif job.name == "warn":
        job.sendWorkWarning(b"careful")
        job.sendWorkComplete(b"warned")
    elif job.name == "fail":
        job.sendWorkFail()
    elif job.name == "raise":
        job.sendWorkException(b"boom")
    elif job.name == "unique":
        job.sendWorkComplete(job.unique)
    elif job.name == "gate":
        job.sendWorkStatus(3, 7)
        say("gate")
        sys.stdin.readline()
        job.sendWorkComplete(b"opened")


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    worker = gear.Worker("gear")
    worker.addServer(host, int(port))
    worker.waitForServer()
    for name in ("reverse", "count", "chunks", "warn", "fail", "raise", "unique", "gate"):
        worker.registerFunction(name)
    say("ready")
    while True:
        do(worker.getJob())


main()
