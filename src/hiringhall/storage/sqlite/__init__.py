"""The durable store: one SQLite file in the data folder, with one connection that writes it."""

from typing import Final

from hiringhall.storage.sqlite.lock import FileTaken, Holder, find_holder
from hiringhall.storage.sqlite.reader import SqliteHistoryReader, open_history
from hiringhall.storage.sqlite.store import SqliteStore

DATABASE: Final = "hall.sqlite3"
"""What the file is called in a data folder."""

__all__ = [
    "DATABASE",
    "FileTaken",
    "Holder",
    "SqliteHistoryReader",
    "SqliteStore",
    "find_holder",
    "open_history",
]
