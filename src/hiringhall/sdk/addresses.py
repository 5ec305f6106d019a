"""Where a hall is: hall://HOST:PORT, halls://HOST:PORT for TLS, or hall+unix:///PATH.

Invariant: a URL holds no token, since URLs are logged.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

DEFAULT_URL: Final = "hall://127.0.0.1:4731"
DEFAULT_PORT: Final = 4731
VARIABLE: Final = "HALL_URL"
"""The environment variable that is read when a program names no URL."""
TOKEN_VARIABLE: Final = "HALL_TOKEN"  # noqa: S105 (its name)
"""The environment variable that is read when a program names no token."""
CA_VARIABLE: Final = "HALL_CA"
"""The environment variable that names the authorities of the hall's certificate, a PEM file."""
_FORMS: Final = "write hall://HOST:PORT, halls://HOST:PORT for TLS, or hall+unix:///PATH"


class Address(NamedTuple):
    """One place where a hall may answer."""

    url: str
    host: str = ""
    port: int = 0
    tls: bool = False
    path: str = ""
    """Of a Unix socket; empty: TCP."""
    ca: str = ""
    """The authorities that may have signed the hall's certificate, a PEM file; empty: those of the system."""

    def __str__(self) -> str:
        return self.url


def read_token(token: str | None) -> str:
    """The token to show; None: that of HALL_TOKEN. Empty: none. Raises ValueError."""
    stated = (token if token is not None else os.environ.get(TOKEN_VARIABLE, "")).strip()
    if not stated.isascii() or not stated.isprintable():
        raise ValueError("a token has letters, digits, - and _ only; make one with `hall token add`")
    return stated


def read_addresses(urls: str | None, ca: str | None = None) -> list[Address]:
    """The addresses of URLs with commas between them; None: of HALL_URL, or of this machine's hall. `ca` is for
    TLS; None: HALL_CA.

    Raises ValueError.
    """
    stated = urls if urls is not None else os.environ.get(VARIABLE) or DEFAULT_URL
    authorities = ca if ca is not None else os.environ.get(CA_VARIABLE, "")
    addresses = [_read(url.strip(), authorities) for url in stated.split(",") if url.strip()]
    if not addresses:
        raise ValueError(f"{stated!r} names no hall: {_FORMS}")
    return addresses


def _read(url: str, ca: str) -> Address:
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ValueError(
            f"a token does not belong in a URL, which is logged: set {TOKEN_VARIABLE}, or use token="
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ValueError(f"{url!r} is not the URL of a hall ({error}): {_FORMS}") from error
    if parts.scheme == "hall+unix" and parts.path and not parts.netloc:
        return Address(url, path=os.fsdecode(unquote_to_bytes(parts.path)))
    if parts.scheme not in {"hall", "halls"} or not host or parts.path not in {"", "/"} or parts.query:
        raise ValueError(f"{url!r} is not the URL of a hall: {_FORMS}")
    return Address(url, host, port, tls=parts.scheme == "halls", ca=ca)
