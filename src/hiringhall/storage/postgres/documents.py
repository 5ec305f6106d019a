"""The documents of a database, which all its members share.

Invariant: a document is written by one statement, and only if nobody has written it since it was read. A hall
that was replaced writes none. No transaction is open between two statements.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from hiringhall.storage.contract import StoreError
from hiringhall.storage.documents import DocumentError
from hiringhall.storage.postgres.connecting import Database
from hiringhall.storage.postgres.faults import explain
from hiringhall.storage.postgres.membership import ACTIVE_BACKEND
from hiringhall.storage.postgres.schema import make_or_check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hiringhall.storage.documents import Stamp
    from hiringhall.storage.postgres.connecting import Record

LOG_LINES_MAX: Final = 200_000
"""Lines of a log that are kept."""
TRIES_MAX: Final = 100
"""How often a change is tried while others are faster."""

_STAMP: Final = "SELECT version FROM documents WHERE name = $1"
_READ: Final = """
SELECT version, octet_length(content), CASE WHEN octet_length(content) <= $2 THEN content END
FROM documents WHERE name = $1
"""
_WRITE: Final = "SELECT hall_write_document($1, $2, $3, $4)"
_APPEND: Final = "SELECT hall_append($1, $2, $3)"
_TAIL: Final = "SELECT line FROM log_lines WHERE log = $1 ORDER BY number DESC LIMIT $2"


class PostgresDocuments:
    """The documents of a database. A command has no incarnation, and may always change them."""

    shared: Final = True

    def __init__(self, url: str, incarnation: int | None = None) -> None:
        self._database = Database(url, "hiringhall documents")
        self._incarnation = incarnation
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        return self._database.place

    def exists(self) -> bool:
        return True

    def where(self, name: str) -> str:
        return f"{name} of {self.place}"

    def stamp(self, name: str) -> Stamp | None:
        rows = self._fetch(_STAMP, name)
        return (rows[0][0],) if rows else None

    def read(self, name: str, bytes_max: int) -> bytes | None:
        return self._read(name, bytes_max)[1]

    def change(self, name: str, bytes_max: int, edit: Callable[[bytes | None], bytes | None]) -> None:
        for _ in range(TRIES_MAX):
            version, before = self._read(name, bytes_max)
            content = edit(before)
            if content is None:
                return
            if self._fetch(_WRITE, self._incarnation, name, version, content)[0][0]:
                return
        raise DocumentError(f"{self.where(name)} is changed by others all the time: try again later")

    def append(self, name: str, lines: Sequence[bytes]) -> None:
        self._fetch(_APPEND, name, lines, LOG_LINES_MAX)

    def tail(self, name: str, lines_max: int) -> list[bytes]:
        return [row[0] for row in reversed(self._fetch(_TAIL, name, lines_max))]

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _read(self, name: str, bytes_max: int) -> tuple[int, bytes | None]:
        """The version of a document, which is 0 if there is none, and its content."""
        rows = self._fetch(_READ, name, bytes_max)
        if not rows:
            return 0, None
        version, size, content = rows[0]
        if size > bytes_max:
            raise DocumentError(f"{self.where(name)} is longer than {bytes_max} bytes")
        return version, content

    def _fetch(self, sql: str, *values: object) -> Sequence[Record]:
        with self._lock:
            self._database = self._database.reopened()
            try:
                return self._database.run(_fetched(self._database, sql, values))
            except StoreError as error:
                raise DocumentError(str(error)) from error


def find_active_member(url: str) -> str:
    """The name of the member whose backend is connected as the active one; empty: there is none."""
    with closing(Database(url, "hiringhall")) as database:
        rows = database.run(_fetched(database, ACTIVE_BACKEND, ()))
    return str(rows[0][0]) if rows else ""


async def _fetched(database: Database, sql: str, values: Sequence[Any]) -> Sequence[Record]:
    """The rows of a statement, on a new connection if the last one is gone. Raises StoreError."""
    if await database.current() is None:
        await _connect(database)
    return await database.fetch(sql, *values)


async def _connect(database: Database) -> None:
    """Connect, and check the tables. If that fails, the next try begins with a new connection."""
    connection = await database.connect()
    try:
        await make_or_check(connection, database.place)
    except Exception as error:
        await database.disconnect()
        if isinstance(error, StoreError):
            raise
        raise explain(error, database.place) from error
