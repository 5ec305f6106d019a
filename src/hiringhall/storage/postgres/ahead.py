"""The live jobs, read by a standby before it takes over, while the active hall may still write.

Invariant: they are read in one snapshot, with the number of its last batch. They are used only on the
connection on which they were read, and only if the database has that number after the take-over. Then nobody
else can write any more, and nobody has written since. Another connection may lead to another server, which went
on without some commits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from hiringhall.storage.postgres.reading import INTEGER_MAX, JobPages
from hiringhall.storage.rows import TERMS_COLUMNS, decode_terms, job_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.core.changes import JobRow
    from hiringhall.storage.postgres.connecting import Database
    from hiringhall.storage.postgres.membership import Claim
    from hiringhall.storage.rows import BadId

JOBS_MAX: Final = 2_000_000
"""If there are more, they are not read ahead: a standby may do so in vain."""
JOB_BYTES_MAX: Final = 1 << 30

TERMS: Final = f"SELECT {TERMS_COLUMNS} FROM terms"  # noqa: S608 (our own names)
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITTEN: Final = "SELECT batch, jobs, job_bytes FROM writer"


class JobsAhead(NamedTuple):
    """The live jobs, as they were after a batch."""

    batch: int
    job_count: int
    """How many there were. A row that cannot be decoded is taken out without a batch."""
    pages: deque[list[JobRow]]

    def jobs(self) -> Iterator[JobRow]:
        """Each once: a page is freed as soon as the hall has its jobs."""
        while self.pages:
            yield from self.pages.popleft()

    def are_exact(self, claim: Claim) -> bool:
        """Whether the hall that took over finds the same jobs."""
        return (self.batch, self.job_count) == (claim.batch, claim.jobs)


async def read_jobs_ahead(database: Database, is_unwanted: Callable[[], bool]) -> JobsAhead | None:
    """All live jobs. None: they are too many, one cannot be decoded, or they are `is_unwanted` now."""
    await database.execute(_BEGIN)
    try:
        ((batch, count, job_bytes),) = await database.fetch(_WRITTEN)
        if count > JOBS_MAX or job_bytes > JOB_BYTES_MAX:
            return None
        terms = decode_terms([tuple(row) for row in await database.fetch(TERMS)])
        read: deque[list[JobRow]] = deque()
        bad: list[BadId] = []
        pages = JobPages(database, -INTEGER_MAX)
        while page := await pages.next():
            read.append(job_rows(page, terms, bad))
            if bad or is_unwanted():
                return None
        return JobsAhead(batch, count, read)
    finally:
        if database.connected:
            await database.execute("COMMIT")
