"""Opens the socket of both peers: a DEALER, with CURVE if the door requires it."""

from __future__ import annotations

from typing import NamedTuple

import zmq

Context = zmq.Context[zmq.Socket[bytes]]


class Curve(NamedTuple):
    """The keys for a door with CURVE, each as 40 characters of Z85.

    A peer without its own pair creates one. That is enough for a door that accepts everybody who knows its key.
    """

    server_key: bytes
    public_key: bytes = b""
    secret_key: bytes = b""


def endpoint(address: str) -> str:
    """Where to connect: "127.0.0.1:5560" is short for "tcp://127.0.0.1:5560"."""
    return address if "://" in address else f"tcp://{address}"


def open_dealer(
    context: Context, address: str, curve: Curve | None, identity: bytes = b""
) -> zmq.Socket[bytes]:
    """A socket that connects to the door. Unsent messages are dropped when it is closed."""
    dealer = context.socket(zmq.DEALER)
    try:
        dealer.linger = 0
        if identity:
            dealer.setsockopt(zmq.IDENTITY, identity)
        if curve is not None:
            public_key, secret_key = curve.public_key, curve.secret_key
            if not public_key:
                public_key, secret_key = zmq.curve_keypair()
            dealer.setsockopt(zmq.CURVE_SERVERKEY, curve.server_key)
            dealer.setsockopt(zmq.CURVE_PUBLICKEY, public_key)
            dealer.setsockopt(zmq.CURVE_SECRETKEY, secret_key)
        dealer.connect(endpoint(address))
    except BaseException:
        dealer.close()
        raise
    return dealer
