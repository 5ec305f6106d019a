"""One connection to one server: sends and receives packets, and reports its end once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hiringhall.dialects.gearman import wire
from hiringhall.peers.gearman.errors import ConnectionLost
from hiringhall.peers.stream import Stream, split_address

if TYPE_CHECKING:
    from ssl import SSLContext

    from hiringhall.peers.stream import Listener

DEFAULT_PORT: Final = 4730
DEFAULT_SERVER: Final = f"127.0.0.1:{DEFAULT_PORT}"


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "host", "[::1]:port" or "::1".

    >>> parse_address("127.0.0.1:7003"), parse_address("[::1]:7003"), parse_address("::1")
    (('127.0.0.1', 7003), ('::1', 7003), ('::1', 4730))
    """
    return split_address(address, DEFAULT_PORT)


def as_bytes(name: str | bytes) -> bytes:
    """A function name, a unique or similar, as sent over the wire."""
    return name.encode(errors="surrogateescape") if isinstance(name, str) else name


class Connection(Stream[ConnectionLost]):
    """A stream of packets from a server."""

    @classmethod
    async def open(
        cls,
        server: str,
        listener: Listener[ConnectionLost],
        timeout_s: float,
        tls: SSLContext | None = None,
    ) -> Connection:
        """Connect, or raise ConnectionLost."""
        connection = cls(server, wire.Reader(wire.RESPONSE), listener, ConnectionLost)
        return await connection.connect(*parse_address(server), timeout_s, tls)
