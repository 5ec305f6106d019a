"""A worker of the flow soak: it does tasks at once, fails some, and writes down when each began and ended.

Usage: soak_flow_worker.py FOLDER NUMBER SEED. A line of its log is `b` or `e`, the task, and a time, in
nanoseconds of the clock that all processes share. The end is written before the hall hears of it.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from native_peer import NativePeer

SLOTS: Final = 20
FAILING: Final = 0.03
"""The part of all attempts that fail."""
RECONNECT_S: Final = 0.05


def serve(folder: Path, number: int, seed: int) -> None:
    """Work until the connection is lost."""
    port = int((folder / "port").read_text())
    chance = random.Random(f"{seed} {number} {time.monotonic_ns()}")
    with NativePeer(port) as peer, (folder / f"tasks-{number}").open("ab", buffering=0) as log:
        peer.work(b"soak", slots=SLOTS, name=b"soak %d" % number)
        peer.socket.settimeout(None)
        while (frame := peer.read()) is not None:
            kind, _, body = frame
            if kind == "assign":
                do(peer, log, chance, body)


def do(peer: NativePeer, log: Any, chance: random.Random, body: list[Any]) -> None:
    lease, _, _, payload, *_ = body
    log.write(b"b %b %d\n" % (payload, time.monotonic_ns()))
    if chance.random() < FAILING:
        peer.send("fail", (lease, 1, b"bad luck", True))
        return
    log.write(b"e %b %d\n" % (payload, time.monotonic_ns()))
    peer.send("finish", (lease, b""))


def main() -> None:
    folder, number, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    while True:
        # The hall is killed now and then: the next one is at the same port.
        with suppress(OSError, AssertionError):
            serve(folder, number, seed)
        time.sleep(RECONNECT_S)


if __name__ == "__main__":
    main()
