"""The bare loop in C passes every job of the load generator on, and its row stands beside the hall's."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from scenarios import BESIDE_GEARMAND, Foreground, Stage
from servers import BareLoop
from slap import HERE, Load, Slap

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 2_000

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def slap(tmp_path_factory: pytest.TempPathFactory) -> Slap:
    return Slap(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def loop(slap: Slap, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareLoop]:
    server = BareLoop(tmp_path_factory.mktemp("bare"), slap.bare_loop)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("load", [Load(4, 64, 4), Load(2, 8, 100), Load(1, 1, 1), Load(2, 8, 1, unique=True)])
def test_every_job_comes_back_to_its_client(slap: Slap, loop: BareLoop, load: Load) -> None:
    seen = slap.run(loop, "fg", JOBS, load)
    assert (seen["jobs"], seen["failed"]) == (JOBS, 0)


def test_a_packet_may_come_byte_by_byte_and_its_payload_is_passed_on(loop: BareLoop) -> None:
    with connected(loop) as client, connected(loop) as worker:
        for byte in packet(7, b"reverse\0key\0hello\0you"):
            client.sendall(bytes([byte]))
        created, handle = received(client)
        assert created == 8
        worker.sendall(packet(9, b""))
        assert received(worker) == (11, handle + b"\0reverse\0hello\0you")
        worker.sendall(packet(13, handle + b"\0uoy"))
        assert received(client) == (13, handle + b"\0uoy")
        worker.sendall(packet(9, b"") + packet(4, b""))
        assert received(worker) == (10, b"")
        client.sendall(packet(7, b"reverse\0\0again"))
        assert received(worker) == (6, b""), "a sleeping worker is woken"


def test_the_job_of_a_client_that_left_is_done_and_the_loop_goes_on(slap: Slap, loop: BareLoop) -> None:
    with connected(loop) as client:
        client.sendall(packet(7, b"reverse\0\0lost"))
        _, handle = received(client)
    with connected(loop) as worker:
        assigned = b""
        while not assigned.startswith(handle + b"\0"):  # jobs of other tests may be before it
            worker.sendall(packet(9, b""))
            kind, assigned = received(worker)
            assert kind == 11
        worker.sendall(packet(13, handle + b"\0done"))
    assert slap.run(loop, "fg", JOBS, Load())["failed"] == 0


def test_the_c_code_has_no_warnings(tmp_path: Path) -> None:
    command = [
        "cc",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(tmp_path / "loop"),
        str(HERE / "bare_loop.c"),
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_the_bare_loop_is_measured_in_every_row_of_foreground_jobs(slap: Slap, tmp_path: Path) -> None:
    stage = Stage(slap, tmp_path, sys.executable, 1, 1.0, lambda _: None)
    assert [server.name for server in stage.foreground_servers()] == ["gearmand", "hall", BareLoop.name]
    stage.halls_only = True
    assert [server.name for server in stage.foreground_servers()] == ["hall"]
    assert BareLoop.name in BESIDE_GEARMAND.servers
    assert any(isinstance(scenario, Foreground) for scenario in BESIDE_GEARMAND.scenarios)


def packet(kind: int, body: bytes) -> bytes:
    return b"\0REQ" + kind.to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def connected(loop: BareLoop) -> socket.socket:
    return socket.create_connection(("127.0.0.1", loop.port), timeout=30)


def received(connection: socket.socket) -> tuple[int, bytes]:
    header = exactly(connection, 12)
    assert header[:4] == b"\0RES"
    return int.from_bytes(header[4:8], "big"), exactly(connection, int.from_bytes(header[8:], "big"))


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, "the loop closed the connection"
        data += more
    return data
