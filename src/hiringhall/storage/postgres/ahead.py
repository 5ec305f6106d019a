"""What a hall loads, read by a standby before it takes over, while the active hall may still write.

Invariant: it is read in one snapshot, with the number of its last batch. It is used only on the connection on
which it was read, and only if the database has that number after the take-over. Then nobody else can write any
more, and nobody has written since. Another connection may lead to another server, which went on without some
commits. Retention drops lines without a batch: a hall knows such lines for a while after that, whether it has
read them ahead or has written them itself.

One member reads at a time, which a lock of its connection tells to the others: several that read at once would
hold each other up. It decides nothing, and ends with the connection.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hiringhall.core.changes import Loaded
from hiringhall.storage.postgres.reading import INTEGER_MAX, EndPages, JobPages
from hiringhall.storage.postgres.rest import read_rest
from hiringhall.storage.rows import TERMS_COLUMNS, decode_terms, end_rows, job_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hiringhall.core.changes import EndRow, JobRow
    from hiringhall.core.terms import Terms
    from hiringhall.storage.postgres.connecting import Connection, Database
    from hiringhall.storage.postgres.membership import Claim
    from hiringhall.storage.rows import BadId

JOBS_MAX: Final = 2_000_000
"""If there are more, they are not read ahead: a standby may do so in vain."""
JOB_BYTES_MAX: Final = 1 << 30
END_BYTES_MAX: Final = 256 << 20
"""The payloads of failed jobs, which may be retried. If the latest lines have more, nothing is read ahead."""

TERMS: Final = f"SELECT {TERMS_COLUMNS} FROM terms"  # noqa: S608 (our own names)
_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITTEN: Final = "SELECT incarnation, batch, jobs, job_bytes FROM writer"
_TRY: Final = "SELECT pg_try_advisory_lock(1212238924, 1)"
"""The letters HALL, as in the lock of migrations."""
_LET_OTHERS: Final = "SELECT pg_advisory_unlock_all()"
_Row = TypeVar("_Row")


class Ahead(NamedTuple):
    """What was read, as it was after a batch."""

    loaded: Loaded
    """With the epoch of the hall that was active then."""
    batch: int
    job_count: int
    """How many live jobs there were. A row that cannot be decoded is taken out without a batch."""

    def is_exact(self, claim: Claim) -> bool:
        """Whether the hall that took over finds the same."""
        return (self.batch, self.job_count) == (claim.batch, claim.jobs)


def _each(pages: deque[list[_Row]]) -> Iterator[_Row]:
    """A page is freed as soon as the hall has its rows."""
    while pages:
        yield from pages.popleft()


async def may_read(database: Database) -> bool:
    """Connect to read ahead. False: another member reads now, or has read and has not taken over yet."""
    await database.connect()
    return bool((await database.fetch(_TRY))[0][0])


async def let_others_read(connection: Connection) -> None:
    """The one that may have read is active now."""
    await connection.execute(_LET_OTHERS)


async def read_ahead(database: Database, ended_max: int, is_unwanted: Callable[[], bool]) -> Ahead | None:
    """All that a hall loads, and of the latest lines so many. None: no hall was ever active, it is too much, or
    something cannot be decoded, or it `is_unwanted` now.
    """
    if not database.connected:
        await database.connect()
    await database.execute(_BEGIN)
    try:
        ((incarnation, batch, count, job_bytes),) = await database.fetch(_WRITTEN)
        rest, unreadable = await read_rest(database)
        if not incarnation or unreadable or count > JOBS_MAX or job_bytes > JOB_BYTES_MAX:
            return None
        terms = decode_terms([tuple(row) for row in await database.fetch(TERMS)])
        jobs = await _read_jobs(database, terms, is_unwanted)
        ends = await _read_ends(database, terms, ended_max, is_unwanted) if jobs is not None else None
        if jobs is None or ends is None:
            return None
        return Ahead(Loaded(incarnation, _each(jobs), _each(ends), *rest), batch, count)
    finally:
        if database.connected:
            await database.execute("COMMIT")


async def _read_jobs(
    database: Database, terms: dict[int, Terms], is_unwanted: Callable[[], bool]
) -> deque[list[JobRow]] | None:
    read: deque[list[JobRow]] = deque()
    bad: list[BadId] = []
    pages = JobPages(database, -INTEGER_MAX)
    while page := await pages.next():
        read.append(job_rows(page, terms, bad))
        if bad or is_unwanted():
            return None
    return read


async def _read_ends(
    database: Database, terms: dict[int, Terms], ended_max: int, is_unwanted: Callable[[], bool]
) -> deque[list[EndRow]] | None:
    read: deque[list[EndRow]] = deque()
    bad: list[BadId] = []
    end_bytes = 0
    pages = EndPages(database, ended_max)
    while page := await pages.next():
        read.append(end_rows(page, terms, bad))
        end_bytes += sum([len(row.payload) for row in read[-1]])
        if bad or end_bytes > END_BYTES_MAX or is_unwanted():
            return None
    return read
