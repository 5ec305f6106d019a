"""The doors of a standby pass bytes on, both ways, and close what they pass on when the active hall changes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hiringhall.cluster.passing import PassDoor
from hiringhall.cluster.standby import read_addresses, write_addresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S = 20.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def passing() -> AsyncIterator[tuple[PassDoor, tuple[str, int], asyncio.Queue[Streams]]]:
    """A door before a server; what the server accepts."""
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    ended: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(writer)
        accepted.put_nowait((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[:2]
    door = PassDoor(lambda: target)
    address = await door.open("127.0.0.1", 0)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield door, address, accepted
    finally:
        await door.close()
        server.close()
        for writer in ended:
            writer.transport.abort()
        await asyncio.sleep(0)


def test_bytes_pass_both_ways_and_an_end_passes_too() -> None:
    async def story() -> None:
        async with passing() as (_, address, accepted):
            reader, writer = await asyncio.open_connection(*address)
            hall_reader, hall_writer = await accepted.get()
            large = bytes(range(256)) * 40_000
            writer.write(large)
            assert await hall_reader.readexactly(len(large)) == large
            hall_writer.write(large)
            assert await reader.readexactly(len(large)) == large
            writer.write_eof()
            assert await hall_reader.read() == b""
            hall_writer.write(b"the last answer")
            hall_writer.close()
            assert await reader.read() == b"the last answer"
            writer.close()

    asyncio.run(story())


def test_dropped_connections_are_closed_and_new_ones_pass() -> None:
    async def story() -> None:
        async with passing() as (door, address, accepted):
            reader, writer = await asyncio.open_connection(*address)
            hall_reader, hall_writer = await accepted.get()
            assert door.connections == 1
            door.drop()
            assert await _is_closed(reader)
            assert await _is_closed(hall_reader)
            writer.close()
            hall_writer.close()
            _, again_writer = await asyncio.open_connection(*address)
            again_reader, _ = await accepted.get()
            again_writer.write(b"again")
            assert await again_reader.readexactly(5) == b"again"
            again_writer.close()
            await again_writer.wait_closed()

    asyncio.run(story())


def test_without_an_active_hall_a_connection_is_closed_at_once() -> None:
    async def story() -> None:
        door = PassDoor(lambda: None)
        reader, writer = await asyncio.open_connection(*await door.open("127.0.0.1", 0))
        async with asyncio.timeout(PATIENCE_S):
            assert await _is_closed(reader)
        writer.close()
        await door.close()

    asyncio.run(story())


def test_addresses_are_read_as_they_were_written_and_anything_else_counts_as_none() -> None:
    doors = [[("127.0.0.1", 4730)], [("::1", 1), ("", 0)]]
    assert read_addresses(write_addresses(doors)) == doors
    for text in ("", "{}", "7", "[[1]]", "[[[1, 2, 3]]]", '[[["host", "port"]]]'):
        assert read_addresses(text) == []


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except OSError:
        return True
