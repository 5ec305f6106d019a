"""Measures how long something takes, without the time in which the machine ran nothing of this process.

For promises with an upper bound, such as "within a second": a machine that stalls, or has many processes to
run, breaks none of them. Where the machine is idle it shows what a clock shows; it never shows more.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Self

_STEP_S: Final = 0.005
_STEP_COUNTED_S_MAX: Final = 0.02
"""A step that took longer is one in which the machine was busy elsewhere."""


class Stopwatch:
    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._count, name="stopwatch", daemon=True)

    def _count(self) -> None:
        before_s = time.monotonic()
        while not self._stopped.wait(_STEP_S):
            now_s = time.monotonic()
            self.elapsed_s += min(now_s - before_s, _STEP_COUNTED_S_MAX)
            before_s = now_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
