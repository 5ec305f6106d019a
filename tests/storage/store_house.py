"""A house holds one store that can be closed and opened again on what it kept."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from store_rows import plain_end, plain_job

from hiringhall.storage.contract import HistoryQuery, Retention
from hiringhall.storage.memory import MemoryStore
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.postgres.connecting import Database
from hiringhall.storage.postgres.schema import migrate
from hiringhall.storage.sqlite import SqliteStore
from stage.postgres_server import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from hiringhall.core.changes import EndRow, Loaded
    from hiringhall.storage.contract import Store

EVERYTHING = HistoryQuery(limit=1_000_000)


_STARTED: list[PostgresServer] = []


def stop_postgres() -> None:
    """End the server of this run, if there is one."""
    while _STARTED:
        server = _STARTED.pop()
        server.remove()
        shutil.rmtree(server.folder.parent, ignore_errors=True)


@cache
def postgres_server() -> PostgresServer:
    """One server for all tests of a run. It loses everything if it crashes, which no test here lets it do."""
    folder = Path(tempfile.mkdtemp(prefix="hall-postgres-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    _STARTED.append(server)
    server.sql("CREATE DATABASE empty_hall")
    database = Database(server.url("empty_hall"), "test")
    database.run(_make_tables(database))
    database.close()
    return server


async def _make_tables(database: Database) -> None:
    await migrate(await database.connect(), database.place)


def ignore(_warning: str) -> None:
    """The server does not sync, which the store warns of."""


@cache
def postgres_url(folder: Path) -> str:
    """The database of a folder: made at its first use, from one that has the tables."""
    name = "hall_" + hashlib.sha256(str(folder).encode()).hexdigest()[:24]
    server = postgres_server()
    server.sql(f"CREATE DATABASE {name} TEMPLATE empty_hall")
    return server.url(name)


def _postgres(folder: Path, retention: Retention) -> PostgresStore:
    return PostgresStore(postgres_url(folder), retention, ignore, Member("test"))


STORES: dict[str, Callable[[Path, Retention], Store]] = {
    "memory": lambda _folder, retention: MemoryStore(retention, epoch=1),
    "postgres": _postgres,
    "sqlite": lambda folder, retention: SqliteStore(folder / "hall.db", retention, pytest.fail),
}
"""Every store that there is: the conformance suite runs against each."""


class House:
    """One store, loaded. `reopen` closes it and loads it again."""

    def __init__(self, kind: str, folder: Path, retention: Retention) -> None:
        self.kind = kind
        self.folder = folder
        self.store = STORES[kind](folder, retention)
        self.loaded = self.store.load(100)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def reopen(self, ended_max: int = 100) -> Loaded:
        self.store.close()
        self.loaded = self.store.load(ended_max)
        return self.loaded

    def jobs(self) -> list[tuple[Any, ...]]:
        return [plain_job(row) for row in self.store.live()]

    def lines(self, query: HistoryQuery = EVERYTHING) -> list[tuple[Any, ...]]:
        return [plain_end(row) for row in self.store.history(query)]

    def ids(self, query: HistoryQuery = EVERYTHING) -> list[int]:
        return [row.id for row in self.store.history(query)]

    def ended(self) -> list[EndRow]:
        return list(self.loaded.ended)
