"""The durable store: one SQLite file in the data folder, with one connection that writes it."""

from typing import Final

from hiringhall.storage.sqlite.reader import SqliteHistoryReader, open_history
from hiringhall.storage.sqlite.store import SqliteStore

DATABASE: Final = "hall.sqlite3"
"""What the file is called in a data folder."""

__all__ = ["DATABASE", "SqliteHistoryReader", "SqliteStore", "open_history"]
