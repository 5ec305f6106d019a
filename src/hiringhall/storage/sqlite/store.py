"""The durable store.

Invariant: a commit that returned is completely on disk; one that raised has changed nothing, or `settle` tells
whether it has, and the next one starts from there. One connection does every write and every checkpoint:
SQLite before 3.51.3 can lose pages if two connections do.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from hiringhall.core import ids
from hiringhall.core.changes import HistoryPage, Loaded
from hiringhall.core.states import FAILED
from hiringhall.storage.contract import OutcomeUnknown, StoreError
from hiringhall.storage.known_terms import KnownTerms
from hiringhall.storage.retention import CommitSize, Expiry, Sections, keep_all
from hiringhall.storage.rows import END_COLUMNS, JOB_COLUMNS, end_rows, job_rows
from hiringhall.storage.sqlite.faults import explain, explained, failed_late, is_in_doubt
from hiringhall.storage.sqlite.files import FileIdentities, make_private
from hiringhall.storage.sqlite.lock import FileLock, lock_path
from hiringhall.storage.sqlite.loss import check_log
from hiringhall.storage.sqlite.notes import (
    read_firings,
    read_flows,
    read_paused,
    read_rules,
    read_terms,
    read_windows,
)
from hiringhall.storage.sqlite.outcome import is_kept
from hiringhall.storage.sqlite.output import OutputWriter, find_output
from hiringhall.storage.sqlite.pages import find_page
from hiringhall.storage.sqlite.reader import PAGE_ROWS, find_latest, find_lines, pages_of_jobs
from hiringhall.storage.sqlite.schema import SQLITE_MIN, check_soundness, check_version, migrate, migrations
from hiringhall.storage.sqlite.shelving import SqliteShelves, arrange, ruled_queues
from hiringhall.storage.sqlite.statements import Statement
from hiringhall.storage.sqlite.wal import OPEN, OPEN_INODE
from hiringhall.storage.sqlite.writing import BatchWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hiringhall.core.changes import Batch, EndRow, JobRow, OutputPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import HistoryQuery, Retention
    from hiringhall.storage.rows import BadId
    from hiringhall.storage.sqlite.lock import Kind

CACHE_KIB: Final = 16_384
WAL_PAGES: Final = 1000
"""The log is copied into the file when it has this many pages. A longer log made commits slower, not faster."""
WAL_BYTES_KEPT: Final = 64 << 20
"""A log that grew because of a slow reader is truncated to this size when it starts over."""
STATEMENTS_CACHED: Final = 128
BUSY_S: Final = 5.0
PROBE_BYTES: Final = 65_536
"""A probe writes as much as a batch: a full disk often still has room for one byte."""
TERMS_MAX: Final = 10_000
"""If there are more terms than this, unused ones are deleted at the start."""

_COLUMNS_SHORT: Final = END_COLUMNS.replace("result", "x'' AS result").replace(
    " payload,", f" CASE state WHEN {FAILED} THEN payload ELSE x'' END AS payload,"
)
"""Without results, and without payloads unless the job FAILED."""
_ENDED_PAGE: Final = (
    f"SELECT {_COLUMNS_SHORT} FROM (SELECT value AS wanted FROM json_each(?))"  # noqa: S608, our own names
    " CROSS JOIN history ON history.id = wanted"
)
_SWEEP_TERMS: Final = """
DELETE FROM terms WHERE id NOT IN (SELECT terms FROM jobs WHERE terms IS NOT NULL)
AND id NOT IN (SELECT terms FROM history WHERE terms IS NOT NULL)
"""
_SET_ASIDE: Final = """
INSERT INTO quarantine (source, reason, {columns}) SELECT '{table}', ?, {columns} FROM {table} WHERE id = ?
"""
_MARK_OPEN: Final = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?), (?, ?)"
_NOTHING: Final = Statement("", [])
_COLUMNS: Final = {"jobs": JOB_COLUMNS, "history": END_COLUMNS}


class SqliteStore:
    """A hall's data file, open from `load` to `close`. Rows that cannot be read are reported to `on_warning`.
    Without a retention no history is dropped, and the shelves stay as they are.
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
        """The kind of process that the lock file names."""
        self._accept_loss = accept_loss
        """Also open a file whose log is damaged."""
        self._files: FileIdentities | None = None
        self._left_over = False
        """The log may hold a failed commit after the valid ones."""
        self._in_doubt: Batch | None = None
        """A batch whose commit failed so late that it may be on disk."""
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._live = 0
        """Number of rows in `jobs`. It is kept up to date because counting again would take long."""
        self._counted = False
        """The counts are correct. False after a failure: they must be counted again."""
        self._doubtful = False
        """The next batch may already be on disk: its commit failed after it was written."""

    def load(self, ended_max: int) -> Loaded:
        if self._connection is not None:
            raise StoreError(f"{self._path} is already open: close it before it is loaded again")
        if sqlite3.sqlite_version_info < SQLITE_MIN:
            wanted = ".".join(map(str, SQLITE_MIN))
            raise StoreError(f"Python uses SQLite {sqlite3.sqlite_version}: the store needs {wanted} or later")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"data folder {self._path.parent} cannot be created: {error.strerror}") from error
        self._lock = FileLock(lock_path(self._path), self._kind)
        if self._lock.previous_holder is not None:
            before = self._lock.previous_holder.description
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
                self._expiry = Expiry(sections, retention, self._shelves.next_drop_us())
                output = OutputWriter(self._connection, retention.output_bytes_max)
                self._writer = BatchWriter(KnownTerms(terms, terms_id_max), retention, sections, output)
                self._recount()
                unread: list[str] = []
                fired = read_firings(self._connection, unread)
                for name in unread:
                    self._on_warning(f"schedule {name} in {self._path} cannot be read: it starts over")
                paused = read_paused(self._connection)
                unruled: list[str] = []
                rules = read_rules(self._connection, unruled)
                for name in unruled:
                    self._on_warning(f"the rules of queue {name} in {self._path} cannot be read: set them anew")
                windows = read_windows(self._connection)
                flows = read_flows(self._connection)
                epoch = self._bump_epoch()
                self._begin_log()
                self._files = FileIdentities(self._path)
        except BaseException:
            with suppress(StoreError):
                self.close()
            raise
        return Loaded(epoch, self.live(), self._latest_ended(ended_max), fired, paused, flows, rules, windows)

    def raise_epoch(self, epoch: int) -> None:
        """Later openings have larger epochs than this: jobs of another store were moved here."""
        with explained(self._path), self._transaction() as connection:
            connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'epoch'", (epoch,))

    def check(self) -> None:
        """Raise StoreError while a commit would go to a file that was removed or replaced."""
        if self._files is not None:
            self._files.check()

    def commit(self, batch: Batch, now_us: int) -> None:
        with explained(self._path):
            if not self._counted:
                self._recount()
            try:
                self._write(batch, now_us)
            except BaseException as error:
                self._counted = False
                self._expiry.reset()
                self._left_over = self._left_over or failed_late(error)
                if isinstance(error, sqlite3.Error) and is_in_doubt(error):
                    self._in_doubt = batch
                    raise OutcomeUnknown(str(explain(error, self._path))) from error
                self._writer.rolled_back()
                raise
            self._writer.committed()
            if self._left_over:
                self._left_over = False
                self._begin_log()

    def settle(self) -> bool:
        batch = self._in_doubt
        if batch is None:
            raise StoreError("no commit has an unknown outcome")
        self.probe()
        with explained(self._path):
            kept = is_kept(self._open_connection, batch)
        self._in_doubt = None
        if kept:
            self._writer.committed()
        else:
            self._writer.rolled_back()
        return kept

    def next_expiry_us(self) -> int:
        return self._expiry.next_us

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
            found = end_rows(find_lines(self._open_connection, query), self._writer.terms.by_id, bad)
            self._set_aside("history", bad)
            return found

    def page(self, query: HistoryQuery) -> HistoryPage:
        with explained(self._path):
            bad: list[BadId] = []
            rows, before_id = find_page(self._open_connection, query)
            lines = end_rows(rows, self._writer.terms.by_id, bad)
            self._set_aside("history", bad)
            return HistoryPage(lines, before_id)

    def latest_ends(self, refs: Sequence[ParentRef]) -> list[EndRow]:
        with explained(self._path):
            found = find_latest(self._open_connection, refs)
        return list(self._ended_rows(found))

    def output(self, job_id: int, position: int) -> OutputPage:
        with explained(self._path):
            return find_output(self._open_connection, job_id, position)

    def live(self) -> Iterator[JobRow]:
        pages = pages_of_jobs(self._open_connection)
        while True:
            bad: list[BadId] = []
            with explained(self._path):
                page = next(pages, None)
                if page is None:
                    return
                rows = job_rows(page, self._writer.terms.by_id, bad)
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
        files, self._files = self._files, None
        try:
            if connection is None:
                return
            with explained(self._path):
                if files is not None and not files.unchanged:
                    with files.replacements_kept():
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
            check_same_thread=False,  # Used by one thread at a time, but not always the same one.
            cached_statements=STATEMENTS_CACHED,
        )
        try:
            connection.text_factory = bytearray  # Distinguishes text from bytes.
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
        """Copy the log into the file, so that the file itself says that it is open, and start a new generation
        of the log. What a crash or a failed commit left after the last commit then has an older generation.
        """
        with suppress(sqlite3.Error):  # A later checkpoint does the same.
            self._open_connection.execute("PRAGMA wal_checkpoint(RESTART)")

    def _fold_log(self, connection: sqlite3.Connection) -> None:
        """Copy the log into the file and mark it as closed. If that fails, nothing is lost: the next start
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
                # Without it, ids of stored jobs could be used again.
                raise StoreError(f"{self._path} has no valid boot epoch: restore a backup")
            epoch: int = row[0] + 1
            connection.execute("UPDATE meta SET value = ? WHERE name = 'epoch'", (epoch,))
            inode = self._path.stat().st_ino
            connection.execute(_MARK_OPEN, (OPEN, epoch, OPEN_INODE, inode))
        return epoch

    def _latest_ended(self, ended_max: int) -> Iterator[EndRow]:
        with explained(self._path):
            found = self._shelves.latest(ended_max)
        yield from self._ended_rows(found)

    def _ended_rows(self, found: list[int]) -> Iterator[EndRow]:
        """The lines with these ids, without their results."""
        for start in range(0, len(found), PAGE_ROWS):
            bad: list[BadId] = []
            wanted = str(found[start : start + PAGE_ROWS])
            with explained(self._path):
                page = self._open_connection.execute(_ENDED_PAGE, (wanted,)).fetchall()
                rows = end_rows(page, self._writer.terms.by_id, bad)
                self._set_aside("history", bad)
            yield from rows

    def _write(self, batch: Batch, now_us: int) -> None:
        if batch.revived:
            self._shelves.subtract_lines(str(batch.revived))
        statements = self._writer.statements(batch)
        first = next(statements, _NOTHING)
        second = next(statements, _NOTHING)
        rows, touched = len(batch.inserts) + len(batch.ends), self._writer.touched
        if second is _NOTHING:
            added = CommitSize(len(batch.ends), rows, first.content_bytes, self._writer.drop_us)
            if not self._expiry.due(now_us, added, touched):
                self._expiry.skip(added)
                if first is not _NOTHING:
                    taken = self._run(first)  # A single statement is a transaction.
                    try:
                        self._settle(batch, taken)
                    except sqlite3.Error:  # The batch is on disk nevertheless.
                        self._counted = False
                return
        with self._transaction():
            taken = content_bytes = 0
            for statement in chain((first, second), statements):
                if statement is not _NOTHING:
                    taken += self._run(statement)
                    content_bytes += statement.content_bytes
            self._settle(batch, taken)
            added = CommitSize(len(batch.ends), rows, content_bytes, self._writer.drop_us)
            if self._expiry.due(now_us, added, touched):
                self._expiry.run(self._shelves, now_us, added, touched)
            else:
                self._expiry.skip(added)

    def _settle(self, batch: Batch, taken: int) -> None:
        """Count what the triggers did. They delete the jobs in `batch.deletes`, unless an end replaced an
        earlier one.
        """
        if taken != len(batch.deletes) or self._doubtful:
            taken -= self._shelves.subtract_replaced()
            self._doubtful = False
        self._live += len(batch.inserts) - taken

    def _run(self, statement: Statement) -> int:
        """Execute a statement. Return the number of rows that its triggers changed."""
        connection = self._open_connection
        changes = connection.total_changes
        rows = connection.execute(statement.sql, statement.values).rowcount
        return connection.total_changes - changes - rows

    def _recount(self) -> None:
        (self._live,) = self._open_connection.execute("SELECT COUNT(*) FROM jobs").fetchone()
        self._shelves.recount()
        self._counted = self._doubtful = True

    def _set_aside(self, table: str, bad: list[BadId]) -> None:
        """Move rows that cannot be decoded to the quarantine."""
        if not bad:
            return
        copy = _SET_ASIDE.replace("{table}", table).replace("{columns}", _COLUMNS[table])
        self._counted = False
        with self._transaction() as connection:
            for job_id, reason in bad:
                connection.execute(copy, (reason, job_id))
                connection.execute(f"DELETE FROM {table} WHERE id = ?", (job_id,))  # noqa: S608, one of two names
                connection.execute("DELETE FROM output WHERE job = ?", (job_id,))
        for job_id, reason in bad:
            self._on_warning(
                f"job {job_id} in table {table} of {self._path} was moved to the quarantine: {reason}"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._open_connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            # Some errors make SQLite roll back by itself. If the rollback fails too, the first error is the
            # one to report.
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
