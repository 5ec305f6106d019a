"""Where data is: a place is a data folder, or the URL of a database.

Invariant: a place is printed without its password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_SCHEMES: Final = ("postgresql", "postgres")
_PREFIX: Final = "sqlite:"


def is_url(place: str) -> bool:
    """Whether a place is a database of PostgreSQL, and not a folder."""
    scheme, separator, _ = place.partition("://")
    return bool(separator) and scheme in _SCHEMES


def find_folder(place: str | Path) -> Path | None:
    """The data folder, which may be written as `sqlite:FOLDER`; None: the place is a database."""
    text = str(place)
    return None if is_url(text) else Path(text.removeprefix(_PREFIX))


def shown(place: str | Path) -> str:
    """A place as it may be printed: a URL without its password and its parameters."""
    if not place:
        return ""
    folder = find_folder(place)
    if folder is not None:
        return str(folder)
    parts = urlsplit(str(place))
    names, at, hosts = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{names.partition(':')[0]}{at}{hosts}{parts.path}"
