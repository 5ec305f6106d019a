"""Lists and summaries at the native door of a real hall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hall_process import HallProcess, wait_until
from native_peer import NativePeer

if TYPE_CHECKING:
    from pathlib import Path

NATIVE_TOO = '[[door]]\ndialect = "native"\naddress = "127.0.0.1:0"\n'


def test_jobs_history_and_doors_of_all_dialects(tmp_path: Path) -> None:
    with (
        HallProcess(tmp_path, more=NATIVE_TOO) as hall,
        NativePeer(hall.ports[1]) as ann,
        NativePeer(hall.ports[1]) as bob,
        hall.client() as client,
    ):
        client.submit_background("rev", b"abc")
        jobs = [ann.submit(b"q", b"%d" % number) for number in range(5)]
        found, position = ann.ask("jobs", None)
        assert ([job["queue"] for job in found], position) == ([b"rev", *[b"q"] * 5], None)
        bob.work(b"q", slots=5)
        for _ in jobs:
            lease, job, *_ = bob.hear("assign")
            bob.ask("finish", (lease, b"%d" % job))
        page, position = ann.ask("history", {"queue": b"q", "state": "done", "count": 3})
        rest, end = ann.ask("history", {"queue": b"q", "state": "done", "before": position})
        assert [job["id"] for job in page + rest] == jobs[::-1]
        assert (page[0]["result"], end) == (b"%d" % jobs[-1], None)
        doors = ann.ask("doors", None)
        assert [tuple(door.values()) for door in doors] == [
            ("gearman", "", f"127.0.0.1:{hall.ports[0]}", 1),
            ("native", "", f"127.0.0.1:{hall.ports[1]}", 2),
            ("native", "", f"unix:{hall.data / 'native.sock'}", 0),
        ]


def test_a_subscriber_follows_a_queue(tmp_path: Path) -> None:
    with (
        HallProcess(tmp_path, door={"dialect": "native"}) as hall,
        NativePeer(hall.port) as ann,
        NativePeer(hall.port) as bob,
    ):
        ann.ask("subscribe", (250_000,))
        assert ann.hear("summary") == {"queues": {}, "workers": 0, "busy": 0}
        bob.submit(b"q", b"1")
        summary = ann.hear("summary")
        assert summary["queues"][b"q"][0] == 1
        bob.work(b"q")
        bob.ask("finish", (bob.hear("assign")[0], b""))
        wait_until(lambda: ann.hear("summary")["queues"][b"q"][5] == 1, "the end is counted")
