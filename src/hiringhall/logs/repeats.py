"""Counts repeated messages, so that a flood of events becomes a few lines.

Invariant: each topic gets at most `lines_max` lines within a window; the rest is summarised when the window
ends. The number of topics is bounded.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_S: Final = 10.0
TOPICS_MAX: Final = 1000
"""If there are more topics, the window of the oldest ends early."""


class Topic(NamedTuple):
    """Messages that are counted together, whichever peer caused them."""

    level: int
    event: str
    """The kind of event; empty for other messages."""
    text: str
    """The start of the summary."""
    door: str = ""
    queue: bytes = b""


class Summary(NamedTuple):
    """The messages of one topic that were not written."""

    topic: Topic
    unwritten: int
    window_s: float


class _Window:
    __slots__ = ("began_s", "count", "lines_max")

    def __init__(self, began_s: float, lines_max: int) -> None:
        self.began_s = began_s
        self.lines_max = lines_max
        self.count = 1


class Repeats:
    """Shared by the threads that log and the thread that writes."""

    def __init__(self, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s = window_s
        self._clock = clock
        self._windows: dict[Topic, _Window] = {}
        """In the order of their start."""
        self._ended: list[Summary] = []
        self._lock = threading.Lock()

    def admit(self, topic: Topic, lines_max: int) -> bool:
        """Whether to write a line of this topic; if not, it is counted."""
        with self._lock:
            window = self._windows.get(topic)
            now_s = self._clock()
            if window is not None and now_s < window.began_s + self._window_s:
                window.count += 1
                return window.count <= window.lines_max
            if window is not None:
                self._end(topic, now_s)
            elif len(self._windows) >= TOPICS_MAX:
                self._end(next(iter(self._windows)), now_s)
            self._windows[topic] = _Window(now_s, lines_max)
            return True

    def summaries(self, *, all_of_them: bool = False) -> list[Summary]:
        """Summaries of the windows that are over, or of all windows, with unwritten messages."""
        with self._lock:
            now_s = self._clock()
            while self._windows:
                topic, window = next(iter(self._windows.items()))
                if not all_of_them and now_s < window.began_s + self._window_s:
                    break
                self._end(topic, now_s)
            ended = self._ended
            self._ended = []
            return ended

    def _end(self, topic: Topic, now_s: float) -> None:
        window = self._windows.pop(topic)
        unwritten = window.count - window.lines_max
        if unwritten > 0:
            self._ended.append(Summary(topic, unwritten, min(now_s - window.began_s, self._window_s)))
