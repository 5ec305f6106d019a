"""One connection to one server: packets out, packets in, and the news of its end, once."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

from hiringhall.dialects.gearman_draft import wire
from hiringhall.peers.gearman_draft.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Listener(Protocol):
        """Whoever talks over a connection."""

        def received(self, packet_type: int, body: bytes) -> None:
            """A packet came."""

        def lost(self, reason: ConnectionLost) -> None:
            """The connection is gone; nothing more comes. Called exactly once."""


DEFAULT_PORT: Final = 4730
_CLOSE_S: Final = 2.0
"""How long a server may take to read what was said last."""


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "host", "[::1]:port" or "::1".

    >>> parse_address("127.0.0.1:7003"), parse_address("[::1]:7003"), parse_address("::1")
    (('127.0.0.1', 7003), ('::1', 7003), ('::1', 4730))
    """
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        port = rest.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    else:
        host, port = address, ""
    if not host or (port and not port.isdecimal()):
        raise ValueError(f"not an address of the form host:port: {address!r}")
    return host, int(port) if port else DEFAULT_PORT


def parse_servers(servers: str | Sequence[str]) -> tuple[str, ...]:
    """One address or several, each once."""
    addresses = (servers,) if isinstance(servers, str) else tuple(dict.fromkeys(servers))
    if not addresses:
        raise ValueError("name at least one server")
    for address in addresses:
        parse_address(address)
    return addresses


class Connection(asyncio.Protocol):
    """Packets sent within one turn of the loop leave as one write."""

    def __init__(self, server: str, listener: Listener) -> None:
        self.server = server
        self._listener = listener
        self._reader = wire.Reader()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._room = asyncio.Event()
        self._room.set()
        self._gone = asyncio.Event()
        self._reason = ""
        """Why we gave the connection up, when it was us."""

    @classmethod
    async def open(cls, server: str, listener: Listener, timeout_s: float) -> Connection:
        """Connect, or raise ConnectionLost."""
        host, port = parse_address(server)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(lambda: cls(server, listener), host, port)
        except TimeoutError:
            raise ConnectionLost(f"{server}: no connection within {timeout_s} s") from None
        except OSError as error:
            raise ConnectionLost(f"{server}: {error}") from error
        return connection

    @property
    def live(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, packet: bytes) -> None:
        """Put a packet on its way; it is dropped in silence when the connection is gone, as `lost` tells."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(packet)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def close(self) -> None:
        """Send what was said, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._gone.wait()
        except TimeoutError:
            self.abort("it did not take the last words")
            await self._gone.wait()

    def abort(self, reason: str) -> None:
        """Give the connection up: nothing sensible can come of it."""
        if self._transport is not None and not self._reason:
            self._reason = reason
            self._transport.abort()

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
        self._out.clear()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        for packet_type, body in self._reader.feed(data):
            if self._reason:
                return
            self._listener.received(packet_type, body)
        if self._reader.error is not None:
            self.abort(self._reader.error.text)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone.set()
        self._room.set()
        reason = self._reason or (str(exc) if exc is not None else "the connection was closed")
        self._listener.lost(ConnectionLost(f"{self.server}: {reason}"))

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
