"""Watches the memory of the web process of a hall under load.

    python bench/web_memory.py --minutes 60      ten dashboards, a scraper, and jobs all the time

Prints the resident memory of the web process and of the hall as it goes, and at the end how much the web
process grew from the third quarter of the time to the last. In the first half it fills its caches: each thread
that reads the history has one of SQLite. The exit code is 1 if it grew by more than `--allowed`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
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
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ServerError(f"process {pid} has ended")


def watch(hall: WebHall, slap: Slap, minutes: float) -> list[float]:
    """The memory of the web process, again and again, while jobs come and go."""
    seen: list[float] = []
    web_pid = hall.web_pid()
    started = time.monotonic()
    while time.monotonic() < started + 60 * minutes:
        slap.run(hall, "fg", JOBS, LOAD)
        slap.run(hall, "bg", JOBS, LOAD)
        time.sleep(PAUSE_S)
        at_s = time.monotonic() - started
        if at_s >= len(seen) * EVERY_S:
            seen.append(memory_mib(web_pid))
            print(f"{at_s:6.0f} s  web {seen[-1]:7.1f} MiB  hall {memory_mib(hall.pid):7.1f} MiB", flush=True)
    return seen


def main() -> int:
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    hall = WebHall("hall", options.folder / "hall", options.python)
    try:
        slap = Slap(options.folder)
        with Running([hall]), Watchers(hall.web, options.dashboards) as watchers:
            seen = watch(hall, slap, options.minutes)
    except (ServerError, SlapError) as error:
        print(error)
        return 2
    if len(seen) < FIGURES_MIN:
        print("too short a time to compare its parts")
        return 2
    quarter = len(seen) // 4
    before, after = statistics.median(seen[-2 * quarter : -quarter]), statistics.median(seen[-quarter:])
    growth = after / before
    print(f"{watchers.counts}; web: {before:.1f} MiB, then {after:.1f} MiB: {growth:.3f} times")
    return int(growth > options.allowed)


if __name__ == "__main__":
    sys.exit(main())
