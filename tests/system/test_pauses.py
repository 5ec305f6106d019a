"""A real hall is stopped for longer than any of its deadlines: what its workers sent meanwhile counts."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Final

from hall_process import wait_until
from many_doors import ManyDoors

from hiringhall.core.states import DONE
from hiringhall.peers import gearman, pingpong, wmp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIMEOUT_S: Final = 2.0
"""Every deadline of a worker."""
STOPPED_S: Final = 4.0
PATIENCE_S: Final = 20.0
QUEUES: Final = ("ping", "work", "gear")


class Gate:
    """What a worker has begun, and may end."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.ended: list[bytes] = []
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def do(self, payload: bytes) -> bytes:
        self.begun.append(payload)
        assert self._opened.wait(PATIENCE_S)
        self.ended.append(payload)
        return b"did " + payload


async def until(holds: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(wait_until, holds, what, PATIENCE_S)


def test_results_that_were_sent_while_the_hall_was_stopped_count_at_every_door(tmp_path: Path) -> None:
    gate = Gate()

    async def work(job: wmp.Job) -> bytes:
        return await asyncio.to_thread(gate.do, job.payload)

    async def tell(hall: ManyDoors) -> None:
        gearman_worker = gearman.Worker(hall.address)
        gearman_worker.register("gear", lambda job: gate.do(job.data))
        async with wmp.Worker([hall.wmp], {"work": work}, beat_s=60.0):
            with gearman_worker, pingpong.Worker(hall.backend, gate.do, ping_s=0.2):
                with hall.client() as client:
                    for queue in QUEUES:
                        client.submit_background(queue, queue.encode())
                await until(lambda: len(gate.begun) == len(QUEUES), "every worker has its job")
                hall.signal(signal.SIGSTOP)
                try:
                    gate.open()
                    await until(lambda: len(gate.ended) == len(QUEUES), "every worker has done its job")
                    await asyncio.sleep(STOPPED_S)
                finally:
                    hall.signal(signal.SIGCONT)
                await until(lambda: len(hall.history()) == len(QUEUES), "every job has ended")

    strict = {"lease_s": TIMEOUT_S, "losses_max": 1}
    ping = {"queue": "ping", "worker_expire_s": TIMEOUT_S, "job_timeout_s": TIMEOUT_S}
    with ManyDoors(tmp_path, gearman=strict, pingpong=ping, wmp={"lease_s": TIMEOUT_S}) as hall:
        asyncio.run(tell(hall))
        ends = {end.queue.decode(): (end.state, end.attempts, end.losses) for end in hall.history()}
        assert ends == dict.fromkeys(QUEUES, (DONE, 1, 0))
        assert sorted(gate.begun) == sorted(queue.encode() for queue in QUEUES), "none was done twice"
        wait_until(
            lambda: " WARNING pause: the hall or its machine was stopped" in hall.errors(),
            "the pause is in the log",
        )
        hall.check()
