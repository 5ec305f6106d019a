"""What workers said about their jobs, in the file.

Invariant: the position of a line is the size of all lines before it, so that the latest `bytes_max` of a job
are found without counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import OUTPUT_PAGE_BYTES, OutputPage, OutputRow, output_bytes
from hiringhall.storage.sqlite.statements import CHUNK_BYTES_MAX, Bulk, Statement

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from hiringhall.storage.sqlite.statements import Value

ENDS_MAX: Final = 10_000
"""Jobs whose end of output is remembered; of others it is read when it is needed."""

_INSERT: Final = (
    "INSERT INTO output (job, position, at_us, kind, data)"
    " SELECT column1, column2, column3, column4, column5 FROM (VALUES {rows}) WHERE column1"
)
_WIDTH: Final = 5
_TRIM: Final = "DELETE FROM output WHERE job = ? AND position < ?"
_FROM: Final = (
    "SELECT at_us, kind, data, position FROM output WHERE job = ? AND position >= ? ORDER BY position"
)
_LAST: Final = "SELECT position, data FROM output WHERE job = ? ORDER BY position DESC LIMIT 1"


class OutputWriter:
    """Gives each line its position, and drops the oldest lines of a job that has too many."""

    def __init__(self, connection: sqlite3.Connection, bytes_max: int) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        self._ends: dict[int, int] = {}
        """Where the output of a job ends, with the lines of the current batch."""
        self._bulk = Bulk(_INSERT, _WIDTH)

    def statements(self, rows: list[OutputRow]) -> Iterator[Statement]:
        if not self._bytes_max:
            return
        if len(self._ends) > ENDS_MAX:
            self._ends.clear()
        values: list[Value] = []
        content_bytes = 0
        for row in rows:
            size = output_bytes(row.data)
            position = self._end(row.job)
            self._ends[row.job] = position + size
            values += (row.job, position, row.at_us, row.kind, bytearray(row.data))
            content_bytes += size
            if len(values) >= self._bulk.values_max or content_bytes >= CHUNK_BYTES_MAX:
                yield from self._bulk.statements(values, content_bytes)
                values, content_bytes = [], 0
        if values:
            yield from self._bulk.statements(values, content_bytes)
        for job_id in dict.fromkeys([row.job for row in rows]):
            if self._ends[job_id] > self._bytes_max:
                yield Statement(_TRIM, [job_id, self._ends[job_id] - self._bytes_max])

    def kept_bytes(self, job_id: int) -> int:
        """How much of a job that ends is kept; 0 only if it has said nothing."""
        end = self._end(job_id)
        self._ends.pop(job_id, None)
        return max(min(end, self._bytes_max), 1) if end else 0

    def rolled_back(self) -> None:
        """The batch is not on disk."""
        self._ends.clear()

    def _end(self, job_id: int) -> int:
        end = self._ends.get(job_id)
        return output_end(self._connection, job_id) if end is None else end


def output_end(connection: sqlite3.Connection, job_id: int) -> int:
    """The position of the next line of a job."""
    last = connection.execute(_LAST, (job_id,)).fetchone()
    return 0 if last is None else last[0] + output_bytes(last[1])


def find_output(connection: sqlite3.Connection, job_id: int, position: int) -> OutputPage:
    """The lines of a job from a position on, up to `OUTPUT_PAGE_BYTES`."""
    lines: list[OutputRow] = []
    room = OUTPUT_PAGE_BYTES
    cursor = connection.execute(_FROM, (job_id, position))
    for at_us, kind, data, place in cursor:
        if room <= 0:
            cursor.close()
            return OutputPage(lines, place, more=True)
        lines.append(OutputRow(job_id, at_us, kind, data, place))
        room -= output_bytes(data)
    if lines:
        return OutputPage(lines, lines[-1].position + output_bytes(lines[-1].data))
    return OutputPage(lines, output_end(connection, job_id))
