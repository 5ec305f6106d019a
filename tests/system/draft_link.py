"""A bare connection of the draft's protocol: packets as a test wants them, and everything that comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.gearman_draft import wire

if TYPE_CHECKING:
    from types import TracebackType

ANSWER_S: Final = 20.0
_READ_BYTES: Final = 65536


class DraftLink:
    """One connection. Every wait is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._packets = wire.Reader()
        self._heard: deque[tuple[str, bytes]] = deque()

    @classmethod
    async def open(cls, address: str) -> DraftLink:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.wait_for(asyncio.open_connection(host, int(port)), ANSWER_S))

    @property
    def name(self) -> str:
        """Its own address and port."""
        host, port = self._writer.get_extra_info("sockname")
        return f"{host}:{port}"

    def send(self, *packets: bytes) -> None:
        self._writer.write(b"".join(packets))

    async def receive(self, timeout_s: float = ANSWER_S) -> tuple[str, bytes]:
        """The name and the body of the next packet; raises TimeoutError, or EOFError at the stream's end."""
        async with asyncio.timeout(timeout_s):
            while not self._heard:
                data = await self._reader.read(_READ_BYTES)
                if not data:
                    raise EOFError
                packets = self._packets.feed(data)
                assert self._packets.error is None, f"the hall sent nonsense: {self._packets.error.text}"
                self._heard.extend((wire.NAMES[packet_type], body) for packet_type, body in packets)
        return self._heard.popleft()

    async def ask(self, *packets: bytes) -> tuple[str, bytes]:
        """Say something, and hear the next packet that comes back."""
        self.send(*packets)
        return await self.receive()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
