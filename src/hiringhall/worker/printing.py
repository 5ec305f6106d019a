"""Lines to stdout from a thread of their own, so that a reader who does not read holds up no job.

Invariant: `write` never blocks. If more than LINES_MAX lines wait, further ones are dropped, and that is told.
"""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
from typing import Final

LINES_MAX: Final = 10_000
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys, but line ends and tabs."""
CLOSE_S: Final = 1.0
"""How long the reader may take for the last lines."""


def harmless(text: str) -> str:
    """The text with control characters escaped: what a job tells must not command the terminal."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Printer:
    """Writes text to a descriptor."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(LINES_MAX)
        self._dropped = 0
        self._writer = threading.Thread(target=self._run, name="printer", daemon=True)
        self._writer.start()

    def write(self, text: str) -> None:
        """Write it soon."""
        try:
            if self._dropped:
                self._lines.put_nowait(f"({self._dropped} lines were dropped: nobody read them)\n")
                self._dropped = 0
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what is left, if the reader reads."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._writer.join(CLOSE_S)

    def _run(self) -> None:
        while (text := self._lines.get()) is not None:
            data = text.encode("utf-8", "backslashreplace")
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                return
