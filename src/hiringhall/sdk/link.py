"""One stream to a hall: TCP, TLS or a Unix socket.

Invariant: what is sent within one pass of the event loop becomes one write. The end of the stream is reported
once, after everything that was received before.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from typing import TYPE_CHECKING, Final, Protocol, cast

from hiringhall.sdk.addresses import CA_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from hiringhall.sdk.addresses import Address

_NUMBERS: Final = re.compile(r"\[Errno (\d+)\]")
CONNECT_S: Final = 5.0
"""How long one address may take to answer."""
CLOSE_S: Final = 2.0
"""On close, how long the hall may take to read the last output."""


class Dial(Protocol):
    """Opens a stream to an address. Raises OSError."""

    async def __call__(self, address: Address, link: Link, /) -> None: ...


class Link(asyncio.Protocol):
    """The bytes of one connection. `received` gets each piece; `ended` is called with the reason, once."""

    def __init__(self, received: Callable[[bytes], None], ended: Callable[[Link, str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._received = received
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._room = asyncio.Event()
        self._room.set()
        self._gone = asyncio.Event()
        self._reason = ""

    def send(self, frame: bytes) -> None:
        """Send with whatever else is sent in this pass of the loop. Ignored when the stream has ended."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()

    async def drain(self) -> None:
        """Wait until the hall reads what was sent."""
        await self._room.wait()

    def abort(self, reason: str) -> None:
        """End the stream at once."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Send what is left, then close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._gone.wait()
            except TimeoutError:
                self.abort("it did not read the last frames")
                await self._gone.wait()

    def abandon(self) -> object:
        """In a forked child: close this process's copy of the socket, and only that. What is returned must be
        kept for ever: its finalizers would touch the parent's event loop, or a descriptor with that number.
        """
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                os.close(sock.fileno())
        return self, self._transport, self._loop

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if not self._reason:
            self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._gone.set()
        self._room.set()
        self._ended(self, self._reason or (str(exc) if exc is not None else "the connection was closed"))

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()


async def dial(address: Address, link: Link, /) -> None:
    """Connect the link to the address. Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            if address.path:
                await loop.create_unix_connection(lambda: link, address.path)
            else:
                tls = tls_of(address)
                await loop.create_connection(lambda: link, address.host, address.port, ssl=tls)
    except TimeoutError:
        raise TimeoutError(f"no answer within {CONNECT_S:g} s") from None
    except ssl.SSLError:
        raise  # a certificate that is not trusted is a ValueError too
    except ValueError as error:
        raise OSError(f"not a valid host name: {error}") from error


def tls_of(address: Address) -> ssl.SSLContext | None:
    """How to verify the hall at an address; None: without TLS. Raises OSError."""
    if not address.tls:
        return None
    try:
        return ssl.create_default_context(cafile=address.ca or None)
    except OSError as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise OSError(f"the authorities in {address.ca} ({CA_VARIABLE}) cannot be used: {reason}") from error


def describe(error: Exception) -> str:
    """Why there is no connection, without error numbers. With several addresses, each reason once."""
    if not isinstance(error, OSError):
        return str(error)
    reasons = dict.fromkeys(os.strerror(int(number)) for number in _NUMBERS.findall(str(error)))
    return ", ".join(reasons) or error.strerror or str(error)
