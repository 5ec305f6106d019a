"""Workers that keep to the protocol, on a network that delays, and a hall that stops and goes on.

Whatever happens in whatever order: a client hears the result of its own job, once; and when all is calm again
every job has been answered.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

import pytest

from hiringhall.core.limits import SECOND_US
from hiringhall.dialects.pingpong.context import PingPongOptions
from stage.pingpong import JOB_TIMEOUT_US, PingPongHall

if TYPE_CHECKING:
    from stage.pingpong import PingPongGuest

WORKERS = 3
UNDER_WAY_US = JOB_TIMEOUT_US - 1
"""A message is under way for no longer than this, unless the hall is stopped."""


class ModelWorker:
    """One thread: it pings while it is idle, works when it has a job, and says READY on a new socket."""

    def __init__(self, hall: PingPongHall) -> None:
        self.hall = hall
        self.guest: PingPongGuest
        self.to_hall: deque[bytes] = deque()
        self.to_worker: deque[bytes] = deque()
        self.job: bytes | None = None
        self.open_socket()

    def open_socket(self) -> None:
        """Closed and opened again: a new identity, and whatever was under way is lost."""
        self.guest = self.hall.worker()
        self.to_hall.clear()
        self.to_worker.clear()
        self.to_hall.append(b"READY")

    def reconnect(self) -> None:
        """The hall was silent for too long, says a worker that listens: not while it works."""
        if self.job is None:
            self.open_socket()

    def restart(self) -> None:
        self.job = None
        self.open_socket()

    def ping(self) -> None:
        if self.job is None:
            self.to_hall.append(b"PING")

    def deliver(self) -> None:
        """One message reaches the hall, and is a turn of it."""
        if self.to_hall:
            self.guest.say(self.to_hall.popleft())
        self.collect()

    def collect(self) -> None:
        self.to_worker.extend(self.guest.hears())

    def receive(self) -> None:
        if self.job is None and self.to_worker:
            message = self.to_worker.popleft()
            if message != b"PONG":
                self.job = message

    def finish(self) -> None:
        if self.job is not None:
            self.to_hall.append(b"result of " + self.job)
            self.job = None


class World:
    """The hall, its workers and its clients."""

    def __init__(self, durable: bool) -> None:
        self.hall = PingPongHall(PingPongOptions(losses_max=0, durable=durable))
        self.workers = [ModelWorker(self.hall) for _ in range(WORKERS)]
        self.clients: list[tuple[bytes, PingPongGuest, list[bytes]]] = []

    def submit(self) -> None:
        payload = b"job %d" % len(self.clients)
        self.clients.append((payload, self.hall.client(payload).say(payload), []))

    def pause(self, duration_us: int, stopped: bool) -> None:
        """Time passes: for a hall that runs, deadline by deadline; for one that is stopped, in one step. Then
        what was under way arrives.
        """
        if stopped:
            self.hall.pause(duration_us)
        else:
            self.hall.wait(duration_us)
        for worker in self.workers:
            while worker.to_hall:
                worker.deliver()
        for worker in self.workers:
            worker.collect()
            while worker.job is None and worker.to_worker:
                worker.receive()

    def listen(self) -> None:
        for payload, client, heard in self.clients:
            heard.extend(client.hears())
            assert heard in ([], [b"result of " + payload])

    def calm_down(self) -> None:
        """Nothing fails any more."""
        for _ in range(4 * (len(self.clients) + 1)):
            for worker in self.workers:
                worker.ping()
                while worker.job is not None or worker.to_hall or worker.to_worker:
                    worker.deliver()
                    worker.receive()
                    worker.finish()
            self.listen()
            self.pause(30 * SECOND_US, stopped=False)
        assert all(heard for _, _, heard in self.clients)


STEPS = ("submit", "ping", "deliver", "receive", "finish", "restart", "reconnect", "wait", "stop")
WEIGHTS = (6, 6, 10, 8, 6, 1, 1, 2, 2)


@pytest.mark.parametrize("seed", range(50))
def test_every_job_is_answered_with_its_own_result(seed: int) -> None:
    chance = random.Random(seed)
    world = World(durable=seed % 2 == 1)
    for step in chance.choices(STEPS, WEIGHTS, k=150):
        if step == "submit":
            world.submit()
        elif step == "wait":
            world.pause(chance.choice((SECOND_US, 6 * SECOND_US, UNDER_WAY_US)), stopped=False)
        elif step == "stop":
            world.pause(chance.choice((SECOND_US, 6 * SECOND_US, 2 * JOB_TIMEOUT_US)), stopped=True)
        else:
            getattr(chance.choice(world.workers), step)()
        for worker in world.workers:
            worker.collect()
        world.listen()
    world.calm_down()
