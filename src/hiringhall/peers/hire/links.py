"""Sends and receives lines over a TCP connection or a ZeroMQ bus.

Invariant: lines are sent in order or not at all, and sending never waits for a receiver.

    tcp://127.0.0.1:7430                      lines to and from a hall
    bus://127.0.0.1:7431,127.0.0.1:7432       publish to the first, subscribe to the second
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final, NamedTuple, Protocol

import zmq
import zmq.asyncio

from hiringhall.dialects.hire.wire import LINE_BYTES_MAX
from hiringhall.peers.hire.errors import AddressError, ConnectionLost

_TCP: Final = re.compile(r"tcp://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})")
_BUS: Final = re.compile(
    r"bus://((?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}),((?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5})"
)
_CONNECT_S: Final = 5.0
_QUEUE_MAX: Final = 10_000
"""Queued lines in one direction of the bus; more are dropped."""
_BUFFER_BYTES_MAX: Final = 4 << 20
"""With more unsent output, the TCP connection counts as lost."""


class Curve(NamedTuple):
    """The keys for a bus with CURVE, each as 40 characters of Z85."""

    hall: bytes
    """The hall's public key."""
    public: bytes
    secret: bytes


Security = Curve | ssl.SSLContext
"""A Curve for a bus, an SSLContext for TCP."""


class Link(Protocol):
    """Sends and receives lines."""

    async def receive(self) -> bytes:
        """The next line. Raises ConnectionLost."""

    def send(self, text: bytes) -> None:
        """Send a line."""

    async def close(self) -> None:
        """Send what is unsent, then close."""


def check_address(address: str, security: Security | None) -> None:
    """Raise AddressError if the address is not valid or does not fit the security."""
    match = _TCP.fullmatch(address)
    ports = [match[2]] if match else [part.rpartition(":")[2] for part in _bus_ends(address)]
    if any(int(port) > 65535 for port in ports):
        raise AddressError(f"{address!r}: a port must be at most 65535")
    if isinstance(security, Curve if match else ssl.SSLContext):
        raise AddressError(f"{address!r}: use a Curve for a bus, and an SSLContext for a TCP connection")


async def open_link(address: str, security: Security | None) -> Link:
    """Connect. Raises ConnectionLost if nothing answers; a bus may come up later."""
    match = _TCP.fullmatch(address)
    if match:
        context = security if isinstance(security, ssl.SSLContext) else None
        return await TcpLink.open(match[1].strip("[]"), int(match[2]), context)
    return BusLink(*_bus_ends(address), security if isinstance(security, Curve) else None)


def _bus_ends(address: str) -> tuple[str, str]:
    match = _BUS.fullmatch(address)
    if match is None:
        raise AddressError(f"{address!r} is not an address: write tcp://HOST:PORT or bus://HOST:IN,HOST:OUT")
    return match[1], match[2]


class TcpLink:
    """Lines over a TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, host: str, port: int, context: ssl.SSLContext | None) -> TcpLink:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return cls(*await asyncio.open_connection(host, port, limit=2 * LINE_BYTES_MAX, ssl=context))
        except (OSError, TimeoutError) as error:
            raise ConnectionLost(f"{host}:{port}: {str(error) or 'no answer'}") from error

    async def receive(self) -> bytes:
        try:
            text = await self._reader.readuntil(b"\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionLost(str(error)) from error
        return text.rstrip(b"\r\n")

    def send(self, text: bytes) -> None:
        transport = self._writer.transport
        if transport.get_write_buffer_size() > _BUFFER_BYTES_MAX:
            transport.abort()
        elif not transport.is_closing():
            self._writer.write(text + b"\n")

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return  # the other side closed first


class BusLink:
    """Lines over a bus: one PUB, one SUB. ZeroMQ reconnects by itself."""

    def __init__(self, publish: str, subscribe: str, curve: Curve | None) -> None:
        self._context = zmq.Context()
        # A PUB never waits, so it needs no loop: it drops what it cannot send.
        self._publisher: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._subscriber = zmq.asyncio.Context.shadow(self._context).socket(zmq.SUB)
        for socket, address in ((self._publisher, publish), (self._subscriber, subscribe)):
            socket.set(zmq.SNDHWM, _QUEUE_MAX)
            socket.set(zmq.RCVHWM, _QUEUE_MAX)
            socket.set(zmq.LINGER, 200)
            socket.set(zmq.IPV6, "[" in address)
            if curve is not None:
                socket.set(zmq.CURVE_SERVERKEY, curve.hall)
                socket.set(zmq.CURVE_PUBLICKEY, curve.public)
                socket.set(zmq.CURVE_SECRETKEY, curve.secret)
            socket.connect(f"tcp://{address}")
        self._subscriber.subscribe(b"")

    async def receive(self) -> bytes:
        return b"".join(await self._subscriber.recv_multipart())

    def send(self, text: bytes) -> None:
        self._publisher.send(text, zmq.NOBLOCK)

    async def close(self) -> None:
        self._publisher.close()
        self._subscriber.close()
        await asyncio.to_thread(self._context.term)
