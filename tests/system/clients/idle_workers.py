"""Very many workers that sleep, over bare sockets in one process.

    idle_workers.py ADDRESS FUNCTION COUNT

It says "asleep COUNT" once all have said so. A worker that is woken takes a job, does it, and sleeps again. A
line on its input is answered by "noops N": how many wake-ups have come in all. None is under way any more,
because each worker has sent an echo request before and has its answer.
"""

from __future__ import annotations

import asyncio
import resource
import sys

from hiringhall.dialects.gearman import wire

TOGETHER = 100
"""So many connect at once."""


class Crowd:
    """What all of them have heard."""

    def __init__(self) -> None:
        self.noops = 0
        self.echoes_missing = 0
        self.settled = asyncio.Event()

    def echoed(self) -> None:
        self.echoes_missing -= 1
        if not self.echoes_missing:
            self.settled.set()


class IdleWorker(asyncio.Protocol):
    def __init__(self, crowd: Crowd, function: bytes) -> None:
        self._crowd = crowd
        self._function = function
        self._reader = wire.Reader(wire.RESPONSE)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.send(wire.CAN_DO, self._function)
        self.send(wire.PRE_SLEEP)

    def data_received(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            if packet_type == wire.NOOP:
                self._crowd.noops += 1
                self.send(wire.GRAB_JOB)
            elif packet_type == wire.JOB_ASSIGN:
                self.send(wire.WORK_COMPLETE, body.partition(b"\0")[0], b"done")
                self.send(wire.PRE_SLEEP)
            elif packet_type == wire.NO_JOB:
                self.send(wire.PRE_SLEEP)
            elif packet_type == wire.ECHO_RES:
                self._crowd.echoed()

    def send(self, packet_type: int, *args: bytes) -> None:
        self._transport.write(wire.pack_request(packet_type, *args))


def say(*words: object) -> None:
    sys.stdout.write(" ".join((">", *map(str, words))) + "\n")
    sys.stdout.flush()


async def main() -> None:
    address, function, count = sys.argv[1:]
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    crowd = Crowd()

    def worker_made() -> IdleWorker:
        return IdleWorker(crowd, function.encode())

    workers: list[IdleWorker] = []
    while len(workers) < int(count):
        together = min(TOGETHER, int(count) - len(workers))
        doors = [loop.create_connection(worker_made, host, int(port)) for _ in range(together)]
        workers += [worker for _, worker in await asyncio.gather(*doors)]
    say("asleep", len(workers))
    while await loop.run_in_executor(None, sys.stdin.readline):
        crowd.echoes_missing = len(workers)
        crowd.settled.clear()
        for worker in workers:
            worker.send(wire.ECHO_REQ, b"")
        await crowd.settled.wait()
        say("noops", crowd.noops)


_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
asyncio.run(main())
