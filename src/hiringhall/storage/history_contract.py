"""The contract of a reader of the history: for commands and for the web, beside a running hall or without one.

Invariant: nothing is written, and no read transaction stays open between two calls. A reader is used by the
thread that opened it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiringhall.core.changes import EndRow, Firing, HistoryQuery, JobRow, OutputPage

__all__ = ["EndCount", "HistoryReader", "Quarantined"]


class EndCount(NamedTuple):
    """How many jobs of a queue ended in a state within a part of the time."""

    bucket: int
    """The time of their ends, divided by the length of a part."""
    queue: bytes
    state: int
    ends: int
    started: int
    """How many of them a worker had begun with."""
    wait_us: int
    """How long those waited from when they were created, or their parents had ended, to their last start."""
    run_us: int
    """How long their last attempts took."""


class Quarantined(NamedTuple):
    """A row that could not be read and was set aside."""

    source: str
    """The table it was in."""
    id: int
    reason: str
    set_aside_at: str


class HistoryReader(Protocol):
    """Reads, and changes no stored data. Rows that cannot be decoded are left out."""

    def history(self, query: HistoryQuery) -> list[EndRow]:
        """The matching lines with their results."""

    def page(self, query: HistoryQuery) -> tuple[list[EndRow], int | None]:
        """The matching lines, and the `before_id` of the next page; None: this was the last one. A page may be
        empty because no line of it could be decoded, and not be the last one.
        """

    def search(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[list[EndRow], int]:
        """The matching lines that are found in `limit_s`, newest first, and the id below which to go on; 0:
        there are no more. With `text`, lines that contain it, ASCII letters in either case. A line has no
        payload, and of its result the beginning.
        """

    def output(self, job_id: int, position: int) -> OutputPage:
        """What the workers of a job said, from a position on."""

    def live(self) -> Iterator[JobRow]:
        """The live jobs, ordered by id."""

    def latest(self, before_id: int | None = None) -> Iterator[JobRow]:
        """The live jobs with ids below `before_id`, newest first."""

    def ends(self, from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
        """What ended from one time until before another, counted by time, queue and state."""

    def count_lines(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[int, int]:
        """How many lines match, whatever the limit of the query, as far as that is known after `limit_s`; and
        the id below which to go on counting, 0: that is all.
        """

    def count(self) -> tuple[int, int]:
        """The number of live jobs and the number of history lines."""

    def firings(self) -> dict[str, Firing]:
        """The latest firing of each schedule."""

    def quarantined(self) -> list[Quarantined]:
        """The rows that were set aside."""

    def close(self) -> None:
        """Release it. It must not be used after this."""
