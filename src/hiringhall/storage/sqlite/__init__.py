"""The durable store: one SQLite file in the data folder, written through one connection."""

from typing import Final

from hiringhall.storage.sqlite.history_reader import SqliteHistoryReader, open_history
from hiringhall.storage.sqlite.lock import FileInUse, Holder, find_holder
from hiringhall.storage.sqlite.store import SqliteStore

DATABASE: Final = "hall.sqlite3"
"""The name of the file in a data folder."""

__all__ = [
    "DATABASE",
    "FileInUse",
    "Holder",
    "SqliteHistoryReader",
    "SqliteStore",
    "find_holder",
    "open_history",
]
