"""How a connection begins, without I/O: bytes in, bytes out, and who the peer is.

    greeting   FF 8 bytes 7F  03 01  "NULL" or "CURVE"  00 ...     64 bytes, from both sides (ZMTP 3)
    READY      the type of the socket, and its identity            a command; the hall answers with its own

With CURVE, HELLO and INITIATE come in the place of READY. A peer of ZMTP 2.0 sends its version (01), the type
of its socket and its identity instead; it has no encryption. ZMTP 1.0 (libzmq before 3) is not spoken.

Invariant: a peer that does not follow this is refused before anything is kept for it but a few bytes.
"""

from __future__ import annotations

from typing import Final

from hiringhall.transports.zmtp.curve import CurveError, CurveKeys, CurveSealer, CurveServer
from hiringhall.transports.zmtp.frames import COMMAND, LONG, Opener, command, command_body, frame

OPENING: Final = b"\xff" + bytes(7) + b"\x01\x7f\x03"
"""What the hall sends first: what an older peer needs to see to say its own version."""
_GREETING_BYTES: Final = 64
_OLD_GREETING_BYTES: Final = 12
_VERSION_AT: Final = 10
_MECHANISM_AT: Final = 12
_MECHANISM_BYTES: Final = 20
_VERSION_2: Final = 1
"""The number of ZMTP 2.0 on the wire."""
COMMAND_BYTES_MAX: Final = 16_384
IDENTITY_BYTES_MAX: Final = 255

ROUTER: Final = b"ROUTER"
SUB: Final = b"SUB"
XPUB: Final = b"XPUB"
_PARTNERS: Final = {
    ROUTER: (b"DEALER", b"REQ", b"ROUTER"),
    SUB: (b"PUB", b"XPUB"),
    XPUB: (b"SUB", b"XSUB"),
}
"""Which sockets may talk to ours."""
_OLD_TYPES: Final = (
    *(b"PAIR", b"PUB", b"SUB", b"REQ", b"REP", b"DEALER"),
    *(b"ROUTER", b"PULL", b"PUSH", b"XPUB", b"XSUB"),
)
"""The types of sockets by their numbers in ZMTP 2.0."""
_READY: Final = b"\x05READY"
_ERROR: Final = b"\x05ERROR"


class Introduction:
    """Who a peer is."""

    __slots__ = ("identity", "minor", "version")

    def __init__(self, version: int, minor: int, identity: bytes) -> None:
        self.version = version
        self.minor = minor
        self.identity = identity
        """Empty: it has chosen none."""


class Refused(Exception):
    """Why a peer is not let in."""

    def __init__(self, text: str, reply: bytes = b"", *, denied: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.reply = reply
        """What to send before the connection is closed."""
        self.denied = denied
        """It has no key that is listed."""


class Handshake:
    """The beginning of one connection."""

    __slots__ = ("_answered", "_awaits", "_buffer", "_curve", "_out", "_own", "_ready", "_version", "peer")

    def __init__(self, own: bytes, keys: CurveKeys | None) -> None:
        """`own` is the type of the hall's socket."""
        self.peer: Introduction | None = None
        """Known once all has been read; then `accept` ends the handshake."""
        self._own = own
        self._curve = CurveServer(keys) if keys is not None else None
        self._buffer = b""
        self._out: list[bytes] = []
        self._version = (0, 0)
        self._answered = False
        """The rest of the hall's greeting was sent."""
        self._awaits = b""
        """The next command of the peer; empty: its greeting is not complete."""
        self._ready = b""

    def feed(self, data: bytes) -> bytes:
        """Read on; what to send now. Raises Refused."""
        self._buffer += data
        try:
            while self.peer is None and self._step():
                pass
        except Refused as refused:
            # Also a peer that is refused gets the whole greeting: it may wait for it.
            refused.reply = self._take_output() + refused.reply
            raise
        return self._take_output()

    def _take_output(self) -> bytes:
        out = b"".join(self._out)
        self._out = []
        return out

    def accept(self) -> bytes:
        """The peer is let in: what to send."""
        if self._version[0] == 2:
            return frame(b"")  # the hall has no identity
        properties = _property(b"Socket-Type", self._own)
        if self._own == ROUTER:
            properties += _property(b"Identity", b"")
        if self._curve is not None:
            return frame(self._curve.ready(properties), COMMAND)
        return command(b"READY", properties)

    def rest(self) -> bytes:
        """What has come after the handshake."""
        return self._buffer

    def opener(self) -> Opener | None:
        return self._curve.opener() if self._curve is not None else None

    def sealer(self) -> CurveSealer | None:
        return self._curve.sealer() if self._curve is not None else None

    def _step(self) -> bool:
        """Read the next part; False: it has not come yet."""
        if not self._awaits:
            return self._read_greeting()
        body = self._next_frame(0 if self._version[0] == 2 else COMMAND)
        if body is None:
            return False
        if self._version[0] == 2:
            self._introduce(b"", body)
        elif body.startswith(_ERROR):
            raise Refused(f"it refuses this hall: {body[len(_ERROR) + 1 :][:IDENTITY_BYTES_MAX]!r}")
        elif self._curve is not None:
            self._take_encrypted(self._curve, body)
        elif body.startswith(_READY):
            self._read_properties(body[len(_READY) :])
        else:
            raise Refused("its first command is not READY")
        return True

    def _read_greeting(self) -> bool:
        data = self._buffer
        if not data:
            return False
        if data[0] != OPENING[0] or (len(data) >= _VERSION_AT and not data[_VERSION_AT - 1] & 1):
            raise Refused("it does not speak ZeroMQ's protocol in version 2.0 or later")
        if len(data) <= _VERSION_AT:
            return False
        version = data[_VERSION_AT]
        if version < _VERSION_2:
            raise Refused("it does not speak ZeroMQ's protocol in version 2.0 or later")
        mechanism = b"NULL" if self._curve is None else b"CURVE"
        if not self._answered:
            self._answered = True
            if version == _VERSION_2:
                self._out.append(bytes((_OLD_TYPES.index(self._own),)))
            else:
                self._out.append(b"\x01" + mechanism.ljust(_MECHANISM_BYTES, b"\0") + bytes(32))
        size = _OLD_GREETING_BYTES if version == _VERSION_2 else _GREETING_BYTES
        if len(data) < size:
            return False
        self._buffer = data[size:]
        if version == _VERSION_2:
            if self._curve is not None:
                raise Refused("it speaks ZMTP 2.0, which has no encryption")
            kind = data[_OLD_GREETING_BYTES - 1]
            self._check_type(_OLD_TYPES[kind] if kind < len(_OLD_TYPES) else b"%d" % kind)
            self._version = (2, 0)
            self._awaits = b"identity"
            return True
        self._version = (3, data[_MECHANISM_AT - 1] if version == 3 else 1)
        offered = data[_MECHANISM_AT : _MECHANISM_AT + _MECHANISM_BYTES].rstrip(b"\0")
        if offered != mechanism:
            text = f"its security is {_shown(offered)}, that of this door is {mechanism.decode()}"
            raise Refused(text, denied=self._curve is not None)
        self._awaits = b"READY" if self._curve is None else b"HELLO"
        return True

    def _next_frame(self, wanted: int) -> bytes | None:
        """The next frame, if it is complete."""
        data = self._buffer
        if not data:
            return None
        flags = data[0]
        if flags & ~LONG != wanted:
            raise Refused("something else than its introduction follows its greeting")
        body_at = 9 if flags & LONG else 2
        if len(data) < body_at:
            return None
        size = int.from_bytes(data[1:body_at], "big")
        if size > COMMAND_BYTES_MAX:
            raise Refused(f"its introduction has {size} bytes")
        if len(data) < body_at + size:
            return None
        self._buffer = data[body_at + size :]
        return data[body_at : body_at + size]

    def _take_encrypted(self, curve: CurveServer, body: bytes) -> None:
        try:
            if self._awaits == b"HELLO":
                self._out.append(frame(curve.welcome(body), COMMAND))
                self._awaits = b"INITIATE"
                return
            properties = curve.metadata(body)
        except CurveError as error:
            reply = frame(error.reply, COMMAND) if error.reply else b""
            raise Refused(str(error), reply, denied=True) from error
        self._read_properties(properties)

    def _read_properties(self, data: bytes) -> None:
        """The properties of a peer: a name and a value each."""
        kind = b""
        identity = b""
        at = 0
        while at < len(data):
            value_at = at + 1 + data[at] + 4
            end = value_at + int.from_bytes(data[value_at - 4 : value_at], "big")
            if not data[at] or end > len(data):
                raise Refused("its READY cannot be read")
            name = data[at + 1 : value_at - 4].lower()
            if name == b"socket-type":
                kind = data[value_at:end]
            elif name == b"identity":
                identity = data[value_at:end]
            at = end
        self._introduce(kind, identity)

    def _introduce(self, kind: bytes, identity: bytes) -> None:
        if kind:
            self._check_type(kind)
        if len(identity) > IDENTITY_BYTES_MAX or identity.startswith(b"\0"):
            raise Refused("its identity begins with a zero or has more than 255 bytes")
        self.peer = Introduction(self._version[0], self._version[1], identity)

    def _check_type(self, kind: bytes) -> None:
        partners = _PARTNERS[self._own]
        if kind not in partners:
            wanted = " or ".join([partner.decode() for partner in partners])
            reason = b"Invalid socket type"
            reply = b"" if self._version[0] != 3 else self._error(reason)
            raise Refused(f"its socket is a {_shown(kind)}; this address is for {wanted}", reply)

    def _error(self, reason: bytes) -> bytes:
        return frame(command_body(b"ERROR", bytes((len(reason),)) + reason), COMMAND)


def _property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def _shown(name: bytes) -> str:
    return name[:20].decode("ascii", "backslashreplace")
