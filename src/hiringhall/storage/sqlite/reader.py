"""Reads the data file: queries of the history, and a reader for commands that run beside a hall.

Invariant: a query walks an index or stops at its limit; none sorts the whole history.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

import msgspec

from hiringhall.core.jobs import PROVIDER
from hiringhall.core.states import FAILED
from hiringhall.storage.contract import StoreError
from hiringhall.storage.sqlite.counting import count_ends, count_matching
from hiringhall.storage.sqlite.faults import explained
from hiringhall.storage.sqlite.lock import find_holder
from hiringhall.storage.sqlite.loss import LogDamaged
from hiringhall.storage.sqlite.output import find_output
from hiringhall.storage.sqlite.rows import (
    END_COLUMNS,
    JOB_COLUMNS,
    decode,
    end_row,
    job_rows,
    read_firings,
    read_terms,
)
from hiringhall.storage.sqlite.schema import check_version, migrations
from hiringhall.storage.sqlite.wal import find_damage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hiringhall.core.changes import EndRow, Firing, JobRow, OutputPage
    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import HistoryQuery
    from hiringhall.storage.sqlite.counting import EndCount
    from hiringhall.storage.sqlite.rows import RawRow

PAGE_ROWS: Final = 512
"""Rows read at a time. Nothing stays open between two pages, so others may write."""

LINES: Final = f"SELECT {END_COLUMNS} FROM history WHERE id IN ({{ids}}) ORDER BY id DESC"  # noqa: S608, our own names
_IDS: Final = "SELECT id FROM {source} WHERE {where} ORDER BY id DESC LIMIT :limit"
"""Selects ids first and lines later, so that no results are read for rows that are sorted and dropped."""
_NEWEST: Final = (
    "(SELECT id, state, ended_us FROM history WHERE id < :before_id ORDER BY id DESC LIMIT :newest_max)"
)
_NEWEST_MAX: Final = 20_000
BLOCK_BITS: Final = 13
"""Ids that differ in these low bits only form one block of the index `history_by_key`, as in storage/sql."""
BLOCKS: Final = f"""
WITH RECURSIVE blocks (block) AS (
    SELECT MAX(id) >> {BLOCK_BITS} FROM history WHERE id < :before_id
    UNION ALL
    SELECT (SELECT MAX(id) >> {BLOCK_BITS} FROM history WHERE id < block << {BLOCK_BITS})
    FROM blocks WHERE block IS NOT NULL
    LIMIT :blocks_max
)
SELECT json_group_array(block), MIN(block) FROM blocks WHERE block IS NOT NULL
"""  # noqa: S608, our own number
"""The blocks of the index that have lines, newest first."""
_BLOCKS_MAX: Final = 4096
_BLOCKS_GROWTH: Final = 4
IN_BLOCKS: Final = f"id >> {BLOCK_BITS} IN (SELECT value FROM json_each(:blocks))"  # noqa: S608, our own number
BY_FLOW: Final = "history INDEXED BY history_by_flow"
"""The lines of one flow, by id. Other conditions are checked on the way: a search may look at all of them."""
_LATEST: Final = f"""
WITH wanted (queue, key) AS (VALUES {{names}})
SELECT id, queue, key, ended_us FROM (
    SELECT history.id, history.queue, history.key, history.ended_us,
        ROW_NUMBER() OVER (
            PARTITION BY wanted.queue, wanted.key ORDER BY history.ended_us DESC, history.id DESC
        ) AS place
    FROM wanted CROSS JOIN json_each(?) AS blocks CROSS JOIN history INDEXED BY history_by_key
    ON history.id >> {BLOCK_BITS} = blocks.value AND history.key = wanted.key AND history.queue = wanted.queue
    WHERE history.extras IS NULL OR NOT instr(history.extras, ?)
) WHERE place = 1
"""  # noqa: S608, our own number
_PROVIDER_MARK: Final = msgspec.msgpack.encode(PROVIDER)
"""The extras of a provider's job contain this."""
_BY_TIME: Final = """(
    SELECT id, {columns} ended_us FROM history INDEXED BY history_by_shelf
    WHERE shelf IN ({shelves}) AND ended_us BETWEEN :ended_from_us AND :ended_to_us
    ORDER BY shelf DESC, ended_us DESC LIMIT -1
)"""
"""Latest first, although the result is ordered by id: large ids come early, so few of the rest are sorted."""
_JOBS_PAGE: Final = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608, our own names
_LATEST_PAGE: Final = _JOBS_PAGE.replace("id > ?", "id < ?").replace("ORDER BY id", "ORDER BY id DESC")
INTEGER_MAX: Final = (1 << 63) - 1
_BUSY_S: Final = 5.0
"""How long a reader waits for a file that a hall has locked briefly."""


class Quarantined(NamedTuple):
    """A row that could not be read and was set aside."""

    source: str
    """The table it was in."""
    id: int
    reason: str
    set_aside_at: str


Values = dict[str, int | bytes | str]


def find_lines(connection: sqlite3.Connection, query: HistoryQuery) -> list[RawRow]:
    """The lines of the history that match a query, newest first."""
    where, values = conditions(query)
    timed = is_timed(query)
    if query.id is None and query.flow is not None:
        return connection.execute(lines_sql(BY_FLOW, where), values).fetchall()
    if query.id is None and (query.key is not None or query.queue is not None):
        return _walk_blocks(connection, where, values)
    if query.id is None and (timed or query.state == FAILED):
        return _among_newest(connection, where, values) or _from_shelves(connection, where, values)
    return connection.execute(lines_sql("history NOT INDEXED", where), values).fetchall()


def conditions(query: HistoryQuery) -> tuple[list[str], Values]:
    """What a query asks for: conditions, and their values."""
    values: Values = {
        "before_id": INTEGER_MAX,
        "ended_from_us": -INTEGER_MAX,
        "ended_to_us": INTEGER_MAX,
    }
    values |= {name: value for name, value in query._asdict().items() if value is not None}
    values["limit"] = max(0, query.limit)
    where = [
        "id < :before_id",
        *[f"{name} = :{name}" for name in ("id", "queue", "key", "flow") if name in values],
    ]
    where += ["state = :state"] if query.state is not None else []
    where += ["ended_us BETWEEN :ended_from_us AND :ended_to_us"] if is_timed(query) else []
    return where, values


def is_timed(query: HistoryQuery) -> bool:
    return query.ended_from_us is not None or query.ended_to_us is not None


def lines_sql(source: str, where: list[str], lines: str = LINES) -> str:
    ids = _IDS.replace("{source}", source).replace("{where}", " AND ".join(where))
    return lines.replace("{ids}", ids)


def _walk_blocks(connection: sqlite3.Connection, where: list[str], values: Values) -> list[RawRow]:
    """Search by key or queue. Start with few blocks, because matches may be everywhere, then take more."""
    sql = lines_sql("history INDEXED BY history_by_key", [IN_BLOCKS, *where])
    found: list[RawRow] = []
    values = dict(values)
    limit = int(values["limit"])
    before_id, blocks_max = values["before_id"], 1
    while len(found) < limit:
        bounds = {"before_id": before_id, "blocks_max": blocks_max}
        blocks, last = connection.execute(BLOCKS, bounds).fetchone()
        if last is None:
            break
        values |= {"blocks": blocks.decode(), "limit": limit - len(found)}
        found += connection.execute(sql, values).fetchall()
        before_id, blocks_max = last << BLOCK_BITS, min(blocks_max * _BLOCKS_GROWTH, _BLOCKS_MAX)
    return found


def find_latest(connection: sqlite3.Connection, refs: Sequence[ParentRef]) -> list[int]:
    """The given ids, and for each (queue, key) the id of its line that ended last."""
    names = [ref for ref in refs if not isinstance(ref, int)]
    found = [ref for ref in refs if isinstance(ref, int)]
    if not names:
        return found
    latest: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    sql = _LATEST.replace("{names}", ", ".join(["(?, ?)"] * len(names)))
    before_id = INTEGER_MAX
    while True:
        bounds = {"before_id": before_id, "blocks_max": _BLOCKS_MAX}
        blocks, last = connection.execute(BLOCKS, bounds).fetchone()
        if last is None:
            return found + [job_id for _, job_id in latest.values()]
        values = [part for name in names for part in name]
        for job_id, queue, key, ended_us in connection.execute(sql, (*values, blocks.decode(), _PROVIDER_MARK)):
            latest[queue, key] = max(latest.get((queue, key), (0, 0)), (ended_us, job_id))
        before_id = last << BLOCK_BITS


def _among_newest(connection: sqlite3.Connection, where: list[str], values: Values) -> list[RawRow]:
    """The matching lines, if the newest lines have enough of them; otherwise none. Paging through a long period
    mostly succeeds here; the index would have to sort the rest of that period for every page.
    """
    limit = int(values["limit"])
    if 2 * limit > _NEWEST_MAX:
        return []
    values = {**values, "newest_max": max(2 * limit, 1000)}
    found = connection.execute(lines_sql(_NEWEST, where), values).fetchall()
    return found if len(found) >= limit else []


def _from_shelves(connection: sqlite3.Connection, where: list[str], values: Values) -> list[RawRow]:
    """Search by end time, with the index."""
    source, where = by_shelf(where, values)
    return connection.execute(lines_sql(source, where), values).fetchall()


def by_shelf(where: list[str], values: Values) -> tuple[str, list[str]]:
    """What to select from for a search by end time, and the conditions that are left."""
    shelves, columns = "SELECT id FROM shelves", "state,"
    if values.get("state") == FAILED:  # The shelf tells the state, so the line need not be read.
        shelves, columns = "SELECT id FROM shelves WHERE dead = 1", ""
        where = [condition for condition in where if condition != "state = :state"]
    elif "state" not in values:
        columns = ""
    return _BY_TIME.replace("{columns}", columns).replace("{shelves}", shelves), where


def pages_of_jobs(connection: sqlite3.Connection) -> Iterator[list[RawRow]]:
    """All live jobs ordered by id, one page at a time."""
    after_id = -INTEGER_MAX
    while True:
        page = connection.execute(_JOBS_PAGE, (after_id, PAGE_ROWS)).fetchall()
        if not page:
            return
        yield page
        after_id = page[-1][0]


def latest_pages_of_jobs(connection: sqlite3.Connection, before_id: int | None) -> Iterator[list[RawRow]]:
    """The live jobs, newest first, one page at a time."""
    below = INTEGER_MAX if before_id is None else before_id
    while True:
        page = connection.execute(_LATEST_PAGE, (below, PAGE_ROWS)).fetchall()
        if not page:
            return
        yield page
        below = page[-1][0]


def count_rows(connection: sqlite3.Connection) -> tuple[int, int]:
    (live,) = connection.execute("SELECT COUNT(*) FROM jobs").fetchone()
    (lines,) = connection.execute("SELECT COUNT(*) FROM history").fetchone()
    return live, lines


def _connect(path: Path, how: str) -> sqlite3.Connection:
    """Open a connection and read from the file once."""
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{how}", uri=True, isolation_level=None, timeout=_BUSY_S
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

    def count_lines(self, query: HistoryQuery, limit_s: float) -> int | None:
        """How many lines match, whatever the limit of the query; None: that takes longer than `limit_s`."""
        where, values = conditions(query)
        with explained(self._path):
            return count_matching(self._connection, where, values, limit_s)

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
