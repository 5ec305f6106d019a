"""The names by which the web process may be addressed.

A page of another site can have its own name resolved to this machine (DNS rebinding): then the browser takes
that page and ours for one site. Its requests still have the foreign name in `Host`.

Invariant: a request whose `Host` is not one of ours is answered with an error and nothing else.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"(?=.{1,253}\.?$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_][a-z0-9_-]{0,62})*\.?")
_ADDRESS_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]@/\s]*)(?::([0-9]{1,5}))?")


class Host(NamedTuple):
    """A host and perhaps a port, in one spelling: lower case, without a final dot, addresses shortest."""

    name: str
    port: int = 0
    """0: not stated."""


def read_host(text: str) -> Host | None:
    """The value of a `Host` field, or an entry of the settings; None: it is neither a name nor an address."""
    found = _ADDRESS_AND_PORT.fullmatch(text)
    if found is None:
        return None
    name = _read_name(found[1])
    port = int(found[2] or 0)
    if not name or port > 65_535:
        return None
    return Host(name, port)


def _read_name(text: str) -> str:
    """A name or an address in its one spelling; empty: it is neither."""
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        name = text.lower()
        return name.removesuffix(".") if _NAME.fullmatch(name) else ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    name = _read_name(host)
    return name == "localhost" or (_is_address(name) and ip_address(name).is_loopback)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Hosts:
    """The names of one web process. `listen` is the host that it listens on, `others` are from its settings:
    a name, or a name with the only port that is allowed with it. Raises ValueError.
    """

    def __init__(self, listen: str, others: Iterable[str] = ()) -> None:
        self._any_address = listen.strip("[]") in _WILDCARDS
        """It listens on every address of the machine. An address in `Host` cannot be a foreign name."""
        self._known: set[Host] = set()
        if is_loopback(listen):
            self._known.update(Host(name) for name in LOOPBACK)
        for text in (listen if ":" not in listen or listen.startswith("[") else f"[{listen}]", *others):
            host = read_host(text)
            if host is None:
                raise ValueError(f'"{text}" is neither a host name nor an address')
            self._known.add(host)

    def knows(self, field: str) -> bool:
        """Whether a `Host` field names this web process."""
        host = read_host(field)
        if host is None:
            return False
        if Host(host.name) in self._known or host in self._known:
            return True
        return self._any_address and _is_address(host.name)


def same_origin(origin: str, host: str, *, tls: bool) -> bool:
    """Whether an `Origin` is that of the page which `Host` names. With TLS its scheme must be https."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in ({"https"} if tls else {"http", "https"}) or parts.path or parts.query:
        return False
    stated, wanted = read_host(parts.netloc), read_host(host)
    if stated is None or wanted is None:
        return False
    port = _PORTS[parts.scheme]
    return (stated.name, stated.port or port) == (wanted.name, wanted.port or port)
