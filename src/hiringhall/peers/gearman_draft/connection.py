"""One connection to one server: sends and receives packets, and reports its end once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.errors import ConnectionLost
from hiringhall.peers.stream import Stream, split_address

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ssl import SSLContext

    from hiringhall.peers.stream import Listener

DEFAULT_PORT: Final = 4730
_MORE_BYTES: Final = 4
"""A job_complete_res is this much longer than the job_complete_announce with the same result."""


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "host", "[::1]:port" or "::1".

    >>> parse_address("127.0.0.1:7003"), parse_address("[::1]:7003"), parse_address("::1")
    (('127.0.0.1', 7003), ('::1', 7003), ('::1', 4730))
    """
    return split_address(address, DEFAULT_PORT)


def parse_servers(servers: str | Sequence[str]) -> tuple[str, ...]:
    """One address or several, each once."""
    addresses = (servers,) if isinstance(servers, str) else tuple(dict.fromkeys(servers))
    if not addresses:
        raise ValueError("give at least one server")
    for address in addresses:
        parse_address(address)
    return addresses


class Connection(Stream[ConnectionLost]):
    """A stream of packets from a server."""

    @classmethod
    async def open(
        cls,
        server: str,
        listener: Listener[ConnectionLost],
        timeout_s: float,
        packet_bytes_max: int = wire.PACKET_BYTES_MAX,
        tls: SSLContext | None = None,
    ) -> Connection:
        """Connect, or raise ConnectionLost."""
        connection = cls(server, wire.Reader(packet_bytes_max + _MORE_BYTES), listener, ConnectionLost)
        return await connection.connect(*parse_address(server), timeout_s, tls)
