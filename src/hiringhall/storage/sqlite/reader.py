"""Reads the data file: queries of the history, and a reader for commands that run beside a hall.

Invariant: a query walks an index or stops at its limit; none sorts the whole history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from hiringhall.core.jobs import PROVIDER
from hiringhall.core.states import FAILED
from hiringhall.storage.rows import (
    END_COLUMNS,
    JOB_COLUMNS,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from hiringhall.core.jobs import ParentRef
    from hiringhall.storage.contract import HistoryQuery
    from hiringhall.storage.rows import RawRow

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
