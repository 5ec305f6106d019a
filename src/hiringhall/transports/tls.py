"""Accepts TLS connections, and hands them to the door when their handshake is done.

The event loop's own server does not report failed handshakes. So this listener accepts connections itself.

Invariant: a handshake succeeds or fails within its time. A failed one is reported with its peer. Handshakes
count against the limit of connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

ACCEPTS_MAX: Final = 100
"""Connections accepted in one pass of the event loop."""
EXHAUSTED_PAUSE_S: Final = 1.0
"""How long no connection is accepted after the system had no resources for one."""


class TlsListener:
    """A listening address, and the handshakes in progress."""

    def __init__(
        self,
        context: ssl.SSLContext,
        handshake_s: float,
        make_connection: Callable[[], asyncio.BaseProtocol],
        has_room: Callable[[int, str, int], bool],
        on_failure: Callable[[str, int, str], None],
    ) -> None:
        """`has_room` gets the number of handshakes in progress and decides whether a peer may start another.
        `on_failure` gets the reason of a failed one. Both get the address and port of the peer.
        """
        self._context = context
        self._handshake_s = handshake_s
        self._make_connection = make_connection
        self._has_room = has_room
        self._on_failure = on_failure
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[socket.socket] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}

    async def open(self, host: str, port: int, backlog: int) -> tuple[str, int]:
        """Listen on all addresses of a host. Return the first bound one. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, number, _, address in dict.fromkeys(found):
                listener = socket.socket(family, kind, number)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
                listener.listen(backlog)
        except OSError:
            self.close()
            raise
        for listener in self._listeners:
            self._accept_from(listener)
        bound = self._listeners[0].getsockname()
        return str(bound[0]), int(bound[1])

    def close(self) -> None:
        """Accept no more connections, and cancel the handshakes in progress."""
        for listener in self._listeners:
            if self._loop is not None:
                # uvloop returns None where asyncio returns bool; compiled code must accept both.
                cast("Any", self._loop).remove_reader(listener)
            listener.close()
        self._listeners = []
        for handshake in list(self._handshakes):
            handshake.cancel()

    def _accept_from(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            assert self._loop is not None
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = self._loop
        assert loop is not None
        for _ in range(ACCEPTS_MAX):
            try:
                connection, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                cast("Any", loop).remove_reader(listener)
                loop.call_later(EXHAUSTED_PAUSE_S, self._accept_from, listener)
                return
            connection.setblocking(False)
            if not self._has_room(len(self._handshakes), str(address[0]), int(address[1])):
                connection.close()
                continue
            handshake = loop.create_task(self._handshake(connection, str(address[0]), int(address[1])))
            self._handshakes[handshake] = None
            handshake.add_done_callback(self._forget)

    def _forget(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)

    async def _handshake(self, connection: socket.socket, address: str, port: int) -> None:
        assert self._loop is not None
        try:
            await self._loop.connect_accepted_socket(
                cast("Any", self._make_connection),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s,
            )
        except OSError as error:
            connection.close()
            self._on_failure(address, port, self._explain(error))
        except asyncio.CancelledError:
            connection.close()
            raise

    def _explain(self, error: OSError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate was rejected: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            return (error.reason or "the handshake failed").replace("_", " ").lower()
        if isinstance(error, ConnectionAbortedError):
            return f"its handshake did not finish within {self._handshake_s:g} s (handshake_s)"
        return "the connection was closed during the handshake"
