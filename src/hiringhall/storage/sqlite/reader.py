"""Reading the file: the queries of the history, and a reader for commands that look while a hall runs.

The law: a query walks an index or stops at its limit; none sorts the whole history.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from hiringhall.core.jobs import FAILED
from hiringhall.storage.contract import StoreError
from hiringhall.storage.sqlite.faults import explained
from hiringhall.storage.sqlite.rows import END_COLUMNS, JOB_COLUMNS, decode, end_row, job_rows, read_terms
from hiringhall.storage.sqlite.schema import check_version, migrations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hiringhall.core.changes import EndRow, JobRow
    from hiringhall.storage.contract import HistoryQuery
    from hiringhall.storage.sqlite.rows import RawRow

PAGE_ROWS: Final = 512
"""Rows read at a time: between two pages nothing is held open, so others may write."""

_END_SELECT: Final = f"SELECT {END_COLUMNS} FROM history WHERE "  # noqa: S608, our own names
_NEXT_BLOCK: Final = "SELECT MAX(id) >> 13 FROM history WHERE id < ?"
"""Blocks are those of the index `history_by_key`."""
_BLOCK_BITS: Final = 13
_ENDED_DEAD: Final = (
    "SELECT id FROM history INDEXED BY history_by_end_dead"
    " WHERE state = 5 AND ended_us BETWEEN :ended_from_us AND :ended_to_us AND id < :before_id"
)
_ENDED_OTHERS: Final = _ENDED_DEAD.replace("_dead", "").replace("=", "<>", 1)
_JOBS_PAGE: Final = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608, our own names
_INTEGER_MAX: Final = (1 << 63) - 1


class Quarantined(NamedTuple):
    """A row that could not be read and was set aside."""

    source: str
    """The table it stood in."""
    id: int
    reason: str
    set_aside_at: str


def find_lines(connection: sqlite3.Connection, query: HistoryQuery) -> list[RawRow]:
    """The lines of the history that a query asks for, newest first."""
    values: dict[str, int | bytes] = {
        "before_id": _INTEGER_MAX,
        "ended_from_us": -_INTEGER_MAX,
        "ended_to_us": _INTEGER_MAX,
    }
    values |= {name: value for name, value in query._asdict().items() if value is not None}
    values["limit"] = max(0, query.limit)
    where = ["id < :before_id"]
    where += [f"{name} = :{name}" for name in ("id", "queue", "key") if name in values]
    # The plus keeps SQLite from an index that would have it sort all that ever ended.
    where += ["+state = :state"] if query.state is not None else []
    where += ["+ended_us BETWEEN :ended_from_us AND :ended_to_us"]
    if query.id is None and query.queue is not None:
        return _walk_blocks(connection, where, values)
    if query.id is None and (query.ended_from_us is not None or query.state == FAILED):
        where.append(f"id IN ({_ended_ids(query)})")
    sql = _END_SELECT + " AND ".join(where) + " ORDER BY id DESC LIMIT :limit"
    return connection.execute(sql, values).fetchall()


def _walk_blocks(
    connection: sqlite3.Connection, where: list[str], values: dict[str, int | bytes]
) -> list[RawRow]:
    sql = _END_SELECT + " AND ".join(["id >> 13 = :block", *where]) + " ORDER BY id DESC LIMIT :limit"
    found: list[RawRow] = []
    before_id = values["before_id"]
    left = query_limit = int(values["limit"])
    while left > 0:
        (block,) = connection.execute(_NEXT_BLOCK, (before_id,)).fetchone()
        if block is None:
            break
        found += connection.execute(sql, {**values, "block": block, "limit": left}).fetchall()
        left = query_limit - len(found)
        before_id = block << _BLOCK_BITS
    return found


def _ended_ids(query: HistoryQuery) -> str:
    """The ids that a query's times allow, from the indexes by time; only the newest of them where these
    indexes tell all that the query asks for.
    """
    shelves = [_ENDED_DEAD] if query.state in {None, FAILED} else []
    shelves += [_ENDED_OTHERS] if query.state != FAILED else []
    ids = " UNION ALL ".join(shelves)
    if query.key is None and query.state in {None, FAILED}:
        ids += " ORDER BY id DESC LIMIT :limit"
    return ids


def pages_of_jobs(connection: sqlite3.Connection) -> Iterator[list[RawRow]]:
    """All live jobs by id, a page at a time."""
    after_id = -_INTEGER_MAX
    while True:
        page = connection.execute(_JOBS_PAGE, (after_id, PAGE_ROWS)).fetchall()
        if not page:
            return
        yield page
        after_id = page[-1][0]


def count_rows(connection: sqlite3.Connection) -> tuple[int, int]:
    (live,) = connection.execute("SELECT COUNT(*) FROM jobs").fetchone()
    (lines,) = connection.execute("SELECT COUNT(*) FROM history").fetchone()
    return live, lines


def open_history(path: Path) -> SqliteHistoryReader:
    """A reader of a hall's data file, whether or not a hall is running on it."""
    return SqliteHistoryReader(path)


class SqliteHistoryReader:
    """Looks and changes nothing. Rows that cannot be read are left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            raise StoreError(f"{path} does not exist: name the data folder of a hall that was started once")
        with explained(path):
            self._connection = sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, isolation_level=None, timeout=5
            )
            try:
                self._connection.text_factory = bytearray
                self._connection.execute("PRAGMA query_only = ON")
                steps = migrations()
                if check_version(self._connection, steps, path) < steps[-1][0]:
                    raise StoreError(f"{path} is empty or of an older version: start a hall on it once")
            except BaseException:
                self._connection.close()
                raise

    def history(self, query: HistoryQuery) -> list[EndRow]:
        with explained(self._path):
            rows = find_lines(self._connection, query)
            return decode(rows, end_row, read_terms(self._connection), [])

    def live(self) -> Iterator[JobRow]:
        pages = pages_of_jobs(self._connection)
        while True:
            with explained(self._path):
                page = next(pages, None)
                if page is None:
                    return
                rows = job_rows(page, read_terms(self._connection), [])
            yield from rows

    def count(self) -> tuple[int, int]:
        with explained(self._path):
            return count_rows(self._connection)

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
