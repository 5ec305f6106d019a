"""Searches the history for somebody who waits: for a bounded time, and then it says where to go on.

Invariant: a search looks at the clock after each page of bounded work, and at each line whose content it reads.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from hiringhall.storage.sqlite.pages import IDS_MAX, find_ids, find_page, read_lines

if TYPE_CHECKING:
    import sqlite3

    from hiringhall.core.changes import HistoryQuery
    from hiringhall.storage.rows import RawRow

_CONTENT: Final = """
SELECT id, key, worker, result, payload FROM history
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id DESC
"""
"""Read line by line: results may be long."""


def search(
    connection: sqlite3.Connection, query: HistoryQuery, text: bytes, limit_s: float
) -> tuple[list[RawRow], int]:
    """Lines that match, newest first, and the id below which to go on; 0: there are no more."""
    stop_s = time.monotonic() + limit_s
    if text:
        ids, before_id = _with_text(connection, query, text, query.limit, stop_s)
        return read_lines(connection, ids), before_id
    found: list[RawRow] = []
    while True:
        rows, before_id = find_page(connection, query._replace(limit=query.limit - len(found)))
        found += rows
        if not before_id or len(found) >= query.limit or time.monotonic() > stop_s:
            return found, before_id
        query = query._replace(before_id=before_id)


def count_slowly(
    connection: sqlite3.Connection, query: HistoryQuery, text: bytes, limit_s: float
) -> tuple[int, int]:
    """How many lines match, as far as they are found in time; and the id below which to go on, 0: nowhere."""
    stop_s = time.monotonic() + limit_s
    query = query._replace(limit=IDS_MAX)
    if text:
        ids, before_id = _with_text(connection, query, text, None, stop_s)
        return len(ids), before_id
    number = 0
    while True:
        ids, before_id = find_ids(connection, query)
        number += len(ids)
        if not before_id or time.monotonic() > stop_s:
            return number, before_id
        query = query._replace(before_id=before_id)


def _with_text(
    connection: sqlite3.Connection, query: HistoryQuery, text: bytes, most: int | None, stop_s: float
) -> tuple[list[int], int]:
    """The ids of lines that contain a text, and the id below which to go on."""
    sought = text.lower()
    found: list[int] = []
    query = query._replace(limit=IDS_MAX)
    while True:
        ids, before_id = find_ids(connection, query)
        for number, *parts in connection.execute(_CONTENT, (json.dumps(ids),)):
            if any(isinstance(part, bytes) and sought in part.lower() for part in parts):
                found.append(number)
                if len(found) == most:
                    return found, number
            if time.monotonic() > stop_s:
                return found, number
        if not before_id or time.monotonic() > stop_s:
            return found, before_id
        query = query._replace(before_id=before_id)
