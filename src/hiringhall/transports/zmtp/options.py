"""How a ZeroMQ door treats its peers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """The secret key of the hall and the public keys of the clients that may connect, in ZeroMQ's Z85 form."""

    secret_key: bytes
    clients: frozenset[bytes]


@dataclass(frozen=True)
class ZmqOptions:
    """How an endpoint treats its peers."""

    connections_max: int = 100_000
    peers_max: int = 100_000
    """Maximum number of sessions. While none of them can be forgotten, messages of new peers are dropped."""
    idle_s: float = 600.0
    """An idle session is forgotten after this time without a message."""
    message_bytes_max: int = 65 << 20
    """Size of one frame. A peer that sends a longer one is disconnected before it is read."""
    receive_messages_max: int = 200
    """Messages that are taken from one connection in one turn. The rest waits for the next turn."""
    send_messages_max: int = 10_000
    """On a bus: messages that wait for one subscriber; it misses further ones."""
    unsent_bytes_max: int = 64 << 20
    """If more than this waits for one connection, it is closed."""
    stall_s: float = 10.0
    """A connection whose peer has read none of it for this long is closed too."""
    backlog: int = 4096
    handshake_s: float = 10.0
    heartbeat_s: float = 10.0
    """How often an idle connection is probed. One that is silent three times as long is closed."""
    takeover: bool = False
    """A peer may take over an identity that another connection still uses."""
    curve: Curve | None = None
    close_wait_s: float = 2.0
    """How long sending the last messages may take when the hall closes."""
