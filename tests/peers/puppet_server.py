"""A Gearman server whose every packet a test decides: it hears what a peer of ours sends, and says what it is
told.

The law: each step waits, with a deadline, for what should come; a packet that was not expected fails the test.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.gearman import wire

if TYPE_CHECKING:
    from types import TracebackType

STEP_S: Final = 30.0


class Line:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._packets = wire.Reader(wire.REQUEST)
        self._heard: deque[tuple[int, bytes]] = deque()

    async def hear(self) -> tuple[str, bytes]:
        """The name and the body of the next packet."""
        async with asyncio.timeout(STEP_S):
            while not self._heard:
                data = await self._reader.read(65536)
                if not data:
                    return "closed", b""
                self._heard.extend(self._packets.feed(data))
        packet_type, body = self._heard.popleft()
        return wire.NAMES[packet_type], body

    async def expect(self, *packets: tuple[str, bytes]) -> None:
        """These packets and no others come next."""
        for packet in packets:
            heard = await self.hear()
            assert heard == packet, f"expected {packet}, heard {heard}"

    def say(self, packet_type: int, *args: bytes) -> None:
        self._writer.write(wire.pack_response(packet_type, *args))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def read_line(self) -> bytes:
        async with asyncio.timeout(STEP_S):
            return await self._reader.readline()

    async def hang_up(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def drop(self) -> None:
        self._writer.close()


class PuppetServer:
    """Listens on the loopback; each connection is a `Line`, in the order of coming."""

    def __init__(self) -> None:
        self.address = ""
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        self._all: list[Line] = []
        self._server: asyncio.Server

    async def line(self) -> Line:
        """The next connection."""
        async with asyncio.timeout(STEP_S):
            return await self._lines.get()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for line in self._all:
            line.drop()
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer)
        self._all.append(line)
        self._lines.put_nowait(line)
