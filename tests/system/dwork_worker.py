"""A dwork worker that can be killed at any moment: python dwork_worker.py ADDRESS LOCATION FOLDER

It writes down what it does, before it says so, in FOLDER/LOCATION: `stole TIME NAME`, `doing TIME NAME` right
before the Complete is sent, `told TIME NAME` once it is answered. A worker that comes back under the same
location completes what it finds there, and says Exit to give back what it was handed and never saw.
It ends when it hears Exit and FOLDER/finish is there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Final

from dwork_peer import Asker

from hiringhall.dialects.dwork import wire

BATCH: Final = 64
TIMEOUT_S: Final = 1.5
PAUSE_S: Final = 0.02
FRUITLESS_MAX: Final = 25
"""After so many Steals in vain the location says that it holds nothing: an answer may have been lost."""


class Journal:
    """Lines that outlive the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, event: str, names: list[bytes]) -> None:
        now_us = time.monotonic_ns() // 1000
        os.write(self._file, b"".join(b"%b %d %b\n" % (event.encode(), now_us, name) for name in names))


def read_journal(path: Path) -> list[tuple[str, int, bytes]]:
    """Event, time and name of each whole line."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [(event.decode(), int(time_us), name) for event, time_us, name in map(bytes.split, lines)]


def unfinished(path: Path) -> list[bytes]:
    """What was stolen and of which no answer says that it is complete."""
    open_tasks: dict[bytes, None] = {}
    for event, _, name in read_journal(path):
        if event == "stole":
            open_tasks[name] = None
        elif event == "told":
            open_tasks.pop(name, None)
    return list(open_tasks)


def complete(asker: Asker, location: bytes, journal: Journal, names: list[bytes]) -> None:
    journal.write("doing", names)
    asker.complete(location, names)
    journal.write("told", names)


def work(address: str, location: bytes, folder: Path) -> None:
    path = folder / location.decode()
    left_over = unfinished(path)
    journal = Journal(path)
    nothing = threading.Event()  # dwork tells nobody of new work: a worker asks again after a while
    with Asker(address, TIMEOUT_S) as asker:
        if left_over:
            complete(asker, location, journal, left_over)
        asker.leave(location)
        fruitless = 0
        while True:
            resent = asker.resent
            kind, names = asker.steal(location, BATCH)
            if names:
                fruitless = 0
                journal.write("stole", names)
                complete(asker, location, journal, names)
            elif kind == wire.EXIT and (folder / "finish").exists():
                return
            else:
                assert kind in (wire.NOT_FOUND, wire.EXIT)
                fruitless += 1
                nothing.wait(PAUSE_S)
            if asker.resent > resent or fruitless >= FRUITLESS_MAX:
                fruitless = 0
                asker.leave(location)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2].encode(), Path(sys.argv[3]))
