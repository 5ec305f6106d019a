"""CURVE, the server's side: who a peer is, and the encryption of what follows (CurveZMQ, ZeroMQ's RFC 26).

    peer                                        hall
    HELLO     a key for this connection    -->
                                           <--  WELCOME   the same, and a cookie
    INITIATE  the cookie, its own key      -->
                                           <--  READY, or ERROR if the key is not listed
    MESSAGE   one frame, encrypted         <->  MESSAGE

Invariant: nothing that a peer says counts before it has proved that it has the secret of a listed key. Frames
that were changed, repeated or reordered on the way end the connection.
"""

from __future__ import annotations

import secrets
from hmac import compare_digest
from typing import Final

from nacl.bindings import (
    crypto_box_afternm,
    crypto_box_beforenm,
    crypto_box_keypair,
    crypto_box_open_afternm,
)
from nacl.exceptions import CryptoError

from hiringhall.transports.zmtp.frames import COMMAND, MORE, Opener, command_body, frame
from hiringhall.transports.zmtp.keys import KEY_BYTES, decode_key, public_key

HELLO: Final = b"\x05HELLO\x01\x00"
"""The name and the version of CurveZMQ."""
_HELLO_BYTES: Final = 200
_HELLO_KEY: Final = 80
_HELLO_NONCE: Final = 112
_HELLO_BOX: Final = 120
_SIGNED: Final = bytes(64)
INITIATE: Final = b"\x08INITIATE"
_COOKIE_BYTES: Final = 96
_INITIATE_NONCE: Final = len(INITIATE) + _COOKIE_BYTES
_INITIATE_BOX: Final = _INITIATE_NONCE + 8
_VOUCH_NONCE: Final = KEY_BYTES
_VOUCH_BOX: Final = _VOUCH_NONCE + 16
_METADATA: Final = _VOUCH_BOX + 80
_MESSAGE: Final = b"\x07MESSAGE"
_MESSAGE_NONCE: Final = len(_MESSAGE)
_MESSAGE_BOX: Final = _MESSAGE_NONCE + 8
OVERHEAD_BYTES: Final = _MESSAGE_BOX + 16 + 1
"""How much longer an encrypted frame is."""
_DENIED: Final = b"400"
"""ZeroMQ's code for a key that is not listed; its clients do not try again."""


class CurveKeys:
    """The keys of one door, decoded."""

    __slots__ = ("clients", "public", "secret")

    def __init__(self, secret_key: bytes, clients: frozenset[bytes]) -> None:
        """All in Z85. Raises ValueError."""
        self.secret = decode_key(secret_key)
        self.public = public_key(self.secret)
        self.clients = frozenset([decode_key(client) for client in clients])


class CurveError(ValueError):
    """What is wrong with what the peer sent."""

    def __init__(self, text: str, reply: bytes = b"", *, denied: bool = False) -> None:
        super().__init__(text)
        self.reply = reply
        """A command to send before the connection is closed."""
        self.denied = denied
        """Its key is not listed."""


class CurveServer:
    """The handshake with one peer."""

    __slots__ = ("_cookie", "_keys", "_peer_key", "_peer_nonce", "_public", "_secret", "_shared")

    def __init__(self, keys: CurveKeys) -> None:
        self._keys = keys
        self._public = b""
        self._secret = b""
        """The hall's key pair for this connection."""
        self._peer_key = b""
        """The peer's key for this connection."""
        self._cookie = b""
        self._shared = b""
        """The key of all that follows."""
        self._peer_nonce = 0

    def welcome(self, hello: bytes) -> bytes:
        """Read HELLO; the answer to it. Raises CurveError."""
        if len(hello) != _HELLO_BYTES or not hello.startswith(HELLO):
            raise CurveError("its first command is not a HELLO of CURVE")
        peer_key = hello[_HELLO_KEY:_HELLO_NONCE]
        nonce = b"CurveZMQHELLO---" + hello[_HELLO_NONCE:_HELLO_BOX]
        try:
            shared = crypto_box_beforenm(peer_key, self._keys.secret)
            signed = crypto_box_open_afternm(hello[_HELLO_BOX:], nonce, shared)
        except CryptoError as error:
            raise CurveError("it has another public key of this hall") from error
        if signed != _SIGNED:
            raise CurveError("its HELLO is not signed as CURVE says")
        self._peer_key = peer_key
        self._public, self._secret = crypto_box_keypair()
        # To the peer it is opaque. What the hall would put into it, it keeps for the time of the handshake.
        self._cookie = secrets.token_bytes(_COOKIE_BYTES)
        long_nonce = secrets.token_bytes(16)
        box = crypto_box_afternm(self._public + self._cookie, b"WELCOME-" + long_nonce, shared)
        return command_body(b"WELCOME", long_nonce + box)

    def metadata(self, initiate: bytes) -> bytes:
        """Read INITIATE: the properties of a peer whose key is listed. Raises CurveError."""
        cookie = initiate[len(INITIATE) : _INITIATE_NONCE]
        if not initiate.startswith(INITIATE) or not compare_digest(cookie, self._cookie):
            raise CurveError("its second command is not the INITIATE that answers the WELCOME")
        short_nonce = initiate[_INITIATE_NONCE:_INITIATE_BOX]
        try:
            self._shared = crypto_box_beforenm(self._peer_key, self._secret)
            nonce = b"CurveZMQINITIATE" + short_nonce
            said = crypto_box_open_afternm(initiate[_INITIATE_BOX:], nonce, self._shared)
            client = said[:KEY_BYTES]
            vouched = crypto_box_open_afternm(
                said[_VOUCH_BOX:_METADATA],
                b"VOUCH---" + said[_VOUCH_NONCE:_VOUCH_BOX],
                crypto_box_beforenm(client, self._secret),
            )
        except (CryptoError, TypeError, ValueError) as error:
            raise CurveError("it does not have the secret of the key that it shows") from error
        if vouched != self._peer_key + self._keys.public:
            raise CurveError("it does not have the secret of the key that it shows")
        if client not in self._keys.clients:
            reply = command_body(b"ERROR", bytes((len(_DENIED),)) + _DENIED)
            raise CurveError("its key is not among the clients of this door", reply, denied=True)
        self._peer_nonce = int.from_bytes(short_nonce, "big")
        return bytes(said[_METADATA:])

    def ready(self, metadata: bytes) -> bytes:
        """The command that ends the handshake."""
        short_nonce = (1).to_bytes(8, "big")
        box = crypto_box_afternm(metadata, b"CurveZMQREADY---" + short_nonce, self._shared)
        return command_body(b"READY", short_nonce + box)

    def opener(self) -> CurveOpener:
        return CurveOpener(self._shared, self._peer_nonce)

    def sealer(self) -> CurveSealer:
        return CurveSealer(self._shared)


class CurveOpener(Opener):
    """Decrypts what a peer sends."""

    __slots__ = ("_nonce", "_shared")

    def __init__(self, shared: bytes, nonce: int) -> None:
        super().__init__()
        self._shared = shared
        self._nonce = nonce
        """The latest one of the peer: it counts up."""

    def open(self, body: bytes) -> bytes:
        if not body.startswith(_MESSAGE):
            raise CurveError("a frame that is not encrypted")
        number = body[_MESSAGE_NONCE:_MESSAGE_BOX]
        nonce = int.from_bytes(number, "big")
        if nonce <= self._nonce:
            raise CurveError("an encrypted frame that is repeated or out of order")
        try:
            opened = crypto_box_open_afternm(body[_MESSAGE_BOX:], b"CurveZMQMESSAGEC" + number, self._shared)
        except (CryptoError, TypeError, ValueError) as error:
            raise CurveError("an encrypted frame that was changed on its way") from error
        if not opened:
            raise CurveError("an encrypted frame without flags")
        self._nonce = nonce
        return bytes(opened)


class CurveSealer:
    """Encrypts what is sent to a peer."""

    __slots__ = ("_nonce", "_shared")

    def __init__(self, shared: bytes) -> None:
        self._shared = shared
        self._nonce = 1  # that of READY

    def seal(self, body: bytes, flags: int) -> bytes:
        """An encrypted frame, as it is on the wire."""
        self._nonce += 1
        number = self._nonce.to_bytes(8, "big")
        inner = (flags & MORE) | (2 if flags & COMMAND else 0)
        box = crypto_box_afternm(bytes((inner,)) + body, b"CurveZMQMESSAGES" + number, self._shared)
        return frame(_MESSAGE + number + box)
