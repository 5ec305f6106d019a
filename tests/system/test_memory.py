"""What peers make a hall keep is bounded for all of them together, and those who keep little are served."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import TYPE_CHECKING

from hall_process import HallProcess, wait_until

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
BUDGET_BYTES = 32 * MIB
SLACK_BYTES = 24 * MIB
"""What the interpreter may need besides: pieces on their way, and memory that it does not give back."""
SETTINGS = {"buffer_bytes_max": BUDGET_BYTES, "log_format": "json", "storage": "memory"}


def connect(hall: HallProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", hall.port), timeout=20)


def begin_packet(connection: socket.socket, body_bytes: int, sent_bytes: int) -> None:
    """Send the beginning of a SUBMIT_JOB; the hall may hang up meanwhile."""
    head = wire.request_head(wire.SUBMIT_JOB) + wire.pack_size(body_bytes)
    with contextlib.suppress(ConnectionError):
        connection.sendall(head + b"rev\0\0" + b"x" * (sent_bytes - 5))


def is_open(connection: socket.socket) -> bool:
    """Whether the hall has not hung up."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(20)


def dropped(hall: HallProcess) -> int:
    """How many peers the log tells of as dropped for the sake of the budget."""
    lines = map(json.loads, hall.errors().rpartition("\n")[0].splitlines())
    return sum(int(line.get("repeated", 1)) for line in lines if line["event"] == "over_budget")


def test_unfinished_packets_of_many_keep_within_one_budget_and_an_honest_one_is_served(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=SETTINGS) as hall, contextlib.ExitStack() as stack:
        honest = stack.enter_context(connect(hall))
        begin_packet(honest, 2 * MIB, MIB)
        before_bytes = hall.rss_bytes()
        greedy = [stack.enter_context(connect(hall)) for _ in range(20)]
        peak_bytes = 0
        for connection in greedy:
            begin_packet(connection, 9 * MIB, 8 * MIB)
            peak_bytes = max(peak_bytes, hall.rss_bytes())
        wait_until(lambda: sum(map(is_open, greedy)) <= BUDGET_BYTES // (8 * MIB), "the greediest are dropped")
        assert hall.admin("version") != []
        honest.sendall(b"x" * MIB)
        assert honest.recv(4096).startswith(wire.RESPONSE), "it completes its packet and is answered"
        assert peak_bytes - before_bytes < BUDGET_BYTES + SLACK_BYTES
        assert any(map(is_open, greedy)), "no more are dropped than must be"
        hall.drain()
        assert hall.wait() == 0
        assert 16 <= dropped(hall) < 20


def test_output_that_many_do_not_read_keeps_within_the_same_budget(tmp_path: Path) -> None:
    with HallProcess(tmp_path, hall=SETTINGS, door={"output_soft_bytes": 8 * MIB}) as hall:
        before_bytes = hall.rss_bytes()
        with contextlib.ExitStack() as stack:
            lazy = [stack.enter_context(connect(hall)) for _ in range(20)]
            echo = wire.pack_request(wire.ECHO_REQ, b"x" * MIB)
            for connection in lazy:
                connection.settimeout(1)
                with contextlib.suppress(TimeoutError, ConnectionError):
                    for _ in range(20):
                        connection.sendall(echo)
                assert hall.rss_bytes() - before_bytes < BUDGET_BYTES + SLACK_BYTES
            wait_until(lambda: dropped(hall) > 0, "some are dropped")
            assert hall.admin("version") != []
