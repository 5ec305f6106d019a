"""What workers say while a job runs is kept with the job: over kill -9, over attempts, and in its history."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hall_process import HallProcess, wait_until
from native_peer import NativePeer

from hiringhall.dialects.gearman import wire
from hiringhall.storage.opening import open_history
from stage import forking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GEARMAN = '[[door]]\ndialect = "gearman"\naddress = "127.0.0.1:0"\n'
HISTORY = "[history]\npayload_bytes_max = 8\n"
ANSWER_S = 20.0


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[HallProcess]:
    with HallProcess(tmp_path, door={"dialect": "native"}, more=GEARMAN + HISTORY) as hall:
        yield hall


class GearmanWorker:
    """A plain socket at the Gearman door that takes one job."""

    def __init__(self, port: int, function: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._packets = wire.Reader(wire.RESPONSE)
        self._send(wire.CAN_DO, function)
        self._send(wire.GRAB_JOB)
        packet_type, body = self._receive()
        assert packet_type == wire.JOB_ASSIGN
        self._handle = body.partition(b"\0")[0]

    def report(self, packet_type: int, data: bytes) -> None:
        self._send(packet_type, self._handle, data)

    def close(self) -> None:
        self._socket.close()

    def _send(self, packet_type: int, *args: bytes) -> None:
        self._socket.sendall(wire.pack_request(packet_type, *args))

    def _receive(self) -> tuple[int, bytes]:
        while True:
            data = self._socket.recv(65_536)
            assert data, "the hall has closed the connection"
            for packet in self._packets.feed(data):
                return packet


def stored(hall: HallProcess, job: int) -> list[bytes]:
    """The data of the lines that are on disk."""
    with closing(open_history(hall.place)) as reader:
        return [line.data for line in reader.output(job, 0).lines]


def output(peer: NativePeer, job: int) -> list[tuple[int, bytes]]:
    lines, _ = peer.ask("output", (job, 0))
    return [(kind, data) for _, kind, data in lines]


def shown(hall: HallProcess, *options: str) -> str:
    """What `hall history` prints."""
    command = [*forking.HALL, "history", "--data", hall.place, *options]
    ended = forking.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    said: str = ended.stdout
    return said


def test_output_of_workers_of_two_dialects_survives_kill_9_and_the_end_of_the_job(hall: HallProcess) -> None:
    with NativePeer(hall.port) as ann:
        job = ann.submit(b"resize", b"cat.jpg in a large folder", watch=2)
        with closing(GearmanWorker(hall.ports[1], b"resize")) as bob:
            bob.report(wire.WORK_DATA, b"\x1b[31mhalf")
            bob.report(wire.WORK_WARNING, b"too dark")
            assert [ann.hear("chunk") for _ in range(2)] == [
                [job, b"\x1b[31mhalf", False],
                [job, b"too dark", True],
            ]
            assert output(ann, job) == [(0, b"\x1b[31mhalf"), (1, b"too dark")]
            wait_until(lambda: len(stored(hall, job)) == 2, "both lines are on disk")
            hall.kill()
    hall.start()
    with NativePeer(hall.port) as ann, NativePeer(hall.port) as cat:
        assert output(ann, job) == [(0, b"\x1b[31mhalf"), (1, b"too dark")]
        ann.ask("watch", (job, 2))
        lease, given, *_ = cat.work(b"resize").hear("assign")
        assert given == job
        cat.ask("log", (lease, b"once more\nfrom the start"))
        assert ann.hear("log") == [job, b"once more\nfrom the start"]
        assert output(ann, job)[2:] == [(2, b"once more\nfrom the start")]
        cat.ask("finish", (lease, b"small"))
        assert ann.hear("ended") == [job, "done", 0, b"small"]
    hall.kill()
    hall.start()
    lines = [(0, b"\x1b[31mhalf"), (1, b"too dark"), (2, b"once more\nfrom the start")]
    with NativePeer(hall.port) as ann:
        assert output(ann, job) == lines
        described = ann.ask("job", (job,))
        assert (described["payload"], described["payload_bytes"]) == (b"cat.jpg ", 25)
    record = json.loads(shown(hall, "--id", str(job), "--json"))
    assert [(line["kind"], line["data"]) for line in record["output"]] == [
        ("data", "\x1b[31mhalf"),
        ("warning", "too dark"),
        ("log", "once more\nfrom the start"),
    ]
    assert (record["payload"], record["payload_bytes"], record["extras"]) == ("cat.jpg ", 25, {})
    text = shown(hall, "--id", str(job), "--no-pager")
    assert "payload   25 bytes, the first 8 of them are kept\n    cat.jpg \n" in text
    assert "output    3 lines\n" in text
    assert "data    \\x1b[31mhalf\n" in text
    assert "log     once more\n        from the start\n" in text
    assert "\x1b" not in text


def test_a_hall_that_keeps_no_output_still_tells_its_watchers(tmp_path: Path) -> None:
    history = "[history]\noutput_bytes_max = 0\npayload_bytes_max = 0\n"
    with (
        HallProcess(tmp_path, door={"dialect": "native"}, more=history) as hall,
        NativePeer(hall.port) as ann,
        NativePeer(hall.port) as bob,
    ):
        job = ann.submit(b"resize", b"cat.jpg", watch=2)
        lease, *_ = bob.work(b"resize").hear("assign")
        bob.ask("log", (lease, b"line"))
        assert ann.hear("log") == [job, b"line"]
        bob.ask("finish", (lease, b""))
        assert ann.hear("ended") == [job, "done", 0, b""]
        assert ann.ask("output", (job, 0)) == [[], 0]
        described = ann.ask("job", (job,))
        assert (described["payload"], described["payload_bytes"]) == (b"", 0)
        assert stored(hall, job) == []
