"""The ZeroMQ sockets of a door: their options, encryption and addresses.

Invariant: what a socket holds for a peer is bounded; with CURVE, only peers with a listed key can connect.
"""

from __future__ import annotations

import asyncio
import socket as stream
from dataclasses import dataclass
from typing import cast

import zmq
import zmq.asyncio
from zmq.auth.asyncio import AsyncioAuthenticator


@dataclass(frozen=True)
class Curve:
    """The secret key of the hall and the public keys of the clients that may connect, in ZeroMQ's Z85 form."""

    secret_key: bytes
    clients: frozenset[bytes]


@dataclass(frozen=True)
class ZmqOptions:
    """How an endpoint treats its peers."""

    peers_max: int = 100_000
    """Maximum number of sessions. While none of them can be forgotten, messages of new peers are dropped."""
    idle_s: float = 600.0
    """An idle session is forgotten after this time without a message."""
    message_bytes_max: int = 65 << 20
    """Size of one frame. A peer that sends a longer one is disconnected before it is read."""
    receive_messages_max: int = 200
    """Messages from one peer that ZeroMQ holds until they are received."""
    send_messages_max: int = 200
    """Messages to one peer that ZeroMQ holds until they are sent; more of them wait here."""
    unsent_bytes_max: int = 64 << 20
    """If more than this waits here, the peer is dropped."""
    stall_s: float = 10.0
    """A peer that has accepted none of it for this long is dropped too."""
    backlog: int = 4096
    handshake_s: float = 10.0
    heartbeat_s: float = 10.0
    """How often an idle connection is probed. One that is silent three times as long is closed."""
    takeover: bool = False
    """A peer may take over an identity that another connection still uses."""
    curve: Curve | None = None
    close_wait_s: float = 2.0
    """How long sending the last messages may take when the hall closes."""


class SocketSet:
    """The sockets of one door, and their CURVE authenticator."""

    def __init__(self, options: ZmqOptions) -> None:
        self.options = options
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, self._context.get(zmq.SOCKET_LIMIT))
        self._sockets: list[zmq.Socket[bytes]] = []
        self._authenticator: AsyncioAuthenticator | None = None
        if options.curve is not None:
            # ZeroMQ asks this authenticator, in this process, about every peer that connects.
            shadow: zmq.asyncio.Context = zmq.asyncio.Context(self._context)
            self._authenticator = AsyncioAuthenticator(shadow)
            self._authenticator.start()
            self._authenticator.configure_curve_callback("*", _AllowList(options.curve.clients))

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        """A socket of this type, with the door's options."""
        options = self.options
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, options.message_bytes_max)
        socket.setsockopt(zmq.RCVHWM, options.receive_messages_max)
        socket.setsockopt(zmq.SNDHWM, options.send_messages_max)
        socket.setsockopt(zmq.BACKLOG, options.backlog)
        socket.setsockopt(zmq.HANDSHAKE_IVL, round(options.handshake_s * 1000))
        socket.setsockopt(zmq.HEARTBEAT_IVL, round(options.heartbeat_s * 1000))
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, round(options.heartbeat_s * 3000))
        if options.curve is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, options.curve.secret_key)
        return socket

    async def close(self) -> None:
        """Close all sockets. Unsent messages get `close_wait_s`."""
        if self._authenticator is not None:
            self._authenticator.stop()
        for socket in self._sockets:
            socket.close(round(self.options.close_wait_s * 1000))
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)


async def listen(socket: zmq.Socket[bytes], host: str, port: int) -> tuple[str, int]:
    """Bind a socket. Return the bound address. Raises OSError."""
    try:
        # ZeroMQ binds to addresses, not to host names.
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=stream.SOCK_STREAM)
        address = str(found[0][4][0])
        if ":" in address:
            socket.setsockopt(zmq.IPV6, 1)
            address = f"[{address}]"
        socket.bind(f"tcp://{address}:{port or '*'}")
    except (zmq.ZMQError, OSError) as error:
        raise OSError(error.errno, error.strerror) from error
    endpoint = cast("bytes", socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
    address, _, bound = endpoint.removeprefix("tcp://").rpartition(":")
    return address.strip("[]"), int(bound)


class _AllowList:
    """The clients that may connect, as pyzmq's credentials provider."""

    def __init__(self, clients: frozenset[bytes]) -> None:
        self._clients = clients

    def callback(self, domain: str, key: bytes) -> bool:
        del domain
        return key in self._clients
