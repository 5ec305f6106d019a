"""A proxy before the hall that keeps its answers back, from the first submit on."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Final, Self

CHUNK_BYTES: Final = 1 << 16
_SUBMIT: Final = b"submit"


class LateAnswers:
    """Passes one connection through. `release` lets the answers go."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"hall://127.0.0.1:{self._listener.getsockname()[1]}"
        self._hall = socket.create_connection(("127.0.0.1", port))
        self._client: socket.socket | None = None
        self._passing = threading.Event()
        self._passing.set()
        self._threads = [threading.Thread(target=work) for work in (self._forward, self._back)]
        self._connected = threading.Event()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._connected.set()
        for end in (self._listener, self._client, self._hall):
            if end is not None:
                _shut(end)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, self._client, self._hall):
            if end is not None:
                end.close()

    def release(self) -> None:
        self._passing.set()

    def _forward(self) -> None:
        try:
            self._client, _ = self._listener.accept()
            self._connected.set()
            while data := self._client.recv(CHUNK_BYTES):
                if _SUBMIT in data:
                    self._passing.clear()
                self._hall.sendall(data)
        except OSError:
            pass
        _shut(self._hall)

    def _back(self) -> None:
        self._connected.wait()
        try:
            while self._client is not None and (data := self._hall.recv(CHUNK_BYTES)):
                self._passing.wait()
                self._client.sendall(data)
        except OSError:
            pass


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
