"""A stream of packets to one server and back, for the peers that speak over TCP.

The law: what is sent within one turn of the loop leaves as one write, and the listener hears of the end once,
after everything that came before it.
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
"""How long a server may take nothing of what was said last."""
UNSENT_BYTES_MAX: Final = 65536
"""What the system may hold without sending it: what lies there nobody can see being taken."""
PORT_MAX: Final = 65535
_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")

Loss = TypeVar("Loss", bound=Exception)
Loss_contra = TypeVar("Loss_contra", bound=Exception, contravariant=True)


class Listener(Protocol[Loss_contra]):
    """Whoever talks over a stream."""

    def received(self, packet_type: int, body: bytes) -> None:
        """A packet came."""

    def lost(self, reason: Loss_contra) -> None:
        """The connection is gone; nothing more comes. Called exactly once."""


class Fault(Protocol):
    """Why the bytes cannot be read any further."""

    @property
    def text(self) -> str: ...


class Reader(Protocol):
    """Cuts bytes into packets, as the dialect has them."""

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
        raise ValueError(f"not an address of the form host:port, with a port of 1 to {PORT_MAX}: {address!r}")
    return host, int(port)


def plain_words(error: OSError) -> str:
    """Why there is no connection, without the numbers; of several addresses each reason once."""
    reasons = dict.fromkeys(os.strerror(int(number)) for number in _NUMBERS.findall(str(error)))
    return ", ".join(reasons) or error.strerror or str(error)


class Stream(asyncio.Protocol, Generic[Loss]):
    """`loss` is the exception that tells of its end, and of an opening that failed."""

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
        """Why we gave the connection up, when it was us."""

    async def connect(self, host: str, port: int, timeout_s: float, tls: SSLContext | None = None) -> Self:
        """Connect, once, or raise the loss."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: self, host, port, ssl=tls)
        except TimeoutError:
            raise self._loss(f"{self.server}: no connection within {timeout_s} s") from None
        except OSError as error:
            raise self._loss(f"{self.server}: {plain_words(error)}") from error
        except ValueError as error:
            raise self._loss(f"{self.server}: not the name of a host: {error}") from error
        return self

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

    async def taken(self, patience_s: float) -> None:
        """Wait until nearly all that was said has been taken; leave a server that takes nothing for so long.

        A little is not waited for, and leaves with what is said next.
        """
        if sum(map(len, self._out)) > UNSENT_BYTES_MAX:
            self._flush()
        if self._transport is not None:
            await self._wait(self._transport, self._room, patience_s, f"it took nothing for {patience_s} s")

    async def close(self) -> None:
        """Send what was said, then close; a server that takes nothing more of it is not waited for."""
        self._flush()
        transport = self._transport
        if transport is None:
            return
        transport.close()
        await self._wait(transport, self._gone, CLOSE_S, "it did not take the last words")

    async def _wait(
        self, transport: asyncio.Transport, event: asyncio.Event, patience_s: float, complaint: str
    ) -> None:
        """Wait for what comes when the server has taken enough, as long as it takes anything at all."""
        while not event.is_set():
            left = transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(patience_s):
                    await event.wait()
            except TimeoutError:
                if transport.get_write_buffer_size() >= left:
                    self.abort(complaint)

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
