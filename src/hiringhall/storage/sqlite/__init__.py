"""The durable store: one SQLite file in the data folder, with one connection that writes it."""

from hiringhall.storage.sqlite.reader import SqliteHistoryReader, open_history
from hiringhall.storage.sqlite.store import SqliteStore

__all__ = ["SqliteHistoryReader", "SqliteStore", "open_history"]
