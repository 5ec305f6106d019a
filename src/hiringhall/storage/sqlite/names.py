"""Names of files in a data folder."""

from typing import Final

DATABASE: Final = "hall.sqlite3"
"""The data file."""
