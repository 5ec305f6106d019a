"""Ctrl-C at a blocking worker: it ends without a traceback, and its job goes to another."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest
from foreign import Program
from hall_process import wait_until

if TYPE_CHECKING:
    from hall_process import HallProcess

GEARMAN = """
import sys
from hiringhall.peers.gearman import Worker
worker = Worker(sys.argv[1])
def deed(job):
    print("at work", flush=True)
    sys.stdin.readline()
worker.register("deed", deed)
worker.work()
print("ended", flush=True)
"""
DRAFT = """
import sys
from hiringhall.peers.gearman_draft.blocking import Worker
worker = Worker(sys.argv[1])
def deed(task):
    print("at work", flush=True)
    sys.stdin.readline()
worker.can_do("deed", deed)
worker.run()
print("ended", flush=True)
"""


@pytest.mark.parametrize("program", [GEARMAN, DRAFT], ids=["gearman", "draft"])
@pytest.mark.parametrize("busy", [False, True])
def test_a_blocking_worker_ends_quietly_when_it_is_interrupted(
    hall: HallProcess, program: str, busy: bool
) -> None:
    with Program([sys.executable, "-c", program, hall.address], hall.folder) as worker, hall.client() as client:
        hall.wait_for_workers("deed")
        if busy:
            client.submit_background("deed")
            assert worker.line() == "at work"
        worker.process.send_signal(signal.SIGINT)
        wait_until(lambda: hall.counts("deed") == (int(busy), 0, 0), "it has left, and its job is back")
        if busy:
            worker.say("go on")
        assert worker.line() == "ended"
        assert worker.finish() == 0
        assert worker.errors() == ""
