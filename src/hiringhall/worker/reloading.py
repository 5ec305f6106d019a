"""Which files have changed: their times and sizes, looked at twice a second. For `--reload`."""

from __future__ import annotations

import os
from typing import Final

INTERVAL_S: Final = 0.5
Stamp = tuple[int, int]


class Files:
    """The files to watch, as they were when the code was loaded."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}

    def watch(self, files: list[bytes]) -> None:
        """Watch these from now on, beside the files that are watched already."""
        for file in map(os.fsdecode, files):
            self._stamps.setdefault(file, _stamp(file))

    def changed(self) -> list[str]:
        """The files that have changed since they were asked for last."""
        found: list[str] = []
        for file, stamp in self._stamps.items():
            now = _stamp(file)
            if now != stamp:
                self._stamps[file] = now
                found.append(file)
        return found


def _stamp(file: str) -> Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116 (text, as in the modules)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size
