"""A broker whose every message a test decides: a ROUTER that hears what a peer of ours sends, and says what it
is told.

The law: each step waits, with a deadline, for what should come; a message that was not expected fails the test.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

import zmq

from stage.ports import free_port

if TYPE_CHECKING:
    from types import TracebackType

STEP_MS: Final = 30_000


class Broker:
    """Binds a new port, or the one it had before."""

    def __init__(self, address: str = "", *, curve_secret_key: bytes = b"") -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._router.linger = 0
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if curve_secret_key:
            self._router.setsockopt(zmq.CURVE_SERVER, 1)
            self._router.setsockopt(zmq.CURVE_SECRETKEY, curve_secret_key)
        self.address = address or f"127.0.0.1:{free_port()}"
        self._router.bind(f"tcp://{self.address}")

    def hear(self, timeout_ms: int = STEP_MS) -> list[bytes]:
        """All frames of the next message."""
        assert self._router.poll(timeout_ms), f"nothing was heard within {timeout_ms} ms"
        return self._router.recv_multipart()

    def hear_from(self, peer: bytes, *frames: bytes) -> None:
        """The next message is this one of that peer."""
        assert self.hear() == [peer, *frames]

    def is_silent(self, duration_s: float) -> bool:
        """Whether nothing is heard for so long."""
        return not self._router.poll(round(duration_s * 1000))

    def loses(self, peer: bytes, within_s: float = 30.0) -> bool:
        """Whether a worker cannot be reached any more: ZeroMQ hears of that a moment after it has gone."""
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            try:
                self.say(peer, b"", b"PONG")
            except zmq.ZMQError as error:
                return error.errno == zmq.EHOSTUNREACH
            self.is_silent(0.01)
        return False

    def welcome(self) -> bytes:
        """A worker that was not there before says READY; its identity."""
        peer, *frames = self.hear()
        assert frames == [b"", b"READY"]
        return peer

    def say(self, peer: bytes, *frames: bytes) -> None:
        self._router.send_multipart([peer, *frames])

    def pings_until(self, peer: bytes, moment_s: float) -> int:
        """How many PINGs come until then; each is answered."""
        count = 0
        while (left_s := moment_s - time.monotonic()) > 0 and self._router.poll(round(left_s * 1000)):
            self.hear_from(peer, b"", b"PING")
            self.say(peer, b"", b"PONG")
            count += 1
        return count

    def close(self) -> None:
        self._router.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
