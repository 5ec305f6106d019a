"""Turns SQLite errors into messages that tell the operator what to do."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIMARY_CODE: Final = 0xFF
"""The lowest eight bits of an extended error code are the kind of error."""

_BEFORE_THE_END: Final = (
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_WRITE,
)
"""Errors that a commit meets before all of it is written."""

_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk of {path} is full: free some space, then the hall continues by itself",
    sqlite3.SQLITE_IOERR: "the disk of {path} failed to read or write: check the system log",
    sqlite3.SQLITE_READONLY: "{path} cannot be written: make the file and its folder writable for this user",
    sqlite3.SQLITE_PERM: "access to {path} is denied: give this user permission to read and write it",
    sqlite3.SQLITE_AUTH: "access to {path} is denied: give this user permission to read and write it",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened: make its folder writable for this user",
    sqlite3.SQLITE_BUSY: "another program has locked {path}: stop it, then the hall continues by itself",
    sqlite3.SQLITE_LOCKED: "another program has locked {path}: stop it, then the hall continues by itself",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged: restore a backup, or move it away to start empty",
    sqlite3.SQLITE_NOTADB: "{path} is not a hall's data file: move it away, or choose another data folder",
    sqlite3.SQLITE_NOMEM: "there was not enough memory to use {path}: give the hall more memory",
    sqlite3.SQLITE_TOOBIG: "a value is too large for {path}: lower the limit for payloads and results",
    sqlite3.SQLITE_CONSTRAINT: "{path} already has such a row: this is a bug in the hall, please report it",
}


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """What failed, where, what to do, and SQLite's own message."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    advice = _ADVICE.get(code, "using {path} failed")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StoreError(f"{advice.format(path=path)} ({name}: {error})")


def failed_late(error: BaseException) -> bool:
    """Whether the commit may have failed after all of it was written, as when the disk cannot be synced."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_IOERR


def is_in_doubt(error: BaseException) -> bool:
    """Whether a failed commit may be on disk. A write that failed has left an incomplete frame, which does not
    count; a sync that failed comes after a complete one.
    """
    return failed_late(error) and getattr(error, "sqlite_errorcode", 0) not in _BEFORE_THE_END


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise StoreError in place of SQLite's errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(error, path) from error
