"""ZMTP by hand, from its specifications, for what no ZeroMQ library would send; and the hall's own side of it
without sockets.
"""

from __future__ import annotations

import socket
from struct import pack
from typing import TYPE_CHECKING, Final, Self

from hiringhall.transports.zmtp.frames import Command, Envelope, FrameReader, Message, Oversized
from hiringhall.transports.zmtp.handshake import ROUTER, Handshake, Refused

if TYPE_CHECKING:
    from hiringhall.transports.zmtp.curve import CurveKeys
    from hiringhall.transports.zmtp.frames import Event

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4
SIGNATURE: Final = b"\xff" + bytes(7) + b"\x01\x7f"
OLD_GREETING: Final = SIGNATURE + b"\x01\x05"
"""ZMTP 2.0, a DEALER."""
TIMEOUT_S: Final = 20.0


def greeting(minor: int = 1, mechanism: bytes = b"NULL", major: int = 3) -> bytes:
    return SIGNATURE + bytes((major, minor)) + mechanism.ljust(20, b"\0") + bytes(32)


def frame(body: bytes, flags: int = 0, *, long: bool = False) -> bytes:
    if long or len(body) > 255:
        return pack(">BQ", flags | LONG, len(body)) + body
    return pack(">BB", flags, len(body)) + body


def ready(identity: bytes = b"", kind: bytes = b"DEALER") -> bytes:
    properties = b""
    for name, value in ((b"Socket-Type", kind), (b"Identity", identity)):
        properties += pack(">B", len(name)) + name + pack(">I", len(value)) + value
    return command(b"READY", properties)


def command(name: bytes, data: bytes = b"") -> bytes:
    return frame(pack(">B", len(name)) + name + data, COMMAND)


def message(*frames: bytes) -> bytes:
    return b"".join(frame(each, MORE) for each in frames[:-1]) + frame(frames[-1])


def shown(events: list[Event]) -> list[object]:
    """Events, so that they can be compared; each message with its envelope."""
    said: list[object] = []
    for event in events:
        if isinstance(event, Message):
            said.append(event.body)
        elif isinstance(event, Envelope):
            said.append(tuple(event.frames))
        elif isinstance(event, Command):
            said.append((event.name, event.data, "command"))
        elif isinstance(event, Oversized):
            said.append(("oversized", event.frames))
    return said


class HallSide:
    """The hall's side of one connection, without a socket."""

    def __init__(self, bytes_max: int = 1000, keys: CurveKeys | None = None, own: bytes = ROUTER) -> None:
        self._handshake = Handshake(own, keys)
        self._reader: FrameReader | None = None
        self._bytes_max = bytes_max
        self.sent = b""
        self.identity: bytes | None = None
        self.refused = ""
        self.heard: list[object] = []
        self.kept_bytes_max = 0

    def feed(self, data: bytes) -> None:
        if self.refused:
            return
        if self._reader is None:
            try:
                self.sent += self._handshake.feed(data)
            except Refused as refused:
                self.refused = refused.text
                self.sent += refused.reply
                return
            peer = self._handshake.peer
            if peer is None:
                return
            self.identity = peer.identity
            self.sent += self._handshake.accept()
            self._reader = FrameReader(self._bytes_max, opener=self._handshake.opener())
            data = self._handshake.rest()
        self.heard += shown(self._reader.feed(data))
        self.refused = self._reader.trouble
        self.kept_bytes_max = max(self.kept_bytes_max, self._reader.kept_bytes)


class RawPeer:
    """A socket whose bytes are the test's."""

    def __init__(self, address: str, said: bytes = b"") -> None:
        host, _, port = address.rpartition(":")
        self.connection = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.say(said)

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.connection.recv(size - len(data))
            assert more, f"the hall closed the connection after {data!r}"
            data += more
        return data

    def read_frame(self) -> tuple[int, bytes]:
        flags = self.read(1)[0]
        size = int.from_bytes(self.read(8 if flags & LONG else 1), "big")
        return flags & ~LONG, self.read(size)

    def is_closed(self) -> bool:
        """Whether the hall closes the connection, whatever it says before."""
        try:
            while self.connection.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
