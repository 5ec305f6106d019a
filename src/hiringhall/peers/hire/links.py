"""Where lines go and come from: a TCP connection, or a ZeroMQ bus.

The law: what is said goes out in its order or not at all, and nothing here waits for somebody to listen.

    tcp://127.0.0.1:7430                      lines to a hall, and from it
    bus://127.0.0.1:7431,127.0.0.1:7432       publish there, subscribe here: everybody hears everybody
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
"""Lines on their way in one direction of the bus; more are dropped."""
_BUFFER_BYTES_MAX: Final = 4 << 20
"""What may wait for a TCP peer that does not read; then it counts as lost."""


class Curve(NamedTuple):
    """The keys for a bus with CURVE, each as 40 characters of Z85."""

    hall: bytes
    """The hall's public key."""
    public: bytes
    secret: bytes


Security = Curve | ssl.SSLContext
"""Of a bus, or of a TCP connection."""


class Link(Protocol):
    """A way to speak and to hear."""

    async def hear(self) -> bytes:
        """The next line. Raises ConnectionLost."""

    def say(self, text: bytes) -> None:
        """Put a line on its way."""

    async def close(self) -> None:
        """Send what was said, then go."""


def check_address(address: str, security: Security | None) -> None:
    """Raises AddressError."""
    match = _TCP.fullmatch(address)
    ports = [match[2]] if match else [part.rpartition(":")[2] for part in _bus_ends(address)]
    if any(int(port) > 65535 for port in ports):
        raise AddressError(f"{address!r}: a port is a number up to 65535")
    if isinstance(security, Curve if match else ssl.SSLContext):
        raise AddressError(f"{address!r}: a bus is secured by a Curve, a TCP connection by an SSLContext")


async def open_link(address: str, security: Security | None) -> Link:
    """Raises ConnectionLost when nobody is there; a bus is joined whether it is there yet or not."""
    match = _TCP.fullmatch(address)
    if match:
        context = security if isinstance(security, ssl.SSLContext) else None
        return await TcpLink.open(match[1].strip("[]"), int(match[2]), context)
    return BusLink(*_bus_ends(address), security if isinstance(security, Curve) else None)


def _bus_ends(address: str) -> tuple[str, str]:
    match = _BUS.fullmatch(address)
    if match is None:
        raise AddressError(f"{address!r} is neither tcp://HOST:PORT nor bus://HOST:IN,HOST:OUT")
    return match[1], match[2]


class TcpLink:
    """Lines over a connection of one's own."""

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

    async def hear(self) -> bytes:
        try:
            text = await self._reader.readuntil(b"\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionLost(str(error)) from error
        return text.rstrip(b"\r\n")

    def say(self, text: bytes) -> None:
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
            return  # it went first


class BusLink:
    """Lines for everybody: one PUB, one SUB. ZeroMQ connects by itself, as often as it must."""

    def __init__(self, publish: str, subscribe: str, curve: Curve | None) -> None:
        self._context = zmq.Context()
        # A PUB never waits, so it needs no loop: what nobody can take is dropped.
        self._voice: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._ear = zmq.asyncio.Context.shadow(self._context).socket(zmq.SUB)
        for socket, address in ((self._voice, publish), (self._ear, subscribe)):
            socket.set(zmq.SNDHWM, _QUEUE_MAX)
            socket.set(zmq.RCVHWM, _QUEUE_MAX)
            socket.set(zmq.LINGER, 200)
            socket.set(zmq.IPV6, "[" in address)
            if curve is not None:
                socket.set(zmq.CURVE_SERVERKEY, curve.hall)
                socket.set(zmq.CURVE_PUBLICKEY, curve.public)
                socket.set(zmq.CURVE_SECRETKEY, curve.secret)
            socket.connect(f"tcp://{address}")
        self._ear.subscribe(b"")

    async def hear(self) -> bytes:
        return b"".join(await self._ear.recv_multipart())

    def say(self, text: bytes) -> None:
        self._voice.send(text, zmq.NOBLOCK)

    async def close(self) -> None:
        self._voice.close()
        self._ear.close()
        await asyncio.to_thread(self._context.term)
