"""A server of the draft's protocol whose every packet a test decides: it hears what a peer of ours sends, and
says what it is told.

The law: each step waits, with a deadline, for what should come; a packet that was not expected fails the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from hiringhall.dialects.gearman_draft import wire
from stage.ports import free_port

if TYPE_CHECKING:
    from types import TracebackType

STEP_S: Final = 30.0
CLOSED: Final = ("closed", b"")


class DraftLine:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._packets = wire.Reader()
        self._heard: deque[tuple[int, bytes]] = deque()

    async def hear(self) -> tuple[str, bytes]:
        """The name and the body of the next packet."""
        async with asyncio.timeout(STEP_S):
            while not self._heard:
                data = b""
                with contextlib.suppress(ConnectionError):
                    data = await self._reader.read(65536)
                if not data:
                    return CLOSED
                self._heard.extend(self._packets.feed(data))
                assert self._packets.error is None, self._packets.error.text
        packet_type, body = self._heard.popleft()
        return wire.NAMES[packet_type], body

    async def expect(self, *packets: tuple[str, bytes] | str) -> None:
        """These packets and no others come next; a bare name is a packet without a body."""
        for packet in packets:
            expected = (packet, b"") if isinstance(packet, str) else packet
            heard = await self.hear()
            assert heard == expected, f"expected {expected}, heard {heard}"

    async def hear_slowly(self, pause_s: float) -> tuple[str, bytes]:
        """The next packet, over a line that passes 64 KiB after each pause."""
        while not self._heard:
            await asyncio.sleep(pause_s)
            async with asyncio.timeout(STEP_S):
                data = await self._reader.read(65536)
            if not data:
                return CLOSED
            self._heard.extend(self._packets.feed(data))
        return await self.hear()

    async def begun(self) -> None:
        """Something is coming. Nothing more can be heard after this."""
        async with asyncio.timeout(STEP_S):
            assert await self._reader.read(1)

    def say(self, *packets: bytes) -> None:
        self._writer.write(b"".join(packets))

    async def trickle(self, *packets: bytes) -> None:
        """Say it byte by byte, each on its own way."""
        for byte in b"".join(packets):
            self._writer.write(bytes((byte,)))
            await self._writer.drain()
            await asyncio.sleep(0)

    def drop(self) -> None:
        self._writer.close()


class DraftPuppet:
    """Listens on the loopback; each connection is a `DraftLine`, in the order of coming.

    `receive_bytes` is what the system keeps for it unread; 0: as the system likes.
    """

    def __init__(self, receive_bytes: int = 0) -> None:
        self._receive_bytes = receive_bytes
        self.address = ""
        self._lines: asyncio.Queue[DraftLine] = asyncio.Queue()
        self._all: list[DraftLine] = []
        self._server: asyncio.Server | None = None

    async def line(self) -> DraftLine:
        """The next connection."""
        async with asyncio.timeout(STEP_S):
            return await self._lines.get()

    async def open(self) -> None:
        """Listen; at the same address as before, if there was one."""
        port = int(self.address.rpartition(":")[2] or free_port())
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        if self._receive_bytes:
            # Before anybody comes: connections have what their listener has.
            listener = self._server.sockets[0]
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        self.address = f"127.0.0.1:{port}"

    async def close(self) -> None:
        """Be gone: nobody listens, and every connection is cut."""
        if self._server is not None:
            self._server.close()
            for line in self._all:
                line.drop()
            self._all.clear()
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = DraftLine(reader, writer)
        self._all.append(line)
        self._lines.put_nowait(line)
