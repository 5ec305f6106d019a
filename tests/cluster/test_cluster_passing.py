"""The doors of a standby pass bytes on, both ways, and close what they pass on when the active hall changes."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import uvloop

from hiringhall.cluster.passing import PassDoor
from hiringhall.cluster.standby import read_addresses, write_addresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    import pytest

PATIENCE_S = 20.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def run(story: Coroutine[None, None, None]) -> None:
    """On the loop of the hall. An error that nobody reads would stop a hall that has just taken over."""

    async def watched() -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        await story
        gc.collect()
        await asyncio.sleep(0)
        assert faults == []

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(watched())


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

    run(story())


def test_connections_that_break_on_either_side_leave_nothing_behind() -> None:
    async def story() -> None:
        async with passing() as (door, address, accepted):
            for side in ("client", "hall", "both"):
                reader, writer = await asyncio.open_connection(*address)
                hall_reader, hall_writer = await accepted.get()
                writer.write(b"x" * 100_000)
                await hall_reader.readexactly(1)
                if side != "client":
                    hall_writer.transport.abort()
                if side != "hall":
                    writer.transport.abort()
                with suppress(OSError):
                    await (reader if side == "hall" else hall_reader).read()  # to its end
                writer.transport.abort()
                hall_writer.transport.abort()
                while door.connections:  # noqa: ASYNC110 (the door tells nobody)
                    await asyncio.sleep(0)

    run(story())


def test_a_slow_reader_makes_the_other_side_wait() -> None:
    async def story() -> None:
        async with passing() as (_, address, accepted):
            own = socket.create_connection(address)
            try:
                _, hall_writer = await accepted.get()
                sent = 0
                with suppress(TimeoutError):
                    while sent < 64 << 20:
                        hall_writer.write(bytes(1 << 20))
                        async with asyncio.timeout(1.0):
                            await hall_writer.drain()
                        sent += 1 << 20
                assert sent < 32 << 20, "what nobody reads is kept in memory"
            finally:
                own.close()

    run(story())


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

    run(story())


def test_a_connection_that_is_dropped_as_it_arrives_is_closed() -> None:
    class Dropping(PassDoor):
        def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            super()._accepted(reader, writer)
            self.drop()

    async def story() -> None:
        door = Dropping(lambda: ("127.0.0.1", 9))
        address = await door.open("127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE_S):
            await _is_turned_away(address)
            assert door.connections == 0
            await door.close()

    run(story())


def test_a_connection_that_arrives_while_the_door_closes_is_closed() -> None:
    class Closing(PassDoor):
        def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.closing = asyncio.ensure_future(self.close())
            asyncio.get_running_loop().call_later(0, super()._accepted, reader, writer)

    async def story() -> None:
        async with passing() as (door, _, accepted):
            closing = Closing(door._find_target)
            address = await closing.open("127.0.0.1", 0)
            await _is_turned_away(address)
            await closing.closing
            assert accepted.empty()

    run(story())


def test_an_active_hall_that_does_not_answer_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hiringhall")

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            target = unused.getsockname()[:2]
        door = PassDoor(lambda: target)
        address = await door.open("127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                await _is_turned_away(address)
            await door.close()

    run(story())
    assert caplog.text.count("does not answer") == 1


def test_without_an_active_hall_a_connection_is_closed_at_once() -> None:
    async def story() -> None:
        door = PassDoor(lambda: None)
        reader, writer = await asyncio.open_connection(*await door.open("127.0.0.1", 0))
        async with asyncio.timeout(PATIENCE_S):
            assert await _is_closed(reader)
        writer.close()
        await door.close()

    run(story())


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


async def _is_turned_away(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    try:
        assert await _is_closed(reader)
    finally:
        writer.close()
