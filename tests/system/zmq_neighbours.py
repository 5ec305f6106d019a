"""Honest people beside a test's hostile ones, at the PING/PONG and the WMP door: a client and a worker at each,
who have jobs done all the time, and notice when they are not served, or served wrongly.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

import zmq
from hall_process import wait_until

from hiringhall.dialects.wmp import wire
from hiringhall.peers import gearman, pingpong
from stage.stopwatch import Stopwatch

if TYPE_CHECKING:
    from many_doors import ManyDoors

PAUSE_S: Final = 0.02
"""Between two rounds, so that the neighbours are witnesses and not a load."""
ROUND_S_MAX: Final = 20.0
"""The longest that a round may take: a stranger may be given the job first, and is found out by its silence."""
ROLE: Final = "plane"


class Neighbours:
    """One round is a job from the frontend to the backend, and one from a Gearman client to a WMP worker."""

    def __init__(self, hall: ManyDoors) -> None:
        self.rounds = 0
        self.misled = 0
        """Jobs of the frontend whose result was another's: who is let in at the backend is believed."""
        self.slowest_s = 0.0
        self._hall = hall
        self._trouble: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._live, name="neighbours", daemon=True)

    def expect_service(self) -> None:
        """They are served now: some more rounds succeed, and none so far took too long."""
        wanted = self.rounds + 3
        wait_until(
            lambda: self._trouble is not None or self.rounds >= wanted,
            "the neighbours are served",
            4 * ROUND_S_MAX,
        )
        assert self._trouble is None, f"the neighbours were disturbed: {self._trouble!r}"
        assert self.slowest_s < ROUND_S_MAX, f"the neighbours waited {self.slowest_s:.1f} s"

    def _live(self) -> None:
        hall = self._hall
        try:
            with (
                pingpong.Worker(hall.backend, bytes.upper, ping_s=0.1, identity=b"neighbour"),
                pingpong.Client(hall.frontend, timeout_s=2 * ROUND_S_MAX, retries=0) as client,
                gearman.Client(hall.address, timeout_s=2 * ROUND_S_MAX) as submitter,
                PlainWorker(hall.wmp, ROLE) as worker,
            ):
                while not self._leaving.wait(PAUSE_S):
                    payload = b"job %d" % self.rounds
                    with Stopwatch() as watch:
                        self.misled += _answer(client, payload) != payload.upper()
                        worker.ready()
                        job = submitter.submit(ROLE, payload)
                        worker.work(2 * ROUND_S_MAX)
                        assert job.result() == payload.upper()
                    self.slowest_s = max(self.slowest_s, watch.elapsed_s)
                    self.rounds += 1
        except BaseException as trouble:  # noqa: BLE001 (told to the test's thread)
            self._trouble = trouble

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join()


def _answer(client: pingpong.Client, payload: bytes) -> bytes:
    try:
        return client.submit(payload)
    except pingpong.JobFailed as failure:
        return failure.reason


class PlainWorker:
    """A WMP worker in a few lines of pyzmq, for one job at a time."""

    def __init__(self, address: str, role: str) -> None:
        self._role = role.encode()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.ROUTING_ID, b"plain worker")
        self._socket.connect(f"tcp://{address}")

    def ready(self) -> None:
        self._say(wire.READY, [(b"role", self._role)])

    def work(self, timeout_s: float) -> None:
        """Do the next job."""
        until_s = time.monotonic() + timeout_s
        while True:
            if not self._socket.poll(round(max(until_s - time.monotonic(), 0) * 1000)):
                raise AssertionError(f"no job within {timeout_s} s")
            *path, body = self._socket.recv_multipart()
            assert path == [b"", b""]
            message = wire.parse_body(body)
            if message.command == wire.WAKE:
                self._say(wire.GIVE, [(b"role", self._role)])
            elif message.command == wire.NO:
                self.ready()
            elif message.command == wire.TAKE:
                answer = [(name, message.first(name)) for name in (b"manager", b"job")]
                self._say(wire.DONE, answer, message.payload.upper())
                return

    def _say(self, command: bytes, headers: list[tuple[bytes, bytes]], payload: bytes = b"") -> None:
        self._socket.send_multipart([b"", b"", wire.encode_body(command, headers, payload)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._context.term()
