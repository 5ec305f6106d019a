"""Watches the memory of the web process of a hall under load.

    python bench/web_memory.py --minutes 60      ten dashboards, a scraper, and jobs all the time

Prints the resident memory of the web process and of the hall as it goes, and at the end how much the web
process grew from the third quarter of the time to the last. In the first half it fills its caches: each thread
that reads the history has one of SQLite. Ctrl-C or SIGTERM ends it early, with the verdict on the time so far.
The exit code is 1 if it grew by more than `--allowed`, and 2 if there is no verdict or something else failed.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import threading
import time
from pathlib import Path

from run import BUILD
from scenarios import Running
from servers import ServerError
from slap import Load, Slap, SlapError

from web import Watchers, WebHall

LOAD = Load(clients=4, depth=16, workers=4, unique=True)
JOBS = 2000
PAUSE_S = 1.0
EVERY_S = 15.0
FIGURES_MIN = 8
FAULTS_MAX = 10
ALLOWED = 1.02


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Watch the memory of the web process under load.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--dashboards", type=int, default=10)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the hall")
    parser.add_argument("--folder", type=Path, default=BUILD / "memory", help="must be on a disk")
    parser.add_argument(
        "--allowed", type=float, default=ALLOWED, help=f"the growth that passes (default {ALLOWED})"
    )
    return parser.parse_args()


def memory_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except FileNotFoundError:
        pass
    raise ServerError(f"process {pid} has ended")


class Watch:
    """What was seen, also of a time that ended early."""

    def __init__(self, hall: WebHall, slap: Slap) -> None:
        self.web_mib: list[float] = []
        """The memory of the web process, every `EVERY_S`."""
        self.faults: list[str] = []
        self.ended = threading.Event()
        self._hall = hall
        self._slap = slap

    def run(self, minutes: float) -> None:
        """Look at the memory while jobs come and go. Jobs that fail are a fault, and others follow."""
        web_pid = self._hall.web_pid()
        started_s = time.monotonic()
        while not self.ended.is_set() and len(self.faults) < FAULTS_MAX:
            at_s = time.monotonic() - started_s
            if at_s >= 60 * minutes:
                return
            if at_s >= len(self.web_mib) * EVERY_S:
                self.web_mib.append(memory_mib(web_pid))
                hall_mib = memory_mib(self._hall.pid)
                print(f"{at_s:6.0f} s  web {self.web_mib[-1]:7.1f} MiB  hall {hall_mib:7.1f} MiB", flush=True)
            for mode in ("fg", "bg"):
                try:
                    self._slap.run(self._hall, mode, JOBS, LOAD)
                except SlapError as error:
                    if not self.ended.is_set():
                        self.fault(f"after {time.monotonic() - started_s:.0f} s: {error}")
            self.ended.wait(PAUSE_S)

    def fault(self, text: str) -> None:
        self.faults.append(text)
        print(text, flush=True)

    def verdict(self, allowed: float) -> int:
        seen = self.web_mib
        if len(seen) < FIGURES_MIN:
            print("too short a time to compare its parts")
            return 2
        quarter = len(seen) // 4
        before, after = statistics.median(seen[-2 * quarter : -quarter]), statistics.median(seen[-quarter:])
        growth = after / before
        flat = "flat" if growth <= allowed else "not flat"
        figures = f"{before:.1f} MiB, then {after:.1f} MiB: {growth:.3f} times"
        print(f"web: {figures}, {flat}; {len(self.faults)} faults")
        if growth > allowed:
            return 1
        return 2 if self.faults else 0


def main() -> int:
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    hall = WebHall("hall", options.folder / "hall", options.python)
    try:
        slap = Slap(options.folder)
    except SlapError as error:
        print(error)
        return 2
    watch = Watch(hall, slap)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: watch.ended.set())
    try:
        with Running([hall]), Watchers(hall.web, options.dashboards) as watchers:
            watch.run(options.minutes)
        print(watchers.counts)
    except ServerError as error:
        watch.fault(str(error))
    return watch.verdict(options.allowed)


if __name__ == "__main__":
    sys.exit(main())
