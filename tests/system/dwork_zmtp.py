"""ZMTP 3.0 by hand, for what no ZeroMQ library would send: the handshake without security, then any frames.

greeting   FF 00*8 7F  03 00  "NULL" 00*16  00  00*31     64 bytes, from both sides
command    04 size  05 "READY"  name-size name  value-size(4) value ...
frame      flags (1: more follows, 2: the size has 8 bytes)  size  body
"""

from __future__ import annotations

import socket
from struct import pack
from typing import Final, Self

GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE: Final = 1
_LONG: Final = 2
_COMMAND: Final = 4
TIMEOUT_S: Final = 20.0


def frame_header(size: int, flags: int = 0) -> bytes:
    """What stands before a body of `size` bytes."""
    return pack(">BB", flags, size) if size < 256 else pack(">BQ", flags | _LONG, size)


def frame(body: bytes, flags: int = 0) -> bytes:
    return frame_header(len(body), flags) + body


def ready(identity: bytes) -> bytes:
    """The command that ends the handshake of a DEALER."""
    properties = b""
    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", identity)):
        properties += pack(">B", len(name)) + name + pack(">I", len(value)) + value
    return frame(b"\x05READY" + properties, _COMMAND)


class RawDealer:
    """A connection that has shaken hands; its bytes are the test's from then on."""

    def __init__(self, port: int, identity: bytes = b"") -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.connection.sendall(GREETING)
        assert self._read(64)[:1] == b"\xff"
        self.connection.sendall(ready(identity))
        flags, size = self._read(2)
        assert flags == _COMMAND
        assert self._read(size).startswith(b"\x05READY")

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def receive(self) -> list[bytes]:
        """One message; commands in between, such as PING, are left out."""
        frames: list[bytes] = []
        while True:
            (flags,) = self._read(1)
            size = int.from_bytes(self._read(8 if flags & _LONG else 1), "big")
            body = self._read(size)
            if flags & _COMMAND:
                continue
            frames.append(body)
            if not flags & MORE:
                return frames

    def is_closed(self) -> bool:
        """Wait for the other side to close, or to send something: whether it closed."""
        try:
            return self.connection.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.connection.recv(size - len(data))
            assert more, "the hall closed the connection"
            data += more
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
