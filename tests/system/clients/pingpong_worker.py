"""A PING/PONG worker of our own in a process of its own, to be killed and stopped.

    pingpong_worker.py BACKEND PING_S BROKER_TIMEOUT_S N_TIMEOUTS

It says "got JOB" for each job that starts with "gate", which is done when a line comes in; "anew" when it
connects anew. A job such as "0.05 x" takes so many seconds. The result of every job is "did " and the job.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading

from hiringhall.peers.pingpong import Worker


def say(*words: str) -> None:
    sys.stdout.write(" ".join((">", *words)) + "\n")
    sys.stdout.flush()


class Reporter(logging.Handler):
    """Tells the test what the worker would log."""

    def emit(self, record: logging.LogRecord) -> None:
        say("anew" if "reconnecting" in record.getMessage() else "warning " + record.getMessage())


def do(job: bytes) -> bytes:
    kind = job.split()[0]
    if kind == b"gate":
        say("got", job.decode())
        sys.stdin.readline()
    else:
        threading.Event().wait(float(kind))
    return b"did " + job


def main() -> None:
    backend, ping_s, broker_timeout_s, n_timeouts = sys.argv[1:]
    logging.getLogger().addHandler(Reporter())
    worker = Worker(
        backend,
        do,
        ping_s=float(ping_s),
        broker_timeout_s=float(broker_timeout_s),
        n_timeouts=int(n_timeouts),
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    say("ready")
    worker.run()
    say("stopped")


main()
