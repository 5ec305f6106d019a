"""Reads the data file for commands and the web, beside a running hall or without one.

Invariant: nothing is written, and no read transaction stays open between two calls.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from hiringhall.storage.contract import StoreError
from hiringhall.storage.history_contract import Quarantined
from hiringhall.storage.rows import decode, end_row, job_rows
from hiringhall.storage.sqlite.counting import count_ends, count_matching
from hiringhall.storage.sqlite.faults import explained
from hiringhall.storage.sqlite.lock import find_holder
from hiringhall.storage.sqlite.loss import LogDamaged
from hiringhall.storage.sqlite.notes import read_firings, read_terms
from hiringhall.storage.sqlite.output import find_output
from hiringhall.storage.sqlite.reader import (
    conditions,
    count_rows,
    find_lines,
    latest_pages_of_jobs,
    pages_of_jobs,
)
from hiringhall.storage.sqlite.schema import check_version, migrations
from hiringhall.storage.sqlite.searching import count_slowly, search
from hiringhall.storage.sqlite.wal import OPEN, find_damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hiringhall.core.changes import EndRow, Firing, JobRow, OutputPage
    from hiringhall.storage.contract import HistoryQuery
    from hiringhall.storage.history_contract import EndCount
    from hiringhall.storage.rows import RawRow

COPY_PAGES: Final = 1024
"""Pages that one step of a copy writes."""
_BUSY_S: Final = 5.0
"""How long a reader waits for a file that a hall has locked briefly."""


def _connect(path: Path, how: str) -> sqlite3.Connection:
    """Open a connection and read from the file once."""
    connection = sqlite3.connect(
        f"file:{quote(bytes(path.absolute()))}?{how}", uri=True, isolation_level=None, timeout=_BUSY_S
    )
    try:
        connection.text_factory = bytearray
        connection.execute("PRAGMA query_only = ON")
        steps = migrations()
        if check_version(connection, steps, path) < steps[-1][0]:
            raise StoreError(f"{path} is empty or from an older version: start a hall on it once")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_log(path: Path) -> bool:
    """Whether there are changes in the log that may not be in the file yet."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _refuse_damage(path: Path) -> None:
    """A reader would see too little, and SQLite would remove some of the evidence of the damage."""
    if find_holder(path) is None:
        damage = find_damage(path)
        # Checked again: a hall may have begun to write to it meanwhile.
        if damage is not None and damage.sure and find_holder(path) is None:
            raise LogDamaged(path, damage)


def open_history(path: Path) -> SqliteHistoryReader:
    """A reader of a hall's data file, whether or not a hall is running on it."""
    return SqliteHistoryReader(path)


class SqliteHistoryReader:
    """Reads, and changes no stored data. Rows that cannot be decoded are left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            raise StoreError(
                f"{path} does not exist: give the data folder of a hall that was started at least once"
            )
        _refuse_damage(path)
        with explained(path):
            try:
                self._connection = _connect(path, "mode=ro")
            except sqlite3.OperationalError:
                if find_holder(path) is not None or _has_log(path):
                    raise
                # Readers share an index file, which cannot be created on a read-only medium. It is not needed
                # if nobody writes and the log is empty.
                self._connection = _connect(path, "immutable=1")

    def copy(self, target: Path, copied: Callable[[int, int], None]) -> None:
        """Copy the file as it is at this moment, while a hall goes on writing. `copied` is called with how many
        pages are copied, and how many there are. The target must be empty, or not exist. The copy is complete
        without a log, so it does not say that a hall has it open.
        """
        with explained(self._path), closing(sqlite3.connect(target)) as copy:
            # One transaction for all steps: what is committed meanwhile neither is in the copy nor restarts it.
            self._connection.execute("BEGIN")
            try:
                count_rows(self._connection)
                self._connection.backup(
                    copy,
                    pages=COPY_PAGES,
                    progress=lambda _, left, total: copied(total - left, total),
                )
            finally:
                self._connection.execute("ROLLBACK")
            with copy:
                copy.execute("DELETE FROM meta WHERE name = ?", (OPEN,))

    def history(self, query: HistoryQuery) -> list[EndRow]:
        return self.page(query)[0]

    def page(self, query: HistoryQuery) -> tuple[list[EndRow], int | None]:
        """The matching lines, and the `before_id` of the next page; None: this was the last one. A page may be
        empty because no line of it could be decoded, and not be the last one.
        """
        with explained(self._path):
            rows = find_lines(self._connection, query)
            lines = decode(rows, end_row, read_terms(self._connection), [])
        return lines, rows[-1][0] if rows else None

    def search(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[list[EndRow], int]:
        """The matching lines that are found in `limit_s`, newest first, and the id below which to go on; 0:
        there are no more. With `text`, lines that contain it, ASCII letters in either case. A line has no
        payload, and of its result the beginning.
        """
        with explained(self._path):
            rows, before_id = search(self._connection, query, text, limit_s)
            return decode(rows, end_row, read_terms(self._connection), []), before_id

    def output(self, job_id: int, position: int) -> OutputPage:
        """What the workers of a job said, from a position on."""
        with explained(self._path):
            return find_output(self._connection, job_id, position)

    def live(self) -> Iterator[JobRow]:
        return self._rows(pages_of_jobs(self._connection))

    def latest(self, before_id: int | None = None) -> Iterator[JobRow]:
        """The live jobs with ids below `before_id`, newest first."""
        return self._rows(latest_pages_of_jobs(self._connection, before_id))

    def _rows(self, pages: Iterator[list[RawRow]]) -> Iterator[JobRow]:
        while True:
            with explained(self._path):
                page = next(pages, None)
                if page is None:
                    return
                rows = job_rows(page, read_terms(self._connection), [])
            yield from rows

    def ends(self, from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
        """What ended from one time until before another, counted by time, queue and state."""
        with explained(self._path):
            return count_ends(self._connection, from_us, to_us, bucket_us)

    def count_lines(self, query: HistoryQuery, text: bytes, limit_s: float) -> tuple[int, int]:
        """How many lines match, whatever the limit of the query, as far as that is known after `limit_s`; and
        the id below which to go on counting, 0: that is all.
        """
        where, values = conditions(query)
        with explained(self._path):
            if not text and query.key is None and query.before_id is None:
                counted = count_matching(self._connection, where, values, limit_s / 2)
                if counted is not None:
                    return counted, 0
                limit_s /= 2
            return count_slowly(self._connection, query, text, limit_s)

    def count(self) -> tuple[int, int]:
        with explained(self._path):
            return count_rows(self._connection)

    def firings(self) -> dict[str, Firing]:
        """The latest firing of each schedule."""
        with explained(self._path):
            return read_firings(self._connection, [])

    def quarantined(self) -> list[Quarantined]:
        with explained(self._path):
            rows = self._connection.execute(
                "SELECT source, id, reason, set_aside_at FROM quarantine ORDER BY number"
            ).fetchall()
        return [
            Quarantined(source.decode(), job_id, reason.decode(), set_aside_at.decode())
            for source, job_id, reason, set_aside_at in rows
        ]

    def close(self) -> None:
        self._connection.close()
