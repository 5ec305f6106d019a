"""Where a hall is: hall://HOST:PORT, halls://HOST:PORT for TLS, or hall+unix:///PATH."""

from __future__ import annotations

import os
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

DEFAULT_URL: Final = "hall://127.0.0.1:4731"
DEFAULT_PORT: Final = 4731
VARIABLE: Final = "HALL_URL"
"""The environment variable that is read when a program names no URL."""
_FORMS: Final = "write hall://HOST:PORT, halls://HOST:PORT for TLS, or hall+unix:///PATH"


class Address(NamedTuple):
    """One place where a hall may answer."""

    url: str
    host: str = ""
    port: int = 0
    tls: bool = False
    path: str = ""
    """Of a Unix socket; empty: TCP."""

    def __str__(self) -> str:
        return self.url


def read_addresses(urls: str | None) -> list[Address]:
    """The addresses of URLs with commas between them; None: of HALL_URL, or of this machine's hall.

    Raises ValueError.
    """
    stated = urls if urls is not None else os.environ.get(VARIABLE) or DEFAULT_URL
    addresses = [_read(url.strip()) for url in stated.split(",") if url.strip()]
    if not addresses:
        raise ValueError(f"{stated!r} names no hall: {_FORMS}")
    return addresses


def _read(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ValueError(f"{url!r} is not the URL of a hall ({error}): {_FORMS}") from error
    if parts.scheme == "hall+unix" and parts.path and not parts.netloc:
        return Address(url, path=unquote(parts.path))
    if parts.scheme not in {"hall", "halls"} or not host or parts.path not in {"", "/"} or parts.query:
        raise ValueError(f"{url!r} is not the URL of a hall: {_FORMS}")
    return Address(url, host, port, tls=parts.scheme == "halls")
