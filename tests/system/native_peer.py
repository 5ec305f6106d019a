"""A peer of the native protocol, written from its page: one socket, frames in and out."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 20.0


class NativeError(Exception):
    """The hall refused: code and text."""


class NativePeer:
    """Asks and is told. Frames that answer nothing wait until somebody wants them."""

    def __init__(self, place: int | Path, *, greet: bool = True) -> None:
        """`place`: a port of this machine, or the file of a Unix socket."""
        if isinstance(place, int):
            self.socket = socket.create_connection(("127.0.0.1", place), timeout=TIMEOUT_S)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(TIMEOUT_S)
            self.socket.connect(str(place))
        self._file = self.socket.makefile("rb")
        self._number = 0
        self._waiting: list[tuple[str, int, Any]] = []
        if greet:
            try:
                self.hello = self.ask("hello", {"version": 1, "name": "test"})
            except OSError:
                self.close()
                raise

    def send(self, kind: str, body: object, number: int = 0) -> None:
        data = msgspec.msgpack.encode((kind, number, body))
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def ask(self, kind: str, body: object) -> Any:
        self._number += 1
        self.send(kind, body, self._number)
        return self.answer(self._number)

    def answer(self, number: int) -> Any:
        kind, _, body = self._next(lambda frame: frame[1] == number)
        if kind == "error":
            raise NativeError(*body)
        assert kind == "ok"
        return body

    def hear(self, kind: str) -> Any:
        """The body of the next frame of this kind that answers nothing."""
        return self._next(lambda frame: frame[:2] == (kind, 0))[2]

    def hear_of(self, kind: str, job: int) -> Any:
        """The body of the next frame of this kind about this job."""
        return self._next(lambda frame: frame[:2] == (kind, 0) and frame[2][0] == job)[2]

    @property
    def unclaimed(self) -> list[tuple[str, int, Any]]:
        """Frames that came and that nobody has asked for."""
        return self._waiting

    def submit(self, queue: bytes, payload: bytes, key: bytes = b"", watch: int = 0, **terms: object) -> int:
        (job,) = self.ask("submit", (watch, [(queue, payload, terms, key, 0, [])]))
        assert isinstance(job, int)
        return job

    def work(self, queue: bytes, slots: int = 1, name: bytes = b"bob") -> Self:
        self.ask("work", (name, slots, [(queue, 0, 0)], -1, 0))
        return self

    def read(self) -> tuple[str, int, Any] | None:
        """The next frame; None: the hall has closed the connection."""
        header = self._file.read(4)
        if not header:
            return None
        (length,) = struct.unpack(">I", header.ljust(4))
        data = self._file.read(length) if len(header) == 4 else b""
        if len(data) < length:
            raise ConnectionResetError("the hall has closed the connection in the middle of a frame")
        kind, number, body = msgspec.msgpack.decode(data)
        return kind, number, body

    def _next(self, wanted: Any) -> tuple[str, int, Any]:
        for place, frame in enumerate(self._waiting):
            if wanted(frame):
                return self._waiting.pop(place)
        while True:
            frame = self.read()
            if frame is None:
                raise ConnectionResetError("the hall has closed the connection")
            if wanted(frame):
                return frame
            self._waiting.append(frame)

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
