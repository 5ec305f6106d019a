"""ZeroMQ peers that want the hall's memory, its descriptors or its time: others are served as before."""

from __future__ import annotations

import os
import resource
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import zmq
from dwork_peer import Asker
from dwork_zmtp import MORE, RawDealer, frame, frame_header
from hall_process import HallProcess, wait_until
from many_doors import ManyDoors

from hiringhall.dialects.dwork import wire

MIB: Final = 1 << 20
PEERS: Final = 10
BUDGET: Final = 100 * MIB
UNFINISHED: Final = 64 * MIB


def test_unfinished_messages_of_many_peers_stay_within_the_budget(tmp_path: Path) -> None:
    """Ten peers with 64 of 65 MiB each: 640 MiB, of which no more than the budget may be held at any time."""
    with (
        HallProcess(tmp_path, hall={"buffer_bytes_max": BUDGET}, door={"dialect": "dwork"}) as hall,
        Asker(hall.address) as honest,
        ExitStack() as stack,
    ):
        honest.create([(b"t", ())])
        before_bytes = hall.rss_bytes()
        greedy = [stack.enter_context(RawDealer(hall.port)) for _ in range(PEERS)]
        piece = bytes(MIB)
        alive = dict.fromkeys(greedy)
        most = 0
        for peer in greedy:
            peer.send(frame_header(65 * MIB))
        for _ in range(UNFINISHED // MIB):
            for peer in list(alive):
                try:
                    peer.send(piece)
                except ConnectionError:
                    del alive[peer]
            most = max(most, hall.rss_bytes() - before_bytes)
            assert honest.status() == (1, 0, 0)
        assert most < BUDGET + 64 * MIB, f"{most / MIB:.0f} MiB were held"
        assert len(alive) < PEERS
        wait_until(lambda: "over budget" in hall.errors(), "the log says why they were dropped")
        assert honest.steal(b"w") == (wire.TRANSFER, [b"t"])


def test_a_message_that_never_ends_is_cut_off_and_costs_nothing(tmp_path: Path) -> None:
    door = {"dialect": "dwork", "message_bytes_max": MIB}
    with HallProcess(tmp_path, door=door) as hall, Asker(hall.address) as honest:
        honest.status()
        before_bytes = hall.rss_bytes()
        for part in (frame(b"", MORE), frame(b"x" * 60_000, MORE)):
            many = part * (200_000 // len(part))
            with RawDealer(hall.port) as endless:
                sent = 0
                with suppress(ConnectionError):
                    while sent < 32 * MIB:
                        endless.send(many)
                        sent += len(many)
                assert sent < 32 * MIB, "nobody cut it off"
            assert honest.status() == (0, 0, 0)
        assert hall.rss_bytes() - before_bytes < 16 * MIB


def test_without_descriptors_the_hall_serves_those_inside_and_uses_no_cpu_time(tmp_path: Path) -> None:
    with HallProcess(tmp_path, door={"dialect": "dwork"}) as hall, Asker(hall.address) as inside:
        inside.status()
        open_files = len(list(Path(f"/proc/{hall.pid}/fd").iterdir()))
        _, hard = resource.prlimit(hall.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(hall.pid, resource.RLIMIT_NOFILE, (open_files + 5, hard))
        with ExitStack() as stack:
            for _ in range(50):
                stack.enter_context(socket.create_connection(("127.0.0.1", hall.port), 20))
            inside.status()
            before_s = cpu_s(hall.pid)
            time.sleep(1.0)
            assert cpu_s(hall.pid) - before_s < 0.3
            inside.status()
        resource.prlimit(hall.pid, resource.RLIMIT_NOFILE, (hard, hard))
        with Asker(hall.address) as newcomer:
            assert newcomer.status() == (0, 0, 0)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_served_hall_has_not_loaded_pyzmq(tmp_path: Path) -> None:
    unopened = ManyDoors(tmp_path)
    unopened.own_python = True
    with unopened as hall, hall.asker() as asker:
        assert asker.status() == (0, 0, 0)
        assert b"zmq" not in Path(f"/proc/{hall.pid}/maps").read_bytes()
    assert zmq.zmq_version_info() >= (4, 0, 0)
    assert b"zmq" in Path("/proc/self/maps").read_bytes(), "where it is loaded, this shows it"
