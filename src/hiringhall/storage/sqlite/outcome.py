"""Whether a batch is in the data file, when its commit failed so late that it may be.

SQLite hides a commit whose sync failed, but leaves it in the log after the last valid one: a crash would bring
it back. The next commit writes over it. So after any commit has succeeded, what the connection sees is what is
on disk, for good, and one row of the batch tells about all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

    from hiringhall.core.changes import Batch


def is_kept(connection: sqlite3.Connection, batch: Batch) -> bool:
    """Look for a row that only this batch can have written. A batch without such a row only sets values: it
    counts as not kept, because setting them again changes nothing.
    """
    if batch.inserts:
        found = connection.execute("SELECT 1 FROM jobs WHERE id = ?", (batch.inserts[0].id,))
    elif batch.ends:
        end = batch.ends[0]
        found = connection.execute(
            "SELECT 1 FROM history WHERE id = ? AND ended_us = ? AND attempts = ?",
            (end.id, end.ended_us, end.attempts),
        )
    else:
        return False
    return found.fetchone() is not None
