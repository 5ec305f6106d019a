"""The durable store: one SQLite file in the data folder, written through one connection."""

from hiringhall.storage.sqlite.history_reader import SqliteHistoryReader, open_history
from hiringhall.storage.sqlite.lock import FileInUse, Holder, find_holder
from hiringhall.storage.sqlite.names import DATABASE
from hiringhall.storage.sqlite.store import SqliteStore

__all__ = [
    "DATABASE",
    "FileInUse",
    "Holder",
    "SqliteHistoryReader",
    "SqliteStore",
    "find_holder",
    "open_history",
]
