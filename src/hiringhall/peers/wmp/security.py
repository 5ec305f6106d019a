"""CURVE: encrypted links between peers that know each other's keys.

Invariant: a listener with CURVE accepts only the given keys; without any it does not open.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import zmq
from zmq.utils import z85

from hiringhall.peers.wmp.errors import WmpError

if TYPE_CHECKING:
    from collections.abc import Iterable

_ZAP_ENDPOINT: Final = "inproc://zeromq.zap.01"
_ZAP_FRAMES: Final = 7
_KEY_CHARACTERS: Final = 40


class Curve(NamedTuple):
    """A peer's own keys, and the keys it trusts. A key has 40 characters of Z85."""

    public: bytes
    secret: bytes
    managers: tuple[bytes, ...] = ()
    """The public keys of the managers it connects to: one for all of them, or one for each."""
    callers: tuple[bytes, ...] = ()
    """The public keys of the peers that may connect to it."""

    def guard(self, socket: zmq.Socket[bytes]) -> None:
        """Configure a listening socket: accept only callers with a known key."""
        if not self.callers:
            raise WmpError("CURVE needs at least one key in `callers`: give the public keys of the callers")
        check_keys([self.public, self.secret, *self.callers])
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, self.secret)
        socket.set(zmq.ZAP_DOMAIN, b"wmp")

    def introduce(self, socket: zmq.Socket[bytes], number: int) -> None:
        """Configure a connecting socket: with our keys, and the key of the manager with this number."""
        if not self.managers:
            raise WmpError("CURVE needs a key in `managers`: give the public key of each manager")
        if len(self.managers) > 1 and number >= len(self.managers):
            raise WmpError(f"CURVE has keys for {len(self.managers)} managers, but there are more managers")
        key = self.managers[number if len(self.managers) > 1 else 0]
        check_keys([self.public, self.secret, key])
        socket.set(zmq.CURVE_PUBLICKEY, self.public)
        socket.set(zmq.CURVE_SECRETKEY, self.secret)
        socket.set(zmq.CURVE_SERVERKEY, key)


def check_keys(keys: Iterable[bytes]) -> None:
    for key in keys:
        try:
            fine = len(key) == _KEY_CHARACTERS and len(z85.decode(key)) == 32
        except (KeyError, ValueError, ArithmeticError):
            fine = False
        if not fine:
            raise WmpError("a CURVE key must have 40 characters of Z85, as made by zmq.curve_keypair()")


class ZapHandler:
    """Decides for libzmq whether a key may connect (ZAP, ZeroMQ RFC 27)."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], callers: Iterable[bytes]) -> None:
        self._callers = frozenset(z85.decode(key) for key in callers)
        self._loop = asyncio.get_running_loop()
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(_ZAP_ENDPOINT)
        self._loop.add_reader(self._socket.fileno(), self._answer)

    def _answer(self) -> None:
        while not self._socket.closed:
            try:
                question = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            request = question[1] if len(question) > 1 else b""
            known = len(question) == _ZAP_FRAMES and question[5] == b"CURVE" and question[6] in self._callers
            verdict = [b"200", b"OK"] if known else [b"400", b"this key may not connect"]
            self._socket.send_multipart([b"1.0", request, *verdict, b"", b""])

    def close(self) -> None:
        if not self._socket.closed:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
