"""`metrics` at the native door of a real hall, after real jobs of two dialects."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from hall_process import HallProcess, wait_until
from house_worker import HouseWorker
from native_peer import NativePeer

if TYPE_CHECKING:
    from pathlib import Path

NATIVE_TOO = '[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n'
TOTALS = ("submitted_total", "done_total", "failed_total", "cancelled_total", "retried_total", "lost_total")


def fresh(peer: NativePeer) -> Any:
    """An answer that was made after this call: the hall keeps one for a second."""
    at_us = peer.ask("metrics", None)["at_us"]
    answers: list[Any] = []
    wait_until(
        lambda: answers.append(peer.ask("metrics", None)) or answers[-1]["at_us"] > at_us, "a new answer"
    )
    return answers[-1]


def test_jobs_of_two_dialects_are_counted_exactly(tmp_path: Path) -> None:
    with (
        HallProcess(tmp_path, more=NATIVE_TOO) as hall,
        NativePeer(hall.ports[1]) as ann,
        NativePeer(hall.ports[1]) as bob,
        HouseWorker(hall.address),
        hall.client() as client,
    ):
        for number in range(7):
            assert client.submit("reverse", b"%d" % number * 2).result() == b"%d" % number * 2
        jobs = [ann.submit(b"q", b"%d" % number) for number in range(5)]
        bob.work(b"q")
        for place, _ in enumerate(jobs):
            lease = bob.hear("assign")[0]
            bob.ask("fail" if place == 4 else "finish", (lease, 1, b"", False) if place == 4 else (lease, b""))
        with socket.create_connection(("127.0.0.1", hall.ports[1])) as stranger:
            stranger.sendall(b"\xff\xff\xff\xff" * 2)
            while stranger.recv(4096):
                pass
        answer = fresh(ann)
        queues = answer["queues"]
        assert [queues[b"reverse"][name] for name in TOTALS] == [7, 7, 0, 0, 0, 0]
        assert [queues[b"q"][name] for name in TOTALS] == [5, 4, 1, 0, 0, 0]
        for name, ended in ((b"reverse", 7), (b"q", 5)):
            (_, waits), (_, runs) = queues[name]["wait"], queues[name]["run"]
            assert (sum(waits), sum(runs)) == (ended, ended)
        assert answer["workers"]["native"] == [0, 1]
        assert sum(answer["workers"]["gearman"]) >= 1
        mine = answer["hall"]
        assert mine["commit_rows"] >= 10
        assert mine["commit_failures"] == 0
        assert sum(mine["commit"][1]) >= 1
        assert abs(mine["resident_bytes"] - hall.rss_bytes()) < 20 << 20
        assert mine["descriptors"] > 5
        doors = {door["door"].partition("@")[0]: door for door in answer["doors"] if "sock" not in door["door"]}
        assert (doors["native"]["connections"], doors["native"]["accepted"]) == (2, 3)
        assert doors["native"]["events"] == {"bad_input": 1, "dead_letter": 1}
        assert doors["gearman"]["received_bytes"] > 7 * 12
        assert doors["gearman"]["sent_bytes"] > 7 * 12
        wait_until(lambda: sum(ann.ask("metrics", None)["hall"]["lag"][1]) > 0, "the lag is measured")
