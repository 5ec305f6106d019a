"""Plain ZeroMQ sockets at a real door: the frames as the protocol writes them, and frames as it does not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest
import zmq
import zmq.auth
from pingpong_house import PingPongHall

from hiringhall.peers.pingpong import Client, Curve, NoAnswer, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STEP_MS: Final = 10_000


class Plain:
    """Somebody with nothing but ZeroMQ."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], kind: int, address: str) -> None:
        self.socket = context.socket(kind)
        self.socket.linger = 0
        self.socket.connect(f"tcp://{address}")

    def say(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def hear(self) -> list[bytes]:
        assert self.socket.poll(STEP_MS), "nothing was heard"
        return self.socket.recv_multipart()


class Guests:
    """Open sockets at both ends of a door."""

    def __init__(self, hall: PingPongHall) -> None:
        self.hall = hall
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._all: list[Plain] = []

    def worker(self) -> Plain:
        return self._open(zmq.DEALER, self.hall.address)

    def client(self, kind: int = zmq.DEALER) -> Plain:
        return self._open(kind, self.hall.frontend)

    def _open(self, kind: int, address: str) -> Plain:
        self._all.append(Plain(self._context, kind, address))
        return self._all[-1]

    def leave(self) -> None:
        for guest in self._all:
            guest.socket.close()
        self._context.term()


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Guests]:
    with PingPongHall(tmp_path, job_timeout_s=60.0, worker_expire_s=60.0) as hall:
        guests = Guests(hall)
        yield guests
        guests.leave()
        hall.audit()


def test_the_frames_of_the_protocol(guests: Guests) -> None:
    worker, client = guests.worker(), guests.client(zmq.REQ)
    worker.say(b"", b"READY")
    worker.say(b"", b"PING")
    assert worker.hear() == [b"", b"PONG"]
    client.say(b"job")
    assert worker.hear() == [b"", b"job"]
    worker.say(b"", b"PING")
    assert worker.hear() == [b"", b"PONG"]
    worker.say(b"", b"result")
    assert client.hear() == [b"result"]
    client.say(b"again")
    assert worker.hear() == [b"", b"again"]


def test_a_clients_own_frames_come_back(guests: Guests) -> None:
    worker, client = guests.worker(), guests.client()
    worker.say(b"", b"READY")
    for own in ([], [b"7"], [b"a", b"b", b"c", b"d", b"e", b"f"], [b""]):
        client.say(*own, b"", b"job")
        assert worker.hear() == [b"", b"job"]
        worker.say(b"", b"result")
        assert client.hear() == [*own, b"", b"result"]


def test_ready_gives_the_job_back(guests: Guests) -> None:
    worker, other, client = guests.worker(), guests.worker(), guests.client(zmq.REQ)
    worker.say(b"", b"READY")
    client.say(b"job")
    assert worker.hear() == [b"", b"job"]
    other.say(b"", b"PING")
    assert other.hear() == [b"", b"PONG"]
    worker.say(b"", b"READY")
    assert other.hear() == [b"", b"job"]
    other.say(b"", b"ERROR 9 not today")
    assert client.hear() == [b"ERROR 9 not today"]


def test_messages_of_no_form_are_dropped_and_the_door_goes_on(guests: Guests) -> None:
    worker, client = guests.worker(), guests.client()
    chance = random.Random(5)
    for _ in range(500):
        frames = [
            chance.choice((b"", b"READY", b"PING", chance.randbytes(9))) for _ in range(chance.randint(1, 80))
        ]
        if len(frames) != 2 or frames[0]:
            worker.say(*frames)
        if len(frames) > 8 or len(frames) == 1 or frames[-2]:
            client.say(*frames)
    worker.say(b"", b"PING")
    assert worker.hear() == [b"", b"PONG"], "nothing before it was answered"
    client.say(b"id", b"", b"job")
    assert worker.hear() == [b"", b"job"]
    worker.say(b"", b"result")
    assert client.hear() == [b"id", b"", b"result"]


def test_a_crowd_that_says_ready_and_leaves_costs_no_job(guests: Guests) -> None:
    """Each is gone when its turn comes; the job goes to the next at once, and waits for no timeout."""
    for _ in range(20):
        crowd = [guests.worker() for _ in range(20)]
        for stranger in crowd:
            stranger.say(b"", b"PING")
        for stranger in crowd:
            assert stranger.hear() == [b"", b"PONG"]
            stranger.socket.close()
    worker = guests.worker()
    worker.say(b"", b"READY")
    client = guests.client(zmq.REQ)
    client.say(b"job")
    assert worker.hear() == [b"", b"job"]


def test_curve_lets_in_who_is_on_the_list(tmp_path: Path) -> None:
    certificate, _ = zmq.auth.create_certificates(tmp_path, "hall")
    server_key, _ = zmq.auth.load_certificate(certificate)
    mine, stranger = zmq.curve_keypair(), zmq.curve_keypair()
    door = {
        "curve.certificate": str(tmp_path / "hall.key_secret"),
        "curve.clients": [mine[0].decode()],
    }
    with (
        PingPongHall(tmp_path, **door) as hall,
        Worker(hall.address, bytes.upper, ping_s=0.1, curve=Curve(server_key, *mine)),
    ):
        with Client(hall.frontend, timeout_s=20.0, curve=Curve(server_key, *mine)) as client:
            assert client.submit(b"secret") == b"SECRET"
        for keys in (Curve(server_key, *stranger), Curve(stranger[0], *mine), Curve(server_key), None):
            with (
                Client(hall.frontend, timeout_s=0.5, retries=0, curve=keys) as outsider,
                pytest.raises(NoAnswer),
            ):
                outsider.submit(b"let me in")
