"""Rounds of faults in the midst of work, drawn at random: every job is answered with its own result."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from typing import TYPE_CHECKING, Final

import pytest
from hall_process import wait_until
from pingpong_house import EXPIRE_S, JOB_TIMEOUT_S, SILENCE_S, PingPongHall

from hiringhall.peers.pingpong import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreign import Program

ROUNDS: Final = 25
SEED: Final = 20260
WORKERS: Final = 3
CLIENTS: Final = 2
OUTSTANDING: Final = 6
ROUND_JOBS: Final = 10
"""Answers that each client must have heard after a fault before the next one comes."""
STOPS_S: Final = (0.05, EXPIRE_S / 2, SILENCE_S + 0.3, JOB_TIMEOUT_S + 0.3)
"""How long somebody stands still: shorter and longer than each of the protocol's times."""


class Customer:
    """A client in a thread, with jobs under way all the time."""

    def __init__(self, frontend: str, name: str) -> None:
        self.answered = 0
        self.wrong: list[tuple[bytes, bytes]] = []
        self._client = Client(frontend, timeout_s=1.0, retries=60)
        self._name = name
        self._enough = threading.Event()
        self._chance = random.Random(name)
        self._sent: list[bytes] = []
        self._shopping = threading.Thread(target=self._shop, name=name)
        self._shopping.start()

    @property
    def alive(self) -> bool:
        return self._shopping.is_alive()

    def _jobs(self) -> Iterator[bytes]:
        while not self._enough.is_set():
            self._sent.append(f"{self._chance.choice((0, 0.01, 0.03))} {self._name} {len(self._sent)}".encode())
            yield self._sent[-1]

    def _shop(self) -> None:
        with self._client:
            for result in self._client.map(self._jobs(), OUTSTANDING):
                payload = self._sent[self.answered]
                if result != b"did " + payload:
                    self.wrong.append((payload, result))
                self.answered += 1

    def leave(self) -> None:
        """Submit no more, and wait for what is under way."""
        self._enough.set()
        self._shopping.join(60)
        assert not self.alive
        assert self.answered == len(self._sent), "every job that was handed in was answered"


class Yard:
    """The hall and its workers, and what can happen to them."""

    def __init__(self, hall: PingPongHall, chance: random.Random, stack: contextlib.ExitStack) -> None:
        self.hall = hall
        self.chance = chance
        self._stack = stack
        self.workers = [self._open_worker() for _ in range(WORKERS)]

    def _open_worker(self) -> Program:
        return self._stack.enter_context(self.hall.open_worker())

    def restart_hall(self) -> None:
        self.hall.kill()
        self.hall.start()

    def stop_hall(self) -> None:
        self.hall.signal(signal.SIGSTOP)
        self._stand_still()
        self.hall.signal(signal.SIGCONT)

    def kill_worker(self) -> None:
        index = self.chance.randrange(WORKERS)
        self.workers[index].stop()
        self.workers[index] = self._open_worker()

    def stop_worker(self) -> None:
        worker = self.chance.choice(self.workers)
        worker.process.send_signal(signal.SIGSTOP)
        self._stand_still()
        worker.process.send_signal(signal.SIGCONT)

    def stop_all_workers(self) -> None:
        for worker in self.workers:
            worker.process.send_signal(signal.SIGSTOP)
        self._stand_still()
        for worker in self.workers:
            worker.process.send_signal(signal.SIGCONT)

    def _stand_still(self) -> None:
        threading.Event().wait(self.chance.choice(STOPS_S))


@pytest.mark.timeout(300)
def test_no_job_is_lost_in_any_round(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with PingPongHall(tmp_path) as hall, contextlib.ExitStack() as stack:
        yard = Yard(hall, chance, stack)
        customers = [Customer(hall.frontend, f"customer-{number}") for number in range(CLIENTS)]
        try:
            faults = (
                yard.restart_hall,
                yard.stop_hall,
                yard.kill_worker,
                yard.stop_worker,
                yard.stop_all_workers,
            )
            for number in range(ROUNDS):
                fault = chance.choice(faults)
                fault()
                before = [customer.answered for customer in customers]
                wait_until(
                    lambda before=before: all(  # type: ignore[misc]
                        customer.answered >= count + ROUND_JOBS or not customer.alive
                        for customer, count in zip(customers, before, strict=True)
                    ),
                    f"work goes on after {fault.__name__} in round {number}",
                    60.0,
                )
                assert all(customer.alive for customer in customers), f"round {number}, {fault.__name__}"
        finally:
            for customer in customers:
                customer.leave()
        hall.audit()
        assert [customer.wrong for customer in customers] == [[]] * CLIENTS
        assert all(worker.process.poll() is None for worker in yard.workers)
