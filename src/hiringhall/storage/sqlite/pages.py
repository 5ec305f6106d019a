"""Pages of the history with bounded work: a commit of the hall, or a person, may wait for the answer.

Invariant: a page looks at a bounded number of lines. If they do not have enough matches, it is short, and says
where to go on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hiringhall.core.changes import PAGE_RESULT_BYTES
from hiringhall.core.states import FAILED
from hiringhall.storage.rows import END_COLUMNS
from hiringhall.storage.sqlite.reader import (
    BLOCK_BITS,
    BLOCKS,
    BY_FLOW,
    IN_BLOCKS,
    LINES,
    by_shelf,
    conditions,
    is_timed,
    lines_sql,
)

if TYPE_CHECKING:
    import sqlite3

    from hiringhall.core.changes import HistoryQuery
    from hiringhall.storage.rows import RawRow
    from hiringhall.storage.sqlite.reader import Values

LINES_MAX: Final = 128
"""Lines of one page: each may have a long result, of which only the beginning is kept."""
BRIEF_MAX: Final = 1000
"""The same, without results."""
IDS_MAX: Final = 8192
"""Ids of one page that has only ids."""
WALKED_MAX: Final = 8192
"""Lines that are looked at, one after the other."""
SORTED_MAX: Final = 20_000
"""Lines of a period, or dead letters, that are sorted by id; more than this are walked through."""
KEY_BLOCKS_MAX: Final = 256
"""Blocks in which a key is looked up."""

# substr() of an empty blob is NULL, and a result that is NULL counts as damage.
_RESULT: Final = (
    f"CASE WHEN length(result) > {PAGE_RESULT_BYTES} THEN substr(result, 1, {PAGE_RESULT_BYTES})"
    " ELSE result END AS result"
)
_CUT: Final = {"result": _RESULT, "payload": "x'' AS payload"}
_COLUMNS: Final = ", ".join([_CUT.get(column, column) for column in END_COLUMNS.split(", ")])
_CUT_LINES: Final = LINES.replace(END_COLUMNS, _COLUMNS)
_BRIEF_LINES: Final = _CUT_LINES.replace(_RESULT, "x'' AS result")
_ONLY_IDS: Final = "{ids}"
_WALKED: Final = """
SELECT COUNT(*), MIN(id) FROM (
    SELECT id FROM history {source} AND id < :before_id ORDER BY id DESC LIMIT :walked_max
)
"""
_ALL: Final = "NOT INDEXED WHERE 1"
_OF_FLOW: Final = "INDEXED BY history_by_flow WHERE flow = :flow"


def find_page(connection: sqlite3.Connection, query: HistoryQuery) -> tuple[list[RawRow], int]:
    """Lines of the history that match a query, newest first, and the id below which to go on; 0: no more."""
    limit = min(query.limit, BRIEF_MAX if query.brief else LINES_MAX)
    return _find(connection, query, limit, _BRIEF_LINES if query.brief else _CUT_LINES)


def find_ids(connection: sqlite3.Connection, query: HistoryQuery) -> tuple[list[int], int]:
    """As `find_page`, only the ids, and more of them."""
    rows, before_id = _find(connection, query, min(query.limit, IDS_MAX), _ONLY_IDS)
    return [row[0] for row in rows], before_id


def read_lines(connection: sqlite3.Connection, ids: list[int]) -> list[RawRow]:
    """The lines with these ids, newest first, as in a page."""
    listed = {"ids": json.dumps(ids)}
    return connection.execute(
        _CUT_LINES.replace("{ids}", "SELECT value FROM json_each(:ids)"), listed
    ).fetchall()


def _find(
    connection: sqlite3.Connection, query: HistoryQuery, limit: int, lines: str
) -> tuple[list[RawRow], int]:
    where, values = conditions(query._replace(limit=limit))
    if where == ["id < :before_id"] or query.id is not None:
        source, floor = "history NOT INDEXED", 0  # nothing to walk over
    elif where == ["id < :before_id", "flow = :flow"]:
        source, floor = BY_FLOW, 0  # each line of the flow is one
    elif query.flow is not None:
        floor = _walk(connection, _OF_FLOW, values)
        source, where = BY_FLOW, [*where, "id >= :floor"]
    elif query.key is not None or query.queue is not None:
        source, where, floor = _in_blocks(connection, query, where, values)
    elif (is_timed(query) or query.state == FAILED) and _are_few(connection, where, values):
        source, where = by_shelf(where, values)
        floor = 0
    else:
        floor = _walk(connection, _ALL, values)
        source, where = "history NOT INDEXED", [*where, "id >= :floor"]
    rows = connection.execute(lines_sql(source, where, lines), values).fetchall()
    return rows, rows[-1][0] if rows and len(rows) == limit else floor


def _walk(connection: sqlite3.Connection, source: str, values: Values) -> int:
    """The id down to which lines are looked at, which is put into the values; 0: all of them."""
    walked: Values = {**values, "walked_max": WALKED_MAX}
    count, lowest = connection.execute(_WALKED.replace("{source}", source), walked).fetchone()
    floor = int(lowest) if count == WALKED_MAX else 0
    values["floor"] = floor
    return floor


def _in_blocks(
    connection: sqlite3.Connection, query: HistoryQuery, where: list[str], values: Values
) -> tuple[str, list[str], int]:
    """Search by key or queue: one step for each block, or through a whole block."""
    blocks_max = KEY_BLOCKS_MAX if query.key is not None else max(WALKED_MAX >> BLOCK_BITS, 1)
    bounds = {"before_id": values["before_id"], "blocks_max": blocks_max}
    blocks, last = connection.execute(BLOCKS, bounds).fetchone()
    values["blocks"] = blocks.decode()
    return "history INDEXED BY history_by_key", [IN_BLOCKS, *where], last << BLOCK_BITS if last else 0


def _are_few(connection: sqlite3.Connection, where: list[str], values: Values) -> bool:
    """Whether the index by end time leads to few enough lines to sort them."""
    # Without a state that only the lines have: the index alone is read.
    source, _ = by_shelf(where, values if values.get("state") == FAILED else _without_state(values))
    counted = f"SELECT COUNT(*) FROM (SELECT 1 FROM {source} LIMIT :sorted_max)"  # noqa: S608, our own names
    (count,) = connection.execute(counted, {**values, "sorted_max": SORTED_MAX + 1}).fetchone()
    return int(count) <= SORTED_MAX


def _without_state(values: Values) -> Values:
    return {name: value for name, value in values.items() if name != "state"}
