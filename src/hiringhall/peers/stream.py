"""A stream of packets to and from one server, for peers that use TCP.

Invariant: packets sent within one pass of the event loop become one write. The listener is told about the end
of the connection once, after everything that was received before.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ssl import SSLContext

CLOSE_S: Final = 2.0
"""On close, how long the server may read nothing of the last output."""
UNSENT_BYTES_MAX: Final = 65536
"""How much the system may hold unsent: we cannot see whether the server reads that part."""
PORT_MAX: Final = 65535
_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")

Loss = TypeVar("Loss", bound=Exception)
Loss_contra = TypeVar("Loss_contra", bound=Exception, contravariant=True)


class Listener(Protocol[Loss_contra]):
    """Receives what comes over a stream."""

    def received(self, packet_type: int, body: bytes) -> None:
        """A packet was received."""

    def lost(self, reason: Loss_contra) -> None:
        """The connection has ended. Called exactly once, as the last call."""


class Fault(Protocol):
    """Why the input cannot be parsed any further."""

    @property
    def text(self) -> str: ...


class Reader(Protocol):
    """Splits bytes into packets of a dialect."""

    @property
    def error(self) -> Fault | None: ...

    def feed(self, data: bytes, /) -> Iterable[tuple[int, bytes]]: ...


def split_address(address: str, default_port: int) -> tuple[str, int]:
    """Host and port of "host:port", "host", "[::1]:port" or "::1"."""
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        colon, port = rest[:1] if closed else "]", rest[1:]
    elif address.count(":") == 1:
        host, colon, port = address.partition(":")
    else:
        host, colon, port = address, "", ""
    port = port or str(default_port)
    formed = host and colon in ("", ":") and port.isascii() and port.isdecimal()
    if not formed or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"{address!r} is not an address: write host:port, with a port from 1 to {PORT_MAX}")
    return host, int(port)


def describe_os_error(error: OSError) -> str:
    """Why there is no connection, without error numbers. With several addresses, each reason once."""
    reasons = dict.fromkeys(os.strerror(int(number)) for number in _NUMBERS.findall(str(error)))
    return ", ".join(reasons) or error.strerror or str(error)


class Stream(asyncio.Protocol, Generic[Loss]):
    """`loss` is the exception for the end of the connection and for a failed attempt to connect."""

    def __init__(self, server: str, reader: Reader, listener: Listener[Loss], loss: type[Loss]) -> None:
        self.server = server
        self._reader = reader
        self._listener = listener
        self._loss = loss
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._room = asyncio.Event()
        self._room.set()
        self._gone = asyncio.Event()
        self._reason = ""
        """Why we closed the connection, if we did."""

    async def connect(self, host: str, port: int, timeout_s: float, tls: SSLContext | None = None) -> Self:
        """Connect, once, or raise `loss`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: self, host, port, ssl=tls)
        except TimeoutError:
            raise self._loss(f"{self.server}: no connection within {timeout_s} s") from None
        except OSError as error:
            raise self._loss(f"{self.server}: {describe_os_error(error)}") from error
        except ValueError as error:
            raise self._loss(f"{self.server}: not a valid host name: {error}") from error
        return self

    @property
    def live(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, packet: bytes) -> None:
        """Send a packet. It is silently dropped if the connection has ended: `lost` reports that."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(packet)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    async def wait_sent(self, stall_s: float) -> None:
        """Wait until the server has read nearly all output; close if it reads nothing for `stall_s`.

        A small rest is not waited for; it is sent with the next packet.
        """
        if sum(map(len, self._out)) > UNSENT_BYTES_MAX:
            self._flush()
        if self._transport is not None:
            await self._wait(self._transport, self._room, stall_s, f"it read nothing for {stall_s} s")

    async def close(self) -> None:
        """Send all output, then close. Gives up if the server reads nothing for `CLOSE_S`."""
        self._flush()
        transport = self._transport
        if transport is None:
            return
        transport.close()
        await self._wait(transport, self._gone, CLOSE_S, "it did not read the last packets")

    async def _wait(
        self, transport: asyncio.Transport, event: asyncio.Event, stall_s: float, reason: str
    ) -> None:
        """Wait for the event as long as the server reads anything."""
        while not event.is_set():
            left = transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(stall_s):
                    await event.wait()
            except TimeoutError:
                if transport.get_write_buffer_size() >= left:
                    self.abort(reason)

    def abort(self, reason: str) -> None:
        """Close the connection at once, with this reason."""
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
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)

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
        self._listener.lost(self._loss(f"{self.server}: {reason}"))

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
