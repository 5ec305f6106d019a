"""SQLite's errors in words that the person who runs the hall can act on."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIMARY_CODE: Final = 0xFF
"""An extended code says more in its higher bits; the lowest eight are the kind of fault."""

_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk that holds {path} is full: free some space, the hall goes on by itself",
    sqlite3.SQLITE_IOERR: "the disk that holds {path} fails to read or write: look into the system's log",
    sqlite3.SQLITE_READONLY: "{path} cannot be written: make the file and its folder writable for this user",
    sqlite3.SQLITE_PERM: "{path} may not be used: give this user the right to read and write it",
    sqlite3.SQLITE_AUTH: "{path} may not be used: give this user the right to read and write it",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened: make its folder writable for this user",
    sqlite3.SQLITE_BUSY: "another program holds a lock on {path}: end it, the hall goes on by itself",
    sqlite3.SQLITE_LOCKED: "another program holds a lock on {path}: end it, the hall goes on by itself",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged: put a backup in its place, or move it away to start empty",
    sqlite3.SQLITE_NOTADB: "{path} is not a hall's data file: move it away, or name another data folder",
    sqlite3.SQLITE_NOMEM: "there was not enough memory for {path}: give the hall more",
    sqlite3.SQLITE_TOOBIG: "a value is too large for {path}: lower the limit for payloads and results",
    sqlite3.SQLITE_CONSTRAINT: "{path} has such a row already: this is a fault of the hall, please report it",
}


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """What went wrong, where, what to do, and SQLite's own words for those who know them."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    advice = _ADVICE.get(code, "using {path} failed")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StoreError(f"{advice.format(path=path)} ({name}: {error})")


def failed_late(error: BaseException) -> bool:
    """The commit may have failed when all of it had been written, as it does when the disk cannot be synced."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_IOERR


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Let nothing of SQLite's own errors out."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error
