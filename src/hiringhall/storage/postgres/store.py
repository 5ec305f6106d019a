"""The durable store on PostgreSQL.

Invariant: a commit is one statement, or one transaction if it is large, and its last act is the receipt: the
row `writer` counts the batch, if this incarnation and this connection are the ones that may write. So after a
lost connection that row tells whether the commit is kept, and a hall that was replaced changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hiringhall.core.changes import HistoryPage, Loaded
from hiringhall.core.jobs import OUTPUT
from hiringhall.storage.contract import OutcomeUnknown, StoreError
from hiringhall.storage.known_terms import KnownTerms
from hiringhall.storage.postgres import membership
from hiringhall.storage.postgres.ahead import TERMS, let_others_read, may_read, read_ahead
from hiringhall.storage.postgres.connecting import Database
from hiringhall.storage.postgres.faults import Fenced, explain
from hiringhall.storage.postgres.outcome import find_fenced_outcome, find_outcome
from hiringhall.storage.postgres.output import OutputWriter, find_output
from hiringhall.storage.postgres.reading import (
    INTEGER_MAX,
    PAGE_ROWS,
    SHORT,
    EndPages,
    JobPages,
    find_latest,
    find_lines,
    find_page,
    read_lines,
)
from hiringhall.storage.postgres.receipts import Receipts
from hiringhall.storage.postgres.rest import read_rest
from hiringhall.storage.postgres.safety import find_risks
from hiringhall.storage.postgres.schema import migrate, sweep_terms
from hiringhall.storage.postgres.shelving import PostgresShelves, arrange, ruled_queues
from hiringhall.storage.postgres.writing import BatchWriter, Removed
from hiringhall.storage.retention import CommitSize, Expiry, Sections, keep_all
from hiringhall.storage.rows import decode_terms, end_rows, job_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from hiringhall.core.changes import Batch, EndRow, JobRow, OutputPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import HistoryQuery, Retention
    from hiringhall.storage.postgres.ahead import Ahead
    from hiringhall.storage.postgres.connecting import Connection
    from hiringhall.storage.postgres.membership import Claim, Member, Predecessor
    from hiringhall.storage.postgres.writing import Commit
    from hiringhall.storage.rows import BadId, RawRow

_T = TypeVar("_T")
_EMPTY: Final = Removed([], {})
_LIVE: Final = "SELECT id FROM jobs WHERE id = ANY($1::bigint[])"
_RAISE_EPOCH: Final = "SELECT setval('incarnations', GREATEST(last_value, $1)) FROM incarnations"
_PROBE: Final = "SELECT hall_probe($1)"
_SET_ASIDE: Final = "SELECT hall_set_aside($1, $2, $3, $4)"


class PostgresStore:
    """A hall's database, open from `load` to `close`. Rows that cannot be read, and settings of the server that
    would lose commits, are reported to `on_warning`. Without a retention no history is dropped, and the shelves
    stay as they are. With `take_over`, it replaces the hall that has the database open, whoever that is.
    """

    def __init__(
        self,
        url: str,
        retention: Retention | None,
        on_warning: Callable[[str], None],
        member: Member,
        *,
        take_over: bool = False,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._database = Database(url, f"hiringhall {member.name}")
        self._retention = retention
        self._on_warning = on_warning
        self._member = member
        self._take_over = take_over
        self._on_close = on_close
        self._instead_of: Predecessor | None = None
        self._incarnation = 0
        self._batch = 0
        """The last batch that is known to be kept."""
        self._unknown: Commit | None = None
        """A commit that may be kept or not."""
        self._receipts = Receipts()
        self._doubtful = False
        """The next batch may repeat what an earlier one, that failed, did after all."""
        self._fenced = ""
        """Why this store commits nothing any more."""
        self._id_max = 0
        """No line has a larger id: a job above it, that was not live, is new."""
        self._ahead: Ahead | None = None
        self._open = False

    @property
    def incarnation(self) -> int:
        """The number of this opening, by which the database knows who may write."""
        return self._incarnation

    def take_over_from(self, predecessor: Predecessor) -> None:
        """`load` is to replace this hall, if it is still as it was seen."""
        self._instead_of = predecessor

    def may_read_ahead(self) -> bool:
        """Connect to read ahead. False: another member does so. Raises StoreError."""
        return self._run(may_read(self._database))

    def read_ahead(self, ended_max: int, is_unwanted: Callable[[], bool]) -> Loaded | None:
        """Read what `load` reads, before this store is loaded, until it is unwanted. If it is still exact then,
        `load` says that it is unchanged, and reads it no more. None: it was not read. Raises StoreError.
        """
        self._ahead = ahead = self._run(read_ahead(self._database, ended_max, is_unwanted))
        return ahead.loaded if ahead is not None else None

    def load(self, ended_max: int) -> Loaded:
        if self._open:
            raise StoreError(f"{self._database.place} is already open: close it before it is loaded again")
        self._database = self._database.reopened()
        try:
            loaded = self._run(self._load(ended_max))
        except BaseException:
            with suppress(StoreError):
                self._database.close()
            raise
        self._expiry = Expiry(self._shelves.sections, self._rules, self._shelves.next_drop_us())
        self._open = True
        return loaded

    def migrate(self) -> None:
        """Only make the tables, or bring them to the newest version. Refuses a pooler as `load` does."""

        async def migrated() -> None:
            connection = await self._database.connect()
            try:
                await self._database.refuse_poolers()
                await migrate(connection, self._database.place)
            except StoreError:
                raise
            except Exception as error:
                raise explain(error, self._database.place) from error

        self._run(migrated())
        self._database.close()

    def raise_epoch(self, epoch: int) -> None:
        """Later openings have larger epochs than this: jobs of another store were moved here."""
        self._read(self._database.fetch(_RAISE_EPOCH, epoch))

    def check(self) -> None:
        """Raise StoreError once another hall has taken over."""
        if self._fenced:
            raise Fenced(self._fenced)

    def commit(self, batch: Batch, now_us: int) -> None:
        made = self._run(self._commit(batch))
        rows = len(batch.inserts) + len(batch.ends)
        added = CommitSize(len(batch.ends), rows, made.content_bytes, made.drop_us)
        if not self._expiry.due(now_us, added, made.touched):
            self._expiry.skip(added)
            return
        try:
            self._expiry.run(self._shelves, now_us, added, made.touched)
        except StoreError as error:  # The batch is kept nevertheless.
            self._expiry.reset()
            self._on_warning(f"the history could not be cut: {error}")

    def settle(self) -> bool:
        self.check()
        return self._run(self._settle())

    def next_expiry_us(self) -> int:
        return self._expiry.next_us

    def probe(self) -> None:
        self.check()
        self._run(self._probe())

    def history(self, query: HistoryQuery) -> list[EndRow]:
        return self._decoded_ends(self._read(find_lines(self._database, query)))

    def page(self, query: HistoryQuery) -> HistoryPage:
        rows, before_id = self._read(find_page(self._database, query))
        return HistoryPage(self._decoded_ends(rows), before_id)

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        found = self._read(find_latest(self._database, refs))
        return list(self._ended_rows(found))

    def output(self, job_id: int, position: int) -> OutputPage:
        return self._read(find_output(self._database, job_id, position))

    def live(self) -> Iterator[JobRow]:
        pages = JobPages(self._database, -INTEGER_MAX)
        while page := self._read(pages.next()):
            bad: list[BadId] = []
            rows = job_rows(page, self._writer.terms.by_id, bad)
            self._set_aside("jobs", bad)
            yield from rows

    def count(self) -> tuple[int, int]:
        return self._shelves.jobs, self._shelves.sections.lines

    def close(self) -> None:
        try:
            if self._open and not self._fenced and self._unknown is None:
                with suppress(StoreError):  # the next hall waits a little longer
                    self._run(self._release())
        finally:
            self._open = False
            self._database.close()
            on_close, self._on_close = self._on_close, None
            if on_close is not None:
                on_close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._database.run(work)

    def _read(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a question, on a new connection if the last one is gone."""

        async def connected() -> _T:
            try:
                await self._connect()
            except BaseException:
                work.close()
                raise
            return await work

        return self._run(connected())

    async def _load(self, ended_max: int) -> Loaded:
        place = self._database.place
        ahead, self._ahead = self._ahead, None
        connection = await self._database.current()
        if connection is None:
            ahead = None
            connection = await self._database.connect()
        try:
            await self._database.refuse_poolers()
            await migrate(connection, place)
            claim = await self._claim(connection)
            await let_others_read(connection)
            await sweep_terms(connection)
            for risk in await find_risks(connection):
                self._on_warning(f"{place}: {risk}")
            self._rules = self._retention or keep_all(await ruled_queues(connection))
            Sections(self._rules, dict.fromkeys(self._rules.queues, 2))  # refuses too many before they are made
            sections = Sections(self._rules, await arrange(connection, self._rules.queues))
        except StoreError:
            raise
        except Exception as error:
            raise explain(error, place) from error
        fetch = self._database.fetch
        self._incarnation, self._batch = claim.incarnation, claim.batch
        self._receipts, self._unknown, self._fenced = Receipts(), None, ""
        self._shelves = PostgresShelves(self._database, sections, claim.incarnation)
        await self._shelves.recount()
        terms = decode_terms([tuple(row) for row in await fetch(TERMS)])
        ((terms_id_max,),) = await fetch("SELECT COALESCE(max(id), 0) FROM terms")
        ((self._id_max,),) = await fetch("SELECT COALESCE(max(id), 0) FROM lines")
        output = OutputWriter(self._rules.output_bytes_max)
        self._output = output
        self._writer = BatchWriter(KnownTerms(terms, terms_id_max), self._rules, sections, output)
        if ahead is not None and ahead.is_exact(claim):
            return Loaded(claim.incarnation, (), (), {}, [], [], unchanged=True)
        rest, unreadable = await read_rest(self._database)
        for queue in unreadable:
            name = queue.decode(errors="replace")
            self._on_warning(f"the rules of queue {name} cannot be read: set them again")
        return Loaded(claim.incarnation, self.live(), self._latest_ended(ended_max), *rest)

    async def _claim(self, connection: Connection) -> Claim:
        if self._take_over or self._instead_of is not None:
            return await membership.take_over(connection, self._member, self._instead_of)
        return await membership.open_active(connection, self._member, self._database.place)

    async def _connect(self) -> None:
        """Connect again if the connection is gone, and make sure that nothing was lost meanwhile."""
        if await self._database.current() is not None:
            return
        batch = await self._reclaim()
        if batch is None:
            raise self._fence()
        if self._unknown is None:
            await self._catch_up(batch)

    async def _reclaim(self) -> int | None:
        """The last batch that is kept, on a new connection; None: another incarnation is active."""
        connection = await self._database.connect()
        try:
            return await membership.reclaim(connection, self._incarnation)
        except Exception as error:
            await self._database.disconnect()
            raise explain(error, self._database.place) from error

    def _fence(self) -> Fenced:
        self._fenced = f"another hall has taken over {self._database.place}: this one writes no more, stop it"
        return Fenced(self._fenced)

    async def _catch_up(self, batch: int) -> None:
        """On a new connection, which has `batch` as its last one: count anew what is stored, and restore what
        is not. If that fails, the next try begins with a new connection.
        """
        try:
            if batch == self._batch:
                await self._shelves.recount()
            else:
                await self._restore(batch)
        except StoreError:
            await self._database.disconnect()
            raise

    async def _restore(self, batch: int) -> None:
        """The server went on from an older state, as after a fail-over to an asynchronous replica: commit again
        what it lacks. What is not known any more is named.
        """
        lost = self._receipts.after(batch)
        await self._shelves.recount()
        for commit in lost:
            await self._shelves.prepare(commit)
            self._shelves.committed(commit, await self._write(commit))
        for line in self._receipts.report(batch, self._batch, len(lost), self._database.place):
            self._on_warning(line)
        if batch + len(lost) != self._batch:
            self._batch = batch
            terms = decode_terms([tuple(row) for row in await self._database.fetch(TERMS)])
            self._writer.terms.replace(terms)

    async def _commit(self, batch: Batch) -> Commit:
        self.check()
        if self._unknown is not None:
            raise StoreError(f"it is not known yet whether {self._database.place} kept the last commit")
        await self._connect()
        try:
            commit = await self._prepare(batch)
            commit.batch = self._batch + 1
            job_bytes = await self._send(commit)
        except OutcomeUnknown:
            raise
        except BaseException as error:
            self._doubtful = True
            self._writer.rolled_back()
            if isinstance(error, Fenced):
                self._fenced = str(error)
            raise
        self._shelves.committed(commit, job_bytes)
        self._accept(commit)
        return commit

    async def _prepare(self, batch: Batch) -> Commit:
        """The commit of a batch. What it depends on is read before: nobody else writes."""
        removed = _EMPTY
        live = set(batch.deletes)
        if self._doubtful:
            live = {row[0] for row in await self._database.fetch(_LIVE, batch.deletes)}
        again: list[int] = []
        if len(live) != len(batch.ends):  # else each of them was live
            again = [row.id for row in batch.ends if row.id <= self._id_max and row.id not in live]
        if again or batch.revived:
            ids = [*again, *batch.revived]
            removed = Removed(ids, await self._shelves.weigh(ids))
        said = [row.id for row in batch.ends if row.extras and OUTPUT in row.extras]
        if said or batch.output:
            await self._output.look_up(self._database, [*said, *[row.job for row in batch.output]])
        commit = self._writer.commit(batch, live, removed)
        await self._shelves.prepare(commit)
        return commit

    async def _send(self, commit: Commit) -> int:
        """Commit. Returns the bytes of all live jobs."""
        try:
            return await self._write(commit)
        except StoreError as error:
            if self._database.connected:  # the server has answered: nothing is kept
                raise
            self._unknown = commit
            raise OutcomeUnknown(f"it is not known whether the last commit is kept: {error}") from error

    async def _write(self, commit: Commit) -> int:
        """Send one statement, or several in one transaction. Returns the bytes of all live jobs."""
        fetch = self._database.fetch
        if not commit.is_large:
            sql, values = commit.statement(self._incarnation)
            return int((await fetch(sql, *values))[0][0])
        await self._database.execute("BEGIN")
        try:
            freed_bytes = 0
            for part in commit.parts:
                freed_bytes += (await fetch(part.sql, *part.values))[0][0]
            sql, values = commit.statement(self._incarnation, freed_bytes)
            rows = await fetch(sql, *values)
            await self._database.execute("COMMIT")
        except StoreError:
            if self._database.connected:
                await self._database.execute("ROLLBACK")
            raise
        return int(rows[0][0])

    def _accept(self, commit: Commit) -> None:
        """The commit is kept."""
        self._batch = commit.batch
        self._doubtful = False
        self._id_max = max([self._id_max, *commit.ids])
        self._writer.committed()
        self._receipts.add(commit)

    async def _settle(self) -> bool:
        commit = self._unknown
        if commit is None:
            raise StoreError("no commit is unknown")
        batch = await self._reclaim()
        if batch is None:
            return await self._settle_fenced(commit)
        kept = find_outcome(commit.batch, self._batch, batch).kept
        if kept:
            await self._shelves.recount()
            self._accept(commit)
        else:
            self._writer.rolled_back()
            await self._catch_up(batch)
        self._unknown = None  # not before all of this has worked: until then it is asked again
        return kept

    async def _settle_fenced(self, commit: Commit) -> bool:
        """Another hall has taken over; it noted the last batch that was kept."""
        rows = await self._database.fetch(membership.LAST_BATCH, self._incarnation)
        fenced = self._fence()
        if not rows:
            raise fenced
        self._unknown = None
        return find_fenced_outcome(commit.batch, rows[0][0]).kept

    async def _probe(self) -> None:
        await self._connect()
        await self._database.fetch(_PROBE, self._incarnation)

    async def _release(self) -> None:
        if await self._database.current() is not None:
            await self._database.fetch(membership.RELEASE, self._incarnation)

    def _latest_ended(self, ended_max: int) -> Iterator[EndRow]:
        """The lines that ended last, oldest first, without their results."""
        pages = EndPages(self._database, ended_max)
        while page := self._read(pages.next()):
            yield from self._decoded_ends(page)

    def _ended_rows(self, found: list[int]) -> Iterator[EndRow]:
        """The lines with these ids, without their results."""
        for start in range(0, len(found), PAGE_ROWS):
            page = self._read(read_lines(self._database, found[start : start + PAGE_ROWS], SHORT))
            yield from self._decoded_ends(page)

    def _decoded_ends(self, page: list[RawRow]) -> list[EndRow]:
        bad: list[BadId] = []
        rows = end_rows(page, self._writer.terms.by_id, bad)
        self._set_aside("lines", bad)
        return rows

    def _set_aside(self, source: str, bad: list[BadId]) -> None:
        """Move rows that cannot be decoded to the quarantine."""
        for job_id, reason in bad:
            self._read(self._database.fetch(_SET_ASIDE, self._incarnation, source, job_id, reason))
            table = "jobs" if source == "jobs" else "history"
            self._on_warning(
                f"job {job_id} in table {table} of {self._database.place} was moved to the quarantine: {reason}"
            )
        if bad:
            self._read(self._shelves.recount())
