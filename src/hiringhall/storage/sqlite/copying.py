"""Copies of a data file: made while a hall goes on writing, and checked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

from hiringhall.storage.contract import StoreError
from hiringhall.storage.sqlite.history_reader import SqliteHistoryReader
from hiringhall.storage.sqlite.names import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def copy_data(folder: Path, target: Path, copied: Callable[[int, int], None]) -> None:
    """Copy the data file of a folder as it is at this moment to a file that is empty. `copied` is called with
    how much is copied, and how much there is. Raises StoreError.
    """
    reader = SqliteHistoryReader(folder / DATABASE)
    try:
        reader.copy(target, copied)
    finally:
        reader.close()


def check_copy(path: Path) -> tuple[int, int]:
    """Unfinished and ended jobs of a data file that is sound and not in use. Raises StoreError."""
    # Immutable: the check leaves no log and no index beside the file.
    address = f"file:{quote(bytes(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()
            (jobs,) = connection.execute("SELECT COUNT(*) FROM jobs").fetchone()
            (history,) = connection.execute("SELECT COUNT(*) FROM history").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"the copy of {DATABASE} is damaged: {error}") from error
    if found != ("ok",):
        raise StoreError(f"the copy of {DATABASE} is damaged: {found[0]}")
    return jobs, history
