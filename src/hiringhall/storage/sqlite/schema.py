"""The file's tables and their versions.

The law: a file is brought to the newest version in one transaction a step, from the numbered SQL files of
`storage/sql`; a file that is not ours, is damaged, or is of a later version is left as it was.
"""

from __future__ import annotations

import sqlite3
from importlib import resources
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

APPLICATION_ID: Final = 0x48414C4C
"""Tells a hall's file from other SQLite files: the letters HALL."""
SQLITE_MIN: Final = (3, 35, 0)
"""The first version that has all the SQL used here."""
WHOLE_CHECK_BYTES_MAX: Final = 1 << 30
"""A larger file gets only its live jobs checked at the start, so that the start stays short."""

Migration = tuple[int, str]


def migrations() -> list[Migration]:
    """Version and SQL of every step, in order: `001_first_tables.sql` makes version 1."""
    folder = resources.files("hiringhall.storage") / "sql"
    steps = [(int(file.name[:3]), file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql")]
    return sorted(steps)


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration], path: Path) -> None:
    version = check_version(connection, steps, path)
    for number, sql in steps:
        if number > version:
            try:
                connection.executescript(
                    f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA application_id = {APPLICATION_ID};\n"
                    f"PRAGMA user_version = {number};\nCOMMIT;"
                )
            except sqlite3.Error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def check_version(connection: sqlite3.Connection, steps: Sequence[Migration], path: Path) -> int:
    """The version of a file that we may use."""
    version = pragma(connection, "user_version")
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if pragma(connection, "application_id") != APPLICATION_ID and (version or tables):
        raise StoreError(f"{path} belongs to another program: move it away, or name another data folder")
    newest = steps[-1][0]
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer hiringhall (its tables are version {version}, this one knows "
            f"up to {newest}): start that version, or put back the backup made before the upgrade"
        )
    return version


def check_soundness(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a damaged file while nothing was written to it yet."""
    file_bytes = pragma(connection, "page_count") * pragma(connection, "page_size")
    if file_bytes <= WHOLE_CHECK_BYTES_MAX:
        checks = ["PRAGMA quick_check(1)"]
    else:
        checks = [f"PRAGMA quick_check('{table}')" for table in ("meta", "terms", "jobs")]
    for check in checks:
        found = bytes(connection.execute(check).fetchone()[0]).decode(errors="replace")
        if found != "ok":
            raise StoreError(
                f"{path} is damaged ({found.splitlines()[-1]}): put a backup in its place, save what can be "
                f"read with `sqlite3 {path.name} .recover`, or move it away to start empty"
            )


def pragma(connection: sqlite3.Connection, name: str) -> int:
    value = connection.execute(f"PRAGMA {name}").fetchone()[0]
    assert isinstance(value, int)
    return value
