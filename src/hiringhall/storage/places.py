"""Where data is: a place is a data folder, or the URL of a database.

Invariant: a place is printed without its password.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_SCHEMES: Final = ("postgresql", "postgres")
_PREFIX: Final = "sqlite:"
_ADDRESS_END: Final = re.compile("[/?#]")
_PARAMETERS: Final = re.compile("[?#]")


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
    scheme, is_address, rest = str(place).partition("://")
    if folder is not None:
        return f"{scheme}://..." if is_address else str(folder)  # some other URL, which is refused
    address = _ADDRESS_END.split(rest, maxsplit=1)[0]
    if "@" in rest[len(address) :]:  # Perhaps a password with a character that should have been encoded.
        return f"{scheme}://{address.partition(':')[0]}@..."
    names, at, hosts = address.rpartition("@")
    path = _PARAMETERS.split(rest[len(address) :], maxsplit=1)[0]
    return f"{scheme}://{names.partition(':')[0]}{at}{hosts}{path}"
