"""What all doors on stream sockets share: listening on a TCP address, and the options of a connection."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


async def listen(
    make_protocol: Callable[[], asyncio.Protocol], host: str, port: int, backlog: int
) -> tuple[asyncio.Server, str, int]:
    """Listen; the server, and the address and port that were bound. Raises OSError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make_protocol, host, port, backlog=backlog, reuse_address=True)
    # A list with uvloop, a tuple with asyncio; compiled code must accept both.
    sockets: Sequence[socket.socket] = cast("Any", server).sockets
    bound = sockets[0].getsockname()
    return server, str(bound[0]), int(bound[1])


def peer_address(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """The address and port of the other end; "" and 0 if it has none."""
    peer = transport.get_extra_info("peername")
    return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and peer else ("", 0)


def send_at_once(sock: socket.socket) -> None:
    """Do not wait for more to send."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def keep_alive(sock: socket.socket, idle_s: int, interval_s: int, count: int) -> None:
    """Probe the other end when the connection is idle, and close it if it is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)
