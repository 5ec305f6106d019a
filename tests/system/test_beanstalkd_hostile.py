"""Nonsense at the beanstalkd door of a real hall: it is answered, it is in the log, and nobody else notices."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING, Final

import pytest
from beanstalkd_house import BeanstalkdHall
from hall_process import wait_until
from neighbours import Neighbours
from testimony import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1 << 20
ANSWER_S: Final = 20.0
GROWTH_BYTES_MAX: Final = 24 * MIB
"""What the process may grow by while it is sent much more than this."""


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BeanstalkdHall, Neighbours]]:
    folder = tmp_path_factory.mktemp("besieged")
    with BeanstalkdHall(folder) as hall, Neighbours(hall) as neighbours:
        yield hall, neighbours


@pytest.fixture
def hall(besieged: tuple[BeanstalkdHall, Neighbours]) -> Iterator[BeanstalkdHall]:
    """The hall, checked after each test: the neighbours are served, every cross-reference holds."""
    hall, neighbours = besieged
    neighbours.expect_service()
    yield hall
    assert hall.running, f"the hall is gone:\n{hall.errors()}"
    neighbours.expect_service()
    assert audit(hall) == "clean"
    assert "Traceback" not in hall.errors()


def connect(hall: BeanstalkdHall) -> socket.socket:
    return socket.create_connection(hall.beanstalkd, ANSWER_S)


def read_lines(connection: socket.socket, count: int) -> list[bytes]:
    data = b""
    while data.count(b"\r\n") < count:
        piece = connection.recv(65_536)
        assert piece, f"closed after {data!r}"
        data += piece
    return data.split(b"\r\n")[:-1]


def test_each_mistake_is_answered_and_in_the_log(hall: BeanstalkdHall) -> None:
    with connect(hall) as connection:
        connection.sendall(
            b"dance\r\n"
            b"delete all\r\n"
            b"put 0 0 60 1\r\nxxx"
            b"put 0 0 60 70000\r\n" + b"x" * 70_000 + b"\r\n" + b"y" * 1000 + b"\r\nlist-tube-used\r\n"
        )
        assert read_lines(connection, 6) == [
            b"UNKNOWN_COMMAND",
            b"BAD_FORMAT",
            b"EXPECTED_CRLF",
            b"JOB_TOO_BIG",
            b"BAD_FORMAT",
            b"USING default",
        ]
    for text in ("the command is unknown", "its arguments are wrong", "job_bytes_max"):
        wait_until(lambda text=text: text in hall.errors(), f"the log has: {text}")


def test_bodies_that_are_too_long_take_no_memory(hall: BeanstalkdHall) -> None:
    before = hall.rss_bytes()
    piece = b"x" * MIB
    with connect(hall) as connection:
        connection.sendall(b"put 0 0 60 %d\r\n" % (100 * MIB))
        for _ in range(100):
            connection.sendall(piece)
            assert hall.rss_bytes() - before < GROWTH_BYTES_MAX
        connection.sendall(b"\r\nlist-tube-used\r\n")
        assert read_lines(connection, 2) == [b"JOB_TOO_BIG", b"USING default"]


def test_a_flood_behind_a_reserve_that_waits_is_cut_off_and_takes_no_memory(hall: BeanstalkdHall) -> None:
    before = hall.rss_bytes()
    with connect(hall) as connection:
        connection.sendall(b"watch quiet\r\nignore default\r\nreserve\r\n")
        assert read_lines(connection, 2) == [b"WATCHING 2", b"WATCHING 1"]
        flood = b"list-tube-used\r\n" * (200 * 65_536)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(flood)
        assert hall.rss_bytes() - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_harm_nobody(hall: BeanstalkdHall, seed: int) -> None:
    chance = random.Random(seed)
    lines = (b"put 0 0 1 9", b"reserve", b"", b"kick 9", b"watch a", b"delete 1", b"stats")
    words = [line + b"\r\n" for line in lines]
    for _ in range(50):
        with connect(hall) as connection:
            pieces = [chance.choice([*words, chance.randbytes(chance.randrange(300))]) for _ in range(30)]
            connection.sendall(b"".join(pieces))
    with connect(hall) as connection:
        connection.sendall(b"list-tube-used\r\n")
        assert read_lines(connection, 1) == [b"USING default"]
