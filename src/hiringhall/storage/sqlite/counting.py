"""Counts lines of the history without reading them all: by indexes, or for a bounded time."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Final

from hiringhall.core.states import FAILED
from hiringhall.storage.history_contract import EndCount

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDS: Final = """
SELECT ended_us / :bucket_us, queue, state, COUNT(*), SUM(started_us > 0),
    SUM(CASE WHEN started_us > 0 THEN MAX(0, started_us - MAX(created_us, ready_us)) ELSE 0 END),
    SUM(CASE WHEN started_us > 0 THEN MAX(0, ended_us - started_us) ELSE 0 END)
FROM history INDEXED BY history_by_shelf
WHERE shelf IN (SELECT id FROM shelves) AND ended_us >= :from_us AND ended_us < :to_us
GROUP BY 1, 2, 3
"""
"""Counts of ends, with sums of the times that the jobs waited and ran."""
_COUNT: Final = "SELECT COUNT(*) FROM {source} WHERE {where}"
_STEPS: Final = 20_000
"""Steps of SQLite between two looks at the clock."""


def count_ends(connection: sqlite3.Connection, from_us: int, to_us: int, bucket_us: int) -> list[EndCount]:
    """What ended from one time until before another, counted by time, queue and state."""
    bounds = {"from_us": from_us, "to_us": to_us, "bucket_us": bucket_us}
    rows = connection.execute(_ENDS, bounds).fetchall()
    return [EndCount(bucket, bytes(queue), *counts) for bucket, queue, *counts in rows]


def count_matching(
    connection: sqlite3.Connection, where: list[str], values: Mapping[str, object], limit_s: float
) -> int | None:
    """How many lines match these conditions; None: that takes longer than `limit_s`."""
    source = "history"
    if "queue" in values:
        source = "history INDEXED BY history_by_key"  # it has the queue, so other lines are not read
    elif values.get("state") == FAILED or "ended_us" in " ".join(where):
        dead = " WHERE dead = 1" if values.get("state") == FAILED else ""
        source = "history INDEXED BY history_by_shelf"
        where = [*where, f"shelf IN (SELECT id FROM shelves{dead})"]  # noqa: S608 (our own words)
    if values.get("state") == FAILED and "queue" not in values:
        where = [condition for condition in where if condition != "state = :state"]  # its shelf tells it
    where = [condition for condition in where if condition != "id < :before_id"] or ["1"]
    stop_s = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: time.monotonic() > stop_s, _STEPS)
    try:
        sql = _COUNT.replace("{source}", source).replace("{where}", " AND ".join(where))
        (found,) = connection.execute(sql, dict(values)).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    else:
        return int(found)
    finally:
        connection.set_progress_handler(None, 0)
