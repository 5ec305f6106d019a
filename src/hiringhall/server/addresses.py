"""Where other members of a database reach the doors of this hall."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from hiringhall.cluster.standby import write_addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiringhall.config.quantities import Address
    from hiringhall.config.schema import Config
    from hiringhall.server.opening import OpenDoor

PORT: Final = 5432
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 (only compared)


def published(config: Config, doors: Sequence[OpenDoor]) -> str:
    """Where other members reach the doors of this hall."""
    left = list(doors)
    listed: list[list[tuple[str, int]]] = []
    for settings in config.door:
        count = len(settings.addresses)
        opened, left = left[:count], left[count:]
        listed.append([_reachable(config.hall.data, door.address) for door in opened])
    return write_addresses(listed)


def _reachable(url: str, address: Address) -> tuple[str, int]:
    """A door on all addresses of this machine is reached by the one that leads to the database."""
    if address.path:
        return "", 0
    return (_own_host(url) if address.host in _ANY else address.host), address.port


def _own_host(url: str) -> str:
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname or "127.0.0.1", parts.port or PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[4])  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return socket.gethostname()
