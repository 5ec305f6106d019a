"""What workers said about their jobs.

Invariant: the position of a line is the size of all lines before it, so that the latest `bytes_max` of a job
are found without counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import OUTPUT_LINE_BYTES, OUTPUT_PAGE_BYTES, OutputPage, OutputRow, output_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hiringhall.storage.postgres.connecting import Database

ENDS_MAX: Final = 10_000
"""Jobs whose end of output is remembered; of others it is read when it is needed."""

_ENDS: Final = f"""
SELECT said.job, last_line.position + octet_length(last_line.data) + {OUTPUT_LINE_BYTES}
FROM unnest($1::bigint[]) AS said (job) CROSS JOIN LATERAL (
    SELECT position, data FROM output WHERE output.job = said.job ORDER BY position DESC LIMIT 1
) AS last_line
"""  # noqa: S608 (our own number)
_LINES: Final = """
SELECT at_us, kind, data, position FROM output
WHERE job = $1 AND position >= $2 AND position < $2 + $3::bigint ORDER BY position
"""
_NEXT: Final = "SELECT position FROM output WHERE job = $1 AND position >= $2 ORDER BY position LIMIT 1"


class OutputWriter:
    """Gives each line its position, and says which lines of a job that has too many are dropped."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._ends: dict[int, int] = {}
        """Where the output of a job ends, with the lines of the current batch."""

    @property
    def keeps(self) -> bool:
        """Whether any output is kept."""
        return self._bytes_max > 0

    async def look_up(self, database: Database, jobs: Iterable[int]) -> None:
        """Find out where the output of these jobs ends."""
        if len(self._ends) > ENDS_MAX:
            self._ends.clear()
        unknown = [job for job in dict.fromkeys(jobs) if job not in self._ends]
        if unknown:
            self._ends |= dict.fromkeys(unknown, 0)
            self._ends |= dict(tuple(row) for row in await database.fetch(_ENDS, unknown))

    def columns(self, rows: list[OutputRow]) -> list[list[int] | list[bytes]]:
        """The arguments of `hall_output`."""
        positions: list[int] = []
        for row in rows:
            positions.append(self._ends[row.job])
            self._ends[row.job] += output_bytes(row.data)
        cut = [job for job in dict.fromkeys([row.job for row in rows]) if self._ends[job] > self._bytes_max]
        return [
            [row.job for row in rows],
            positions,
            [row.at_us for row in rows],
            [row.kind for row in rows],
            [row.data for row in rows],
            cut,
            [self._ends[job] - self._bytes_max for job in cut],
        ]

    def kept_bytes(self, job_id: int) -> int:
        """How much of a job that ends is kept; 0 only if it has said nothing."""
        end = self._ends.pop(job_id, 0)
        return max(min(end, self._bytes_max), 1) if end else 0

    def forget(self) -> None:
        """The batch is not kept, or it is not known whether it is."""
        self._ends.clear()


async def find_output(database: Database, job_id: int, position: int) -> OutputPage:
    """The lines of a job from a position on, up to `OUTPUT_PAGE_BYTES`."""
    first = await database.fetch(_NEXT, job_id, position)
    if not first:
        ends = await database.fetch(_ENDS, [job_id])
        return OutputPage([], ends[0][1] if ends else 0)
    rows = await database.fetch(_LINES, job_id, first[0][0], OUTPUT_PAGE_BYTES)
    lines = [OutputRow(job_id, at_us, kind, data, place) for at_us, kind, data, place in rows]
    end = lines[-1].position + output_bytes(lines[-1].data)
    more = await database.fetch(_NEXT, job_id, end)
    return OutputPage(lines, end, more=bool(more))
