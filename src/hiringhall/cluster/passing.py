"""The doors of a standby: they pass every connection on, byte for byte, to the active hall.

Invariant: nothing is read of what passes, so encryption and identity stay between the client and the active
hall. When the doors close, every connection that they pass on is closed, and its client comes again.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK_BYTES: Final = 65_536
CONNECT_S: Final = 2.0
"""A client is turned away if the active hall does not accept its connection in this time."""
CONNECTIONS_MAX: Final = 10_000
"""Connections that one door passes on at the same time."""

_log = logging.getLogger("hiringhall")


class PassDoor:
    """One address. `find_target` says where the active hall has the same door; None: nobody is active."""

    def __init__(self, find_target: Callable[[], tuple[str, int] | None]) -> None:
        self._find_target = find_target
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that was bound."""
        self._server = await asyncio.start_server(self._accepted, host, port)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    def drop(self) -> None:
        """Close every connection."""
        for task in self._passing:
            task.cancel()

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        if self._server is not None:
            self._server.close()
        self.drop()
        await asyncio.gather(*self._passing, return_exceptions=True)

    @property
    def connections(self) -> int:
        return len(self._passing)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._passing) >= CONNECTIONS_MAX:
            _log.warning("a connection is refused: this standby passes on %d already", CONNECTIONS_MAX)
            writer.close()
            return
        task = asyncio.ensure_future(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = self._find_target()
            if target is None:
                return
            try:
                async with asyncio.timeout(CONNECT_S):
                    onward_reader, onward_writer = await asyncio.open_connection(*target)
            except (OSError, TimeoutError) as error:
                _log.info("the active hall at %s:%d does not answer: %s", *target, error)
                return
            try:
                await _pump_both(reader, writer, onward_reader, onward_writer)
            except asyncio.CancelledError:
                onward_writer.transport.abort()
                raise
            onward_writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        finally:
            writer.close()


async def _pump_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    onward_reader: asyncio.StreamReader,
    onward_writer: asyncio.StreamWriter,
) -> None:
    """Pass bytes on in both directions until both have ended."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_pump(reader, onward_writer))
        group.create_task(_pump(onward_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # The other side is gone: its own end is passed on by the other direction.
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        return
    writer.transport.abort()
