"""A house holds one store that can be closed and opened again on what it kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from store_rows import plain_end, plain_job

from hiringhall.storage.contract import HistoryQuery, Retention
from hiringhall.storage.memory import MemoryStore
from hiringhall.storage.postgres import Member, PostgresStore
from hiringhall.storage.sqlite import SqliteStore
from stage.databases import postgres_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from hiringhall.core.changes import EndRow, Loaded
    from hiringhall.storage.contract import Store

EVERYTHING = HistoryQuery(limit=1_000_000)


def ignore(_warning: str) -> None:
    """The server does not sync, which the store warns of."""


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
