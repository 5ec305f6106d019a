"""ZeroMQ sockets on the event loop: every received message is passed on at once, in order.

Invariant: sending never waits. A message that cannot be sent now (the peer is gone, or its queue is full) is
refused and counted, because the protocol tolerates lost messages. To wait instead, call `room` first. ZeroMQ
reconnects by itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import zmq

from hiringhall.peers.endpoints import zmq_endpoint
from hiringhall.peers.wmp.errors import AddressError
from hiringhall.peers.wmp.security import ZapHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from hiringhall.peers.wmp.security import Curve

_NO_WAIT: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
"""Plain integers: pyzmq's own method for several frames creates flag objects for each frame."""
_BATCH: Final = 200
"""Messages read from one socket before the others are served."""
_HEARTBEAT_MS: Final = 5_000
"""A connection that is silent for three heartbeats is closed, to free the place of a lost peer."""
_RECONNECT_FIRST_MS: Final = 50
_RECONNECT_MAX_MS: Final = 2_000


@dataclass(frozen=True)
class LinkTerms:
    """The limits of one peer's sockets, and how long they may linger on close."""

    message_bytes_max: int = (64 << 20) + (64 << 10)
    """Size of one message. A connection that sends a longer one is closed before it is read."""
    queue_max: int = 10_000
    """Queued messages in one direction of one connection."""
    linger_s: float = 1.0


def endpoint(address: str) -> str:
    """An address in ZeroMQ's form: `HOST:PORT` means TCP. Raises AddressError."""
    try:
        return zmq_endpoint(address)
    except ValueError as error:
        raise AddressError(str(error)) from error


def is_private(address: str) -> bool:
    """Whether other machines cannot reach it."""
    scheme, _, rest = endpoint(address).partition("://")
    if scheme != "tcp":
        return True
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Links:
    """The sockets of one peer, numbered in the order of their creation."""

    def __init__(
        self, received: Callable[[int, list[bytes]], None], terms: LinkTerms, curve: Curve | None
    ) -> None:
        self.refused = 0
        """Number of messages that could not be sent."""
        self.fault: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the first exception of a callback; nothing is read after that."""
        self._received = received
        self._terms = terms
        self._curve = curve
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 65_535)
        self._sockets: list[zmq.Socket[bytes]] = []
        self._draining: set[int] = set()
        """Sockets that will be read in the next pass of the loop."""
        self._waiting_for_room: dict[int, list[asyncio.Future[None]]] = {}
        self._zap_handler: ZapHandler | None = None

    def bind(self, address: str) -> str:
        """Listen as a ROUTER. Return the address with the actual port."""
        socket = self._make(zmq.ROUTER)
        socket.set(zmq.ROUTER_MANDATORY, 1)
        if self._curve is not None:
            self._curve.guard(socket)
            self._zap_handler = ZapHandler(self._context, self._curve.callers)
        self._open(socket, "listen on", address, socket.bind)
        return bytes(socket.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode().removeprefix("tcp://")

    def connect(self, address: str, number: int, identity: bytes | None) -> None:
        """Connect to a ROUTER, which may come up later."""
        socket = self._make(zmq.DEALER)
        if identity is not None:
            socket.set(zmq.IDENTITY, identity)
        if self._curve is not None:
            self._curve.introduce(socket, number)
        self._open(socket, "connect to", address, socket.connect)

    def _make(self, kind: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        # Remembered from here on: a context waits forever for a socket that is not closed.
        self._sockets.append(socket)
        # For a socket that cannot be opened; `close` gives the others time to send.
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.MAXMSGSIZE, self._terms.message_bytes_max)
        socket.set(zmq.SNDHWM, self._terms.queue_max)
        socket.set(zmq.RCVHWM, self._terms.queue_max)
        socket.set(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        socket.set(zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS)
        socket.set(zmq.RECONNECT_IVL, _RECONNECT_FIRST_MS)
        socket.set(zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS)
        return socket

    def _open(self, socket: zmq.Socket[bytes], what: str, address: str, go: Callable[[str], object]) -> None:
        # Only if needed: with it, ZeroMQ shows IPv4 addresses in IPv6 form.
        socket.set(zmq.IPV6, "[" in address)
        try:
            go(endpoint(address))
        except zmq.ZMQError as error:
            raise AddressError(f"cannot {what} {address}: {zmq.strerror(error.errno or 0)}") from error
        number = len(self._sockets) - 1
        self._loop.add_reader(socket.fileno(), self._drain, number)
        self._drain_soon(number)

    # --- messages

    def send(self, number: int, frames: list[bytes]) -> bool:
        """Send a message. False: the peer is gone or too slow."""
        socket = self._sockets[number]
        try:
            for frame in frames[:-1]:
                socket.send(frame, _MORE)
            socket.send(frames[-1], _NO_WAIT)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            self.refused += 1
            return False
        finally:
            # Sending may consume the signal of the descriptor that messages have come.
            self._drain_soon(number)
        return True

    async def room(self, number: int, limit_s: float) -> None:
        """Wait until a message can be sent there, at most `limit_s`."""
        if self._has_room(number):
            return
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting_for_room.setdefault(number, []).append(future)
        self._drain_soon(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await future

    def _drain_soon(self, number: int) -> None:
        if number not in self._draining:
            self._draining.add(number)
            self._loop.call_soon(self._drain, number)

    def _drain(self, number: int) -> None:
        """Read until nothing is left: the descriptor signals a change only once."""
        self._draining.discard(number)
        socket = self._sockets[number]
        if socket.closed or self.fault.done():
            return
        with suppress(zmq.Again), self.watched():
            for _ in range(_BATCH):
                self._received(number, socket.recv_multipart(_NO_WAIT))
            self._drain_soon(number)
        if number in self._waiting_for_room and self._has_room(number):
            for future in self._waiting_for_room.pop(number):
                if not future.done():
                    future.set_result(None)

    def _has_room(self, number: int) -> bool:
        return bool(int(self._sockets[number].get(zmq.EVENTS)) & zmq.POLLOUT)

    # --- errors

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Pass an exception of a loop callback to `until`, which ends the peer."""
        try:
            yield
        except zmq.Again:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised again by `until`
            if not self.fault.done():
                self.fault.set_exception(error)

    async def until(self, end: Awaitable[object]) -> None:
        """Wait for `end`. Raises the exception of a callback if that comes first."""
        ending: asyncio.Future[Any] = asyncio.ensure_future(end)
        try:
            await asyncio.wait([ending, self.fault], return_when=asyncio.FIRST_COMPLETED)
            if self.fault.done():
                self.fault.result()
            await ending
        finally:
            ending.cancel()

    # --- closing

    async def close(self) -> None:
        """Read nothing more. Unsent messages get `linger_s`."""
        for socket in self._sockets:
            if not socket.closed:
                self._loop.remove_reader(socket.fileno())
                socket.close(round(self._terms.linger_s * 1000))
        if self._zap_handler is not None:
            self._zap_handler.close()
        if self.fault.done() and not self.fault.cancelled():
            # Mark the exception as retrieved: the peer may have been closed before it was raised.
            self.fault.exception()
        await asyncio.to_thread(self._context.term)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class LinkedPeer(ABC):
    """A peer with links: use `async with`, or `run` until `stop`."""

    def __init__(self) -> None:
        self._links: Links | None = None
        self._stop = asyncio.Event()

    @abstractmethod
    async def open(self) -> None:
        """Listen and connect. Raises AddressError if an address cannot be used."""

    @abstractmethod
    async def close(self) -> None:
        """Close every link."""

    async def run(self) -> None:
        """Serve until `stop`, then close. Opens the peer if it is not open."""
        if self._links is None:
            await self.open()
        assert self._links is not None
        try:
            await self._links.until(self._stop.wait())
        finally:
            await self.close()

    def stop(self) -> None:
        """Let `run` end."""
        self._stop.set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Timer:
    """A timer with one deadline: the last one that was set."""

    def __init__(self, links: Links, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._links = links
        self._call = call
        self._at_us: int | None = None
        self._handle: asyncio.TimerHandle | None = None

    def now_us(self) -> int:
        return int(self._loop.time() * 1_000_000)

    def set(self, at_us: int | None) -> None:
        if at_us == self._at_us:
            return
        self.clear()
        if at_us is not None:
            self._at_us = at_us
            # Rounded up: a timer that fires early would fire twice.
            self._handle = self._loop.call_at((at_us + 1) / 1_000_000, self._due)

    def clear(self) -> None:
        self._at_us = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self) -> None:
        self._at_us = self._handle = None
        with self._links.watched():
            self._call()
