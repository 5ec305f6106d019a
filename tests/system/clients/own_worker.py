"""A worker of our own in a process of its own, to be killed and stopped.

    own_worker.py ADDRESS NAME FUNCTION [LEASE_S]

It says "got DATA" for each job. "deadly" ends the process as SIGKILL does; "quick" is done at once; any other
job is done when a line comes in, with the worker's name as the result. "refused CODE" is what the server
complains of. With LEASE_S it shows life often enough for such a lease.
"""

from __future__ import annotations

import os
import signal
import sys

from hiringhall.peers.gearman import ServerError, Worker, WorkerJob


def say(*words: str) -> None:
    sys.stdout.write(" ".join((">", *words)) + "\n")
    sys.stdout.flush()


def main() -> None:
    address, name, function, *lease = sys.argv[1:]

    def refused(error: ServerError) -> None:
        say("refused", error.code)

    def do(job: WorkerJob) -> bytes:
        say("got", job.data.decode())
        if job.data == b"deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if job.data != b"quick":
            sys.stdin.readline()
        return name.encode()

    heartbeat_s = float(lease[0]) / 5 if lease else 0.0
    worker = Worker(address, client_id=name, heartbeat_s=heartbeat_s, on_error=refused)
    worker.register(function, do)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    say("ready")
    worker.work()


main()
