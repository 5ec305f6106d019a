"""Many idle workers on one thread; counts which of them are woken.

Each request is followed by an ECHO_REQ. Its answer shows that the server has processed the request, so nothing
waits for a fixed time.
"""

from __future__ import annotations

import select
import socket
from typing import Self

from hiringhall.dialects.gearman import wire

ANSWER_S_MAX = 30.0
MARK = b"here"


class Crowd:
    """Sleeping workers of one function."""

    def __init__(self, port: int, function: bytes) -> None:
        self._address = ("127.0.0.1", port)
        self._function = function
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.close()

    def grow(self, count: int) -> None:
        """Connect `count` workers that go to sleep; returns when the server knows all of them."""
        newcomers = [Worker(self._address) for _ in range(count)]
        self._workers += newcomers
        for worker in newcomers:
            worker.send(wire.pack_request(wire.CAN_DO, self._function), wire.pack_request(wire.PRE_SLEEP))
        for worker in newcomers:
            worker.heard_until_mark()

    def warm_up(self) -> None:
        """Warm up: one worker connects, sends an echo, and disconnects."""
        worker = Worker(self._address)
        worker.send()
        worker.heard_until_mark()
        worker.close()

    def woken_by_one_job(self) -> int:
        """Submit one background job; the first worker that is woken does it. Returns how many were woken."""
        poll = select.poll()
        sleepers = {worker.descriptor: worker for worker in self._workers}
        for descriptor in sleepers:
            poll.register(descriptor, select.POLLIN)
        client = Worker(self._address)
        client.send(wire.pack_request(wire.SUBMIT_JOB_BG, self._function, b"", b"x"))
        client.heard_until_mark()
        client.close()
        woken = 0
        readable = poll.poll(ANSWER_S_MAX * 1000)
        if readable:
            # At once: the server may wake another worker if this one does not ask for the job.
            woken += sleepers[readable[0][0]].work_one()
        # The job is done, so all its wake-ups are sent: the echo of each worker comes after its NOOP.
        for worker in self._workers:
            worker.send()
        return woken + sum(wire.NOOP in worker.heard_until_mark() for worker in self._workers)


class Worker:
    """One blocking connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_S_MAX)
        self._reader = wire.Reader(wire.RESPONSE)

    def send(self, *packets: bytes) -> None:
        """Send the packets, followed by an echo request."""
        self._socket.sendall(b"".join(packets) + wire.pack_request(wire.ECHO_REQ, MARK))

    def packets_until_mark(self) -> list[tuple[int, bytes]]:
        """The packets that came before the answer to the echo."""
        packets: list[tuple[int, bytes]] = []
        while not packets or packets[-1] != (wire.ECHO_RES, MARK):
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed an idle worker")
            packets += self._reader.feed(data)
        return packets[:-1]

    def heard_until_mark(self) -> list[int]:
        return [kind for kind, _ in self.packets_until_mark()]

    @property
    def descriptor(self) -> int:
        return self._socket.fileno()

    def work_one(self) -> int:
        """Take the job and finish it; returns 1 if this worker was woken, otherwise 0."""
        self.send(wire.pack_request(wire.GRAB_JOB))
        heard = self.packets_until_mark()
        handles = [body.split(b"\0")[0] for kind, body in heard if kind == wire.JOB_ASSIGN]
        self.send(*(wire.pack_request(wire.WORK_COMPLETE, handle, b"") for handle in handles))
        self.heard_until_mark()
        return int(any(kind == wire.NOOP for kind, _ in heard))

    def close(self) -> None:
        self._socket.close()
