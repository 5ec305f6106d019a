"""The tables of the data file and their versions.

Invariant: a file is migrated to the newest version with the numbered SQL files of `storage/sql`, all steps in
one transaction: a crash leaves it as it was. A file of another program, a damaged one or one of a later version
is left unchanged.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hiringhall.storage.contract import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

APPLICATION_ID: Final = 0x48414C4C
"""Distinguishes a hall's file from other SQLite files: the letters HALL."""
SQLITE_MIN: Final = (3, 35, 0)
"""The first version that has all the SQL used here."""
WHOLE_CHECK_BYTES_MAX: Final = 1 << 30
"""In a larger file only the live jobs are checked, to keep the start short."""
FOLDER: Final = Path(__file__).parents[1] / "sql"
VIEWS: Final = FOLDER / "views.sql"
"""Not a step: the views as the newest version has them, made anew with the last step."""

Migration = tuple[int, str]


def migrations() -> list[Migration]:
    """Version and SQL of every step, in order: `001_first_tables.sql` creates version 1."""
    return sorted((int(file.name[:3]), file.read_text()) for file in FOLDER.glob("[0-9]*.sql"))


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration], path: Path) -> None:
    version = check_version(connection, steps, path)
    missing = [sql for number, sql in steps if number > version]
    if not missing:
        return
    script = "\n".join([*missing, VIEWS.read_text()])
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\nPRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {steps[-1][0]};\nCOMMIT;"
        )
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, steps: Sequence[Migration], path: Path) -> int:
    """The version of the file. Raises StoreError if it is not a hall's, or too new."""
    version = pragma(connection, "user_version")
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if pragma(connection, "application_id") != APPLICATION_ID and (version or tables):
        raise StoreError(f"{path} belongs to another program: move it away, or choose another data folder")
    newest = steps[-1][0]
    if version > newest:
        raise StoreError(
            f"{path} was written by a newer hiringhall (its tables have version {version}, this one supports "
            f"up to {newest}): start that version, or restore the backup made before the upgrade"
        )
    return version


def check_soundness(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a damaged file before anything is written to it."""
    file_bytes = pragma(connection, "page_count") * pragma(connection, "page_size")
    if file_bytes <= WHOLE_CHECK_BYTES_MAX:
        checks = ["PRAGMA quick_check(1)"]
    else:
        checks = [f"PRAGMA quick_check('{table}')" for table in ("meta", "terms", "jobs")]
    for check in checks:
        found = bytes(connection.execute(check).fetchone()[0]).decode(errors="replace")
        if found != "ok":
            raise StoreError(
                f"{path} is damaged ({found.splitlines()[-1]}): restore a backup, save what can be read "
                f"with `sqlite3 {path.name} .recover`, or move it away to start empty"
            )


def pragma(connection: sqlite3.Connection, name: str) -> int:
    value = connection.execute(f"PRAGMA {name}").fetchone()[0]
    assert isinstance(value, int)
    return value
