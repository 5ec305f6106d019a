"""PyPI gear's Client, told what to do line by line; see tests/system/foreign.py for the words.

It cannot ask for a status by unique or submit for later. Its echo breaks on its own lock in today's Python.
"""
# ruff: noqa: N802 - the names are those that gear calls

from __future__ import annotations

import sys
import threading
from typing import Any

import gear  # type: ignore[import-untyped]

PRECEDENCES = {"high": gear.PRECEDENCE_HIGH, "normal": gear.PRECEDENCE_NORMAL, "low": gear.PRECEDENCE_LOW}


def say(*words: Any) -> None:
    texts = (word.decode() if isinstance(word, bytes) else str(word) for word in words)
    sys.stdout.write(" ".join((">", *texts)) + "\n")
    sys.stdout.flush()


class Client(gear.Client):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.ended = threading.Semaphore(0)
        self.answered = threading.Semaphore(0)

    def handleWorkStatus(self, packet: Any) -> Any:
        job = super().handleWorkStatus(packet)
        say("progress", job.numerator, job.denominator)
        return job

    def handleWorkData(self, packet: Any) -> Any:
        say("data", packet.getArgument(1, True))
        return super().handleWorkData(packet)

    def handleWorkWarning(self, packet: Any) -> Any:
        say("warning", packet.getArgument(1, True))
        return super().handleWorkWarning(packet)

    def handleWorkComplete(self, packet: Any) -> Any:
        say("complete", packet.getArgument(1, True))
        return self.end(super().handleWorkComplete(packet))

    def handleWorkFail(self, packet: Any) -> Any:
        say("fail")
        return self.end(super().handleWorkFail(packet))

    def handleWorkException(self, packet: Any) -> Any:
        say("exception", packet.getArgument(1, True))
        return self.end(super().handleWorkException(packet))

    def handleStatusRes(self, packet: Any) -> Any:
        job = super().handleStatusRes(packet)
        say("status", int(job.known), int(job.running), job.numerator, job.denominator)
        self.answered.release()
        return job

    def end(self, job: Any) -> Any:
        self.ended.release()
        return job


def job_of(function: str, unique: str, data: str) -> Any:
    return gear.Job(function, data.encode(), None if unique == "." else unique.encode())


def obey(client: Client, word: str, rest: list[str]) -> None:
    if word == "run":
        priority, *what = rest
        client.submitJob(job_of(*what), precedence=PRECEDENCES[priority])
        client.ended.acquire()
    elif word == "background":
        priority, *what = rest
        job = job_of(*what)
        client.submitJob(job, background=True, precedence=PRECEDENCES[priority])
        say("created", job.handle)
    elif word == "status":
        connection = client.getConnection()
        packet = gear.Packet(gear.constants.REQ, gear.constants.GET_STATUS, rest[0].encode())
        client.sendPacket(packet, connection)
        client.answered.acquire()
    else:
        say("cannot")


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    client = Client()
    client.addServer(host, int(port))
    client.waitForServer()
    client.setOption("exceptions")
    for line in sys.stdin:
        word, *rest = line.split()
        obey(client, word, rest)
        say("ok")
    client.shutdown()


main()
