"""A bare connection to a Gearman server: packets exactly as a test wants them, and everything that comes back.

Unlike a client of ours it hides nothing: a test knows each JOB_CREATED that it did receive, and each that
it did not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from types import TracebackType

ANSWER_S: Final = 20.0
_READ_BYTES: Final = 65536


class Closed(Exception):
    """The server, or the network, ended the connection."""


class RawLink:
    """One connection. Every wait is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._packets = wire.Reader(wire.RESPONSE)
        self._heard: deque[tuple[int, bytes]] = deque()

    @classmethod
    async def open(cls, port: int) -> RawLink:
        """Raises Closed when nobody listens."""
        try:
            return cls(*await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), ANSWER_S))
        except OSError as error:
            raise Closed(str(error)) from error

    def write(self, data: bytes) -> None:
        """Bytes as they are. Nothing is waited for."""
        self._writer.write(data)

    def send(self, packet_type: int, *args: bytes) -> None:
        self._writer.write(wire.pack_request(packet_type, *args))

    async def drained(self) -> None:
        """Until the network has taken most of what was written."""
        try:
            await asyncio.wait_for(self._writer.drain(), ANSWER_S)
        except OSError as error:
            raise Closed(str(error)) from error

    async def receive(self, timeout_s: float = ANSWER_S) -> tuple[int, bytes]:
        """The next packet; raises Closed, or TimeoutError."""
        while not self._heard:
            data = await self.receive_bytes(timeout_s)
            if not data:
                raise Closed("end of stream")
            self._heard.extend(self._packets.feed(data))
            assert self._packets.error is None, f"the server sent nonsense: {self._packets.error.text}"
        return self._heard.popleft()

    async def receive_bytes(self, timeout_s: float = ANSWER_S) -> bytes:
        """Whatever comes next; empty at the end of the stream."""
        try:
            return await asyncio.wait_for(self._reader.read(_READ_BYTES), timeout_s)
        except OSError as error:
            raise Closed(str(error)) from error

    async def ask(self, packet_type: int, *args: bytes) -> tuple[int, bytes]:
        """One packet, and the next that comes back."""
        self.send(packet_type, *args)
        return await self.receive()

    async def until_end(self) -> list[tuple[int, bytes]]:
        """All packets until the server closes the connection; raises TimeoutError if it does not."""
        with contextlib.suppress(Closed):
            while data := await self.receive_bytes():
                self._heard.extend(self._packets.feed(data))
        assert self._packets.error is None, f"the server sent nonsense: {self._packets.error.text}"
        packets = list(self._heard)
        self._heard.clear()
        return packets

    def half_close(self) -> None:
        """Say that nothing more will come; raises Closed when the server has hung up already."""
        try:
            self._writer.write_eof()
        except OSError as error:
            raise Closed(str(error)) from error

    def abort(self) -> None:
        """Gone without a word, as in a crash."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), ANSWER_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def complete_one(worker: RawLink) -> bytes:
    """Be a worker for one job: wait for it, answer with its payload reversed; the payload."""
    while True:
        kind, body = await worker.ask(wire.GRAB_JOB)
        if kind == wire.NOOP:
            kind, body = await worker.receive()
        if kind == wire.JOB_ASSIGN:
            break
        assert kind == wire.NO_JOB, f"{wire.NAMES[kind]}: {body!r}"
        worker.send(wire.PRE_SLEEP)
        while (await worker.receive())[0] != wire.NOOP:
            pass
    handle, _, payload = body.split(b"\0", 2)
    worker.send(wire.WORK_COMPLETE, handle, payload[::-1])
    return payload
