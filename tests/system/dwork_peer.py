"""A dwork client for tests: a plain REQ socket with our codec, which asks again until it is answered."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

import zmq

from hiringhall.dialects.dwork import wire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from hiringhall.dialects.dwork.wire import Query

PATIENCE_S: Final = 60.0
"""Whoever is not answered for this long gives up."""


class Asker:
    """One request, one answer. After `timeout_s` without one the request is sent again, by a new socket."""

    def __init__(
        self, address: str, timeout_s: float = 20.0, keys: tuple[bytes, bytes, bytes] | None = None
    ) -> None:
        self._endpoint = f"tcp://{address}"
        self._timeout_ms = round(timeout_s * 1000)
        self._keys = keys
        """The server's public key, the own public and the own secret key."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._connect()
        self.resent = 0
        """How often a request was sent again; the hall may have acted on the first one."""

    def _connect(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.REQ)
        socket.setsockopt(zmq.LINGER, 0)
        if self._keys is not None:
            server, public, secret = self._keys
            socket.setsockopt(zmq.CURVE_SERVERKEY, server)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
            socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
        socket.connect(self._endpoint)
        return socket

    def ask_once(self, body: bytes, timeout_s: float) -> Query | None:
        """The answer; None when there is none in time."""
        self._socket.send(body)
        if self._socket.poll(round(timeout_s * 1000)):
            return wire.parse(self._socket.recv())
        self._socket.close()
        self._socket = self._connect()
        return None

    def ask(self, body: bytes) -> Query:
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask_once(body, self._timeout_ms / 1000)
            if answer is not None:
                return answer
            assert time.monotonic() < give_up_s, f"no answer within {PATIENCE_S} s"
            self.resent += 1

    def create(self, tasks: Sequence[tuple[bytes, Sequence[bytes]]]) -> None:
        """Tasks with their predecessors."""
        encoded = [wire.encode_task(name, b"o", list(preds)) for name, preds in tasks]
        answer = self.ask(wire.encode(wire.CREATE, encoded))
        assert answer.type == wire.OK, answer.name

    def steal(self, location: bytes, n: int | None = None) -> tuple[int, list[bytes]]:
        """The type of the answer, and the names of the tasks."""
        answer = self.ask(wire.encode(wire.STEAL, n=n, location=location))
        return answer.type, [task.name for task in answer.tasks]

    def complete(self, location: bytes, names: Sequence[bytes]) -> list[bytes]:
        """Those that the hall does not know, or not as this location's."""
        encoded = [wire.encode_task(name, b"") for name in names]
        answer = self.ask(wire.encode(wire.COMPLETE, encoded, location=location))
        assert answer.type in (wire.OK, wire.NOT_FOUND), answer.name
        return [task.name for task in answer.tasks]

    def leave(self, location: bytes) -> bool:
        """Mark a location down; whether it was known."""
        answer = self.ask(wire.encode(wire.EXIT, location=location))
        assert answer.type in (wire.OK, wire.NOT_FOUND), answer.name
        return answer.type == wire.OK

    def status(self) -> tuple[int, int, int]:
        """Tasks that are ready, waiting and assigned."""
        answer = self.ask(wire.encode(wire.OK))
        assert answer.type == wire.OK
        assert answer.name is not None
        ready, waiting, assigned, _ = (int(part.split()[0]) for part in answer.name.split(b","))
        assert ready == answer.n
        return ready, waiting, assigned

    def lookup(self, name: bytes) -> bytes | None:
        """The location that holds or ran a task."""
        return self.ask(wire.encode(wire.LOOKUP, name=name)).location

    def close(self) -> None:
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
