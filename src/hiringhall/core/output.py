"""Output: what workers say while their jobs run, on its way to the store.

Invariant: it is bounded, whatever workers send. Nobody waits for it: it is written with the next commit, and
dropped while the store is in trouble. Nothing is kept here of a job that said nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import (
    OUTPUT_LINE_BYTES,
    OUTPUT_PAGE_BYTES,
    OutputPage,
    OutputRow,
    output_bytes,
)

if TYPE_CHECKING:
    from hiringhall.core.changes import Batch

OUTPUT_BYTES_MAX: Final = 256 << 10
"""How much output of one job is kept, unless the hall has another setting."""
GATHERED_BYTES_MAX: Final = 16 << 20
"""Output of all jobs that waits for the next commit. Above it, the oldest lines are dropped, down to half."""


class Output:
    """The lines that are not on disk."""

    __slots__ = ("_bytes", "_gathered", "_sealed", "bytes_max")

    def __init__(self) -> None:
        self.bytes_max = OUTPUT_BYTES_MAX
        """How much of one job is kept; 0: none."""
        self._gathered: list[OutputRow] = []
        self._bytes = 0
        """The size of the gathered lines."""
        self._sealed: list[OutputRow] = []
        """The lines of the batch that is being committed."""

    def __len__(self) -> int:
        return len(self._gathered)

    def keep_up_to(self, bytes_max: int) -> None:
        """Set how much output of one job is kept; 0: none."""
        self.bytes_max = bytes_max

    def add(self, job_id: int, at_us: int, kind: int, data: bytes) -> None:
        """Keep a line; of a very long one, its end."""
        room = self.bytes_max - OUTPUT_LINE_BYTES
        if len(data) > room:
            data = data[len(data) - max(room, 0) :]
        self._gathered.append(OutputRow(job_id, at_us, kind, data))
        self._bytes += output_bytes(data)
        if self._bytes > GATHERED_BYTES_MAX:
            self._make_room()

    def _make_room(self) -> None:
        """Drop first what the store would drop: the older lines of jobs that said more than is kept."""
        kept: list[OutputRow] = []
        size = 0
        sizes: dict[int, int] = {}
        for line in reversed(self._gathered):
            line_bytes = output_bytes(line.data)
            job_bytes = sizes.get(line.job, 0) + line_bytes
            if job_bytes > self.bytes_max:
                sizes[line.job] = self.bytes_max
            elif size + line_bytes <= GATHERED_BYTES_MAX // 2:
                sizes[line.job] = job_bytes
                size += line_bytes
                kept.append(line)
        kept.reverse()
        self._gathered = kept
        self._bytes = size

    def seal(self, batch: Batch) -> None:
        """Move the lines to a batch, which is about to be committed."""
        if self._gathered:
            self._sealed = batch.output = self._gathered
            self._gathered = []
            self._bytes = 0

    def committed(self) -> None:
        """The sealed lines are on disk."""
        if self._sealed:
            self._sealed = []

    def drop(self) -> None:
        """The store is in trouble."""
        self._gathered = []
        self._sealed = []
        self._bytes = 0

    def complete(self, page: OutputPage, job_id: int, position: int) -> OutputPage:
        """What the store has of a job from a position on, and what has been said since: a page of it."""
        unwritten = [line for line in self._sealed + self._gathered if line.job == job_id]
        if page.more or not unwritten:
            return page
        lines = list(page.lines)
        end = page.end
        room = OUTPUT_PAGE_BYTES
        for line in unwritten:
            size = output_bytes(line.data)
            if end >= position:
                if room <= 0:
                    return OutputPage(lines, end, more=True)
                lines.append(line._replace(position=end))
                room -= size
            end += size
        return OutputPage(lines, end)
