"""The durable store.

The law: a commit that returned is on disk, whole; one that raised has left nothing behind, and the next
starts from there. One connection does every write and every checkpoint: versions of SQLite before 3.51.3
can lose pages when two connections do.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.changes import Loaded
from hiringhall.storage.contract import StoreError
from hiringhall.storage.retention import Brought, Expiry, Sections, keep_all
from hiringhall.storage.sqlite.faults import explain, explained, failed_late
from hiringhall.storage.sqlite.lock import FileLock, lock_path
from hiringhall.storage.sqlite.loss import check_log
from hiringhall.storage.sqlite.place import Place, make_private
from hiringhall.storage.sqlite.reader import PAGE_ROWS, find_latest, find_lines, pages_of_jobs
from hiringhall.storage.sqlite.rows import (
    END_COLUMNS,
    END_COLUMNS_NO_RESULT,
    JOB_COLUMNS,
    decode,
    end_row,
    job_rows,
    read_firings,
    read_terms,
)
from hiringhall.storage.sqlite.schema import SQLITE_MIN, check_soundness, check_version, migrate, migrations
from hiringhall.storage.sqlite.shelving import SqliteShelves, arrange, ruled_queues
from hiringhall.storage.sqlite.statements import Statement
from hiringhall.storage.sqlite.wal import OPEN, OPEN_INODE
from hiringhall.storage.sqlite.writing import BatchWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hiringhall.core.changes import Batch, EndRow, JobRow
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import HistoryQuery, Retention
    from hiringhall.storage.sqlite.lock import Kind
    from hiringhall.storage.sqlite.rows import BadId

CACHE_KIB: Final = 16_384
WAL_PAGES: Final = 1000
"""The log is copied into the file whenever it is this long; a longer one made commits slower, not faster."""
WAL_BYTES_KEPT: Final = 64 << 20
"""What a log that grew behind a slow reader is cut to once it starts over."""
STATEMENTS_CACHED: Final = 128
BUSY_S: Final = 5.0
PROBE_BYTES: Final = 65_536
"""A probe asks for room for a batch: a full disk often still has room for a byte."""
TERMS_MAX: Final = 10_000
"""With more terms than this, those that no row uses any more are dropped at the start."""

_ENDED_PAGE: Final = (
    f"SELECT {END_COLUMNS_NO_RESULT} FROM (SELECT value AS wanted FROM json_each(?))"  # noqa: S608, our own names
    " CROSS JOIN history ON history.id = wanted"
)
_SWEEP_TERMS: Final = """
DELETE FROM terms WHERE id NOT IN (SELECT terms FROM jobs WHERE terms IS NOT NULL)
AND id NOT IN (SELECT terms FROM history WHERE terms IS NOT NULL)
"""
_SET_ASIDE: Final = """
INSERT INTO quarantine (source, reason, {columns}) SELECT '{table}', ?, {columns} FROM {table} WHERE id = ?
"""
_SAY_OPEN: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?), (?, ?)"
_NOTHING: Final = Statement("", [])
_COLUMNS: Final = {"jobs": JOB_COLUMNS, "history": END_COLUMNS}


class SqliteStore:
    """A hall's data file, open from `load` to `close`. Rows that cannot be read are told to `on_warning`.
    Without a retention nothing of the history goes, and it stays arranged as it is.
    """

    def __init__(
        self,
        path: Path,
        retention: Retention | None,
        on_warning: Callable[[str], None],
        kind: Kind = "hall",
        *,
        accept_loss: bool = False,
    ) -> None:
        self._path = path
        self._retention = retention
        self._on_warning = on_warning
        self._kind: Kind = kind
        """What others are told of who has the file open."""
        self._accept_loss = accept_loss
        """Open a file whose log is damaged."""
        self._place: Place | None = None
        self._left_over = False
        """The log may hold a commit that failed, behind those that count."""
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._live = 0
        """Rows in `jobs`: counting them anew would take long, as it would those of the shelves."""
        self._counted = False
        """The counts are right; after a failure that is not sure."""
        self._doubtful = False
        """The next batch may be on disk already, from a commit that failed to tell so."""

    def load(self, ended_max: int) -> Loaded:
        if self._connection is not None:
            raise StoreError(f"{self._path} is open already: it is loaded once until it is closed")
        if sqlite3.sqlite_version_info < SQLITE_MIN:
            wanted = ".".join(map(str, SQLITE_MIN))
            raise StoreError(f"Python's SQLite is {sqlite3.sqlite_version}: the store needs {wanted} or later")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._path.parent} cannot be made a data folder: {error.strerror}") from error
        self._lock = FileLock(lock_path(self._path), self._kind)
        if self._lock.taken_from is not None:
            before = self._lock.taken_from.named
            self._on_warning(f"{self._path.parent} is taken over from {before}, which ended without closing it")
        try:
            check_log(self._path, self._on_warning, accept_loss=self._accept_loss)
            make_private(self._path, self._on_warning)
            with explained(self._path):
                self._connection = self._open()
                terms = read_terms(self._connection)
                (terms_id_max,) = self._connection.execute("SELECT COALESCE(MAX(id), 0) FROM terms").fetchone()
                with self._transaction() as connection:
                    retention = self._retention or keep_all(ruled_queues(connection))
                    sections = Sections(retention, arrange(connection, retention.queues))
                self._shelves = SqliteShelves(self._connection, sections)
                self._expiry = Expiry(sections, retention.bytes_max)
                self._writer = BatchWriter(terms, terms_id_max, retention.result_bytes_max, sections)
                self._recount()
                unread: list[str] = []
                fired = read_firings(self._connection, unread)
                for name in unread:
                    self._on_warning(f"schedule {name} in {self._path} cannot be read: it begins anew")
                epoch = self._bump_epoch()
                self._begin_log()
                self._place = Place(self._path)
        except BaseException:
            with suppress(StoreError):
                self.close()
            raise
        return Loaded(epoch, self.live(), self._latest_ended(ended_max), fired)

    def check(self) -> None:
        """Raises StoreError while a commit would go to a file that no start would find."""
        if self._place is not None:
            self._place.check()

    def commit(self, batch: Batch, now_us: int) -> None:
        with explained(self._path):
            if not self._counted:
                self._recount()
            try:
                self._write(batch, now_us)
            except BaseException as error:
                self._counted = False
                self._writer.forget()
                self._expiry.again()
                self._left_over = self._left_over or failed_late(error)
                raise
            self._writer.kept()
            if self._left_over:
                self._left_over = False
                self._begin_log()

    def probe(self) -> None:
        self.check()
        with explained(self._path):
            try:
                self._open_connection.execute(
                    "UPDATE meta SET value = zeroblob(?) WHERE name = 'probe'", (PROBE_BYTES,)
                )
            except sqlite3.Error as error:
                self._left_over = self._left_over or failed_late(error)
                raise
            if self._left_over:
                self._left_over = False
                self._begin_log()

    def history(self, query: HistoryQuery) -> list[EndRow]:
        with explained(self._path):
            bad: list[BadId] = []
            found = decode(find_lines(self._open_connection, query), end_row, self._writer.terms, bad)
            self._set_aside("history", bad)
            return found

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        with explained(self._path):
            found = find_latest(self._open_connection, refs)
        return list(self._ended_rows(found))

    def live(self) -> Iterator[JobRow]:
        pages = pages_of_jobs(self._open_connection)
        while True:
            bad: list[BadId] = []
            with explained(self._path):
                page = next(pages, None)
                if page is None:
                    return
                rows = job_rows(page, self._writer.terms, bad)
                self._set_aside("jobs", bad)
            yield from rows

    def count(self) -> tuple[int, int]:
        with explained(self._path):
            if not self._counted:
                self._recount()
        return self._live, self._shelves.sections.lines

    def close(self) -> None:
        connection, self._connection = self._connection, None
        lock, self._lock = self._lock, None
        place, self._place = self._place, None
        try:
            if connection is None:
                return
            with explained(self._path):
                if place is not None and not place.is_ours:
                    with place.spared():
                        connection.close()
                else:
                    self._fold_log(connection)
                    connection.close()
        finally:
            if lock is not None:
                lock.release()

    @property
    def _open_connection(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            raise StoreError(f"{self._path} is closed")
        return connection

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,  # One thread at a time uses it, not always the same one.
            cached_statements=STATEMENTS_CACHED,
        )
        try:
            connection.text_factory = bytearray  # So that text where bytes should be is told apart.
            steps = migrations()
            check_version(connection, steps, self._path)
            check_soundness(connection, self._path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute("PRAGMA secure_delete = OFF")
            migrate(connection, steps, self._path)
            if connection.execute("SELECT COUNT(*) FROM terms").fetchone()[0] > TERMS_MAX:
                connection.execute(_SWEEP_TERMS)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_log(self) -> None:
        """Copy the log, so that the file itself says that it is open, and begin a new generation of it: what a
        crash or a failed commit has left behind the last commit is of an earlier one then.
        """
        with suppress(sqlite3.Error):  # A later checkpoint does the same.
            self._open_connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def _fold_log(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file, which is closed then. Where that fails nothing is lost: the next start
        reads the log.
        """
        try:
            connection.execute("DELETE FROM meta WHERE name = ?", (OPEN,))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            self._on_warning(
                f"{explain(error, self._path)}; keep {self._path.name}-wal, the next start needs it"
            )

    def _bump_epoch(self) -> int:
        with self._transaction() as connection:
            row = connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
            if row is None or type(row[0]) is not int or not 0 <= row[0] < ids.EPOCH_MAX:
                # Without it, ids of jobs that were stored before could be given out again.
                raise StoreError(f"{self._path} has lost its boot number: put a backup in its place")
            epoch: int = row[0] + 1
            connection.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (epoch,))
            inode = self._path.stat().st_ino
            connection.execute(_SAY_OPEN, (OPEN, epoch, OPEN_INODE, inode))
        return epoch

    def _latest_ended(self, ended_max: int) -> Iterator[EndRow]:
        with explained(self._path):
            found = self._shelves.latest(ended_max)
        yield from self._ended_rows(found)

    def _ended_rows(self, found: list[int]) -> Iterator[EndRow]:
        """The lines of these ids, without their results."""
        for start in range(0, len(found), PAGE_ROWS):
            bad: list[BadId] = []
            wanted = str(found[start : start + PAGE_ROWS])
            with explained(self._path):
                page = self._open_connection.execute(_ENDED_PAGE, (wanted,)).fetchall()
                rows = decode(page, end_row, self._writer.terms, bad)
                self._set_aside("history", bad)
            yield from rows

    def _write(self, batch: Batch, now_us: int) -> None:
        if batch.revived:
            self._shelves.leave(str(batch.revived))
        statements = self._writer.statements(batch)
        first = next(statements, _NOTHING)
        second = next(statements, _NOTHING)
        rows, touched = len(batch.inserts) + len(batch.ends), self._writer.touched
        if second is _NOTHING:
            brought = Brought(len(batch.ends), rows, first.content_bytes)
            if not self._expiry.due(now_us, brought, touched):
                self._expiry.skip(brought)
                if first is not _NOTHING:
                    taken = self._run(first)  # By itself it is a transaction.
                    try:
                        self._settle(batch, taken)
                    except sqlite3.Error:  # The batch is on disk all the same.
                        self._counted = False
                return
        with self._transaction():
            taken = content_bytes = 0
            for statement in chain((first, second), statements):
                if statement is not _NOTHING:
                    taken += self._run(statement)
                    content_bytes += statement.content_bytes
            self._settle(batch, taken)
            brought = Brought(len(batch.ends), rows, content_bytes)
            if self._expiry.due(now_us, brought, touched):
                self._expiry.run(self._shelves, now_us, brought, touched)
            else:
                self._expiry.skip(brought)

    def _settle(self, batch: Batch, taken: int) -> None:
        """Count what triggers did. They take out the jobs that the batch says, unless an end took the place of
        an earlier one.
        """
        if taken != len(batch.deletes) or self._doubtful:
            taken -= self._shelves.settle()
            self._doubtful = False
        self._live += len(batch.inserts) - taken

    def _run(self, statement: Statement) -> int:
        """Gives the number of rows that triggers changed besides."""
        connection = self._open_connection
        changes = connection.total_changes
        rows = connection.execute(statement.sql, statement.values).rowcount
        return connection.total_changes - changes - rows

    def _recount(self) -> None:
        (self._live,) = self._open_connection.execute("SELECT COUNT(*) FROM jobs").fetchone()
        self._shelves.recount()
        self._counted = self._doubtful = True

    def _set_aside(self, table: str, bad: list[BadId]) -> None:
        """Move rows that cannot be read out of the way."""
        if not bad:
            return
        copy = _SET_ASIDE.replace("{table}", table).replace("{columns}", _COLUMNS[table])
        self._counted = False
        with self._transaction() as connection:
            for job_id, reason in bad:
                connection.execute(copy, (reason, job_id))
                connection.execute(f"DELETE FROM {table} WHERE id = ?", (job_id,))  # noqa: S608, one of two names
        for job_id, reason in bad:
            self._on_warning(
                f"job {job_id} in table {table} of {self._path} was set aside in quarantine: {reason}"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open_connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            # Some faults make SQLite roll back by itself; and when even this fails, the fault that led
            # here is the one to tell.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
